"""Files without some of their rows: what comes back is what was kept, in every format, however small the chunks."""

import csv
import struct

import numpy as np
import pytest
import torch

from rince.errors import UsageError
from rince.pairs import array_files, format
from rince.pairs.format import Selection, format_of, naming
from rince.pairs.source import Source

N = 50
KEPT = np.random.default_rng(0).random(N) < 0.6
TRUST = np.linspace(0, 1, N, dtype=np.float32)
A = np.random.default_rng(1).normal(size=(N, 3, 2)).astype(np.float16)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(array_files, "CHUNK_BYTES", 40)
    monkeypatch.setattr(format, "ROWS", 7)


def written(path, weights=None, kept=KEPT, header=True, column=None):
    target = path.with_name(f"new-{path.name}")
    selection = Selection(kept, weights)
    with naming(path):
        format_of(Source(path, column, header)).write(path, target, selection)
    assert selection.start == len(kept)
    return target


@pytest.mark.parametrize("array", [A, np.asfortranarray(A), A[:, 0, 0] > 0, np.arange(N)], ids=str)
def test_npy(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    new = np.load(written(tmp_path / "x.npy"))
    assert new.dtype == array.dtype and np.array_equal(new, array[KEPT])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_filters_what_has_a_row_per_pair_and_copies_the_rest(tmp_path, save):
    save(tmp_path / "x.npz", a=A, ids=np.arange(N).astype("U4"), other=np.asfortranarray(np.eye(4)))
    new = np.load(written(tmp_path / "x.npz", TRUST, column="a"))
    assert sorted(new.files) == ["a", "ids", "other", "weight"]
    assert np.array_equal(new["a"], A[KEPT]) and np.array_equal(new["ids"], np.arange(N).astype("U4")[KEPT])
    assert np.array_equal(new["other"], np.eye(4)) and np.array_equal(new["weight"], TRUST[KEPT])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_text_keeps_other_columns_quotes_and_line_ends(tmp_path, end):
    rows = [[str(i), f'say "{i}", twice\nor more', ""] for i in range(N)]
    path = tmp_path / "x.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator=end).writerows([["id", "text", "empty"], *rows])
    new = written(path)
    with open(new, newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["id", "text", "empty"], *(r for r, k in zip(rows, KEPT, strict=True) if k)]
    assert (end == "\r\n") == (b"\r\n" in new.read_bytes())
    with open(written(path, TRUST), newline="", encoding="utf-8") as file:
        found = [float(row["weight"]) for row in csv.DictReader(file)]
    assert np.allclose(found, TRUST[KEPT], atol=1e-6)


def test_text_without_a_header(tmp_path):
    (tmp_path / "x.tsv").write_text("".join(f"{i}\t{i}.5\n" for i in range(N)))
    lines = written(tmp_path / "x.tsv", header=False).read_text().splitlines()
    assert lines == [f"{i}\t{i}.5" for i in np.flatnonzero(KEPT)]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_parquet_keeps_types_and_other_columns(tmp_path, codec):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    table = arrow.table({"id": np.arange(N), "v": [[float(i), 2.0] for i in range(N)], "t": [None, *"x" * (N - 1)]})
    parquet.write_table(table, tmp_path / "x.parquet", compression=codec, row_group_size=11)
    new = written(tmp_path / "x.parquet")
    assert parquet.read_table(new).equals(table.filter(arrow.array(KEPT)))
    assert parquet.ParquetFile(new).metadata.row_group(0).column(0).compression.lower() in (codec, "uncompressed")
    weighted = parquet.read_table(written(tmp_path / "x.parquet", TRUST))
    assert weighted.column_names == ["id", "v", "t", "weight"]
    assert np.array_equal(weighted["weight"].to_numpy(), TRUST[KEPT])


def test_safetensors_keeps_dtypes_and_notes(tmp_path):
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    tensors = {"a": torch.from_numpy(A).bfloat16(), "scale": torch.tensor([2.0, 3.0]), "y": torch.arange(N)}
    save_file(tensors, tmp_path / "x.safetensors", metadata={"by": "me"})
    path = written(tmp_path / "x.safetensors", TRUST, column="a")
    new = load_file(path)
    assert torch.equal(new["a"], tensors["a"][KEPT]) and torch.equal(new["y"], tensors["y"][KEPT])
    assert torch.equal(new["scale"], tensors["scale"]) and torch.equal(new["weight"], torch.from_numpy(TRUST[KEPT]))
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == {"by": "me"}


def test_more_rows_than_the_audit_and_existing_weights_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", A)
    with pytest.raises(UsageError, match=r"x\.npy has more rows than the audit \(49\)"):
        written(tmp_path / "x.npy", kept=KEPT[:-1])
    np.savez(tmp_path / "x.npz", a=A, weight=TRUST)
    with pytest.raises(UsageError, match="already has a field 'weight'"):
        written(tmp_path / "x.npz", TRUST, column="a")
    for content in (b"", struct.pack("<Q", 10**12), struct.pack("<Q", 2) + b"[]"):
        (tmp_path / "x.safetensors").write_bytes(content)
        with pytest.raises(UsageError, match=r"x\.safetensors is cut off or not a"):
            written(tmp_path / "x.safetensors")


def test_a_damaged_file_is_one_sentence_with_its_name(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"a\n\xf5\n")
    (tmp_path / "x.npy").write_bytes(b"nothing")
    (tmp_path / "x.parquet").write_bytes(b"PAR1nothingPAR1")
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"a": np.arange(N)}), tmp_path / "pages.parquet")
    content = bytearray((tmp_path / "pages.parquet").read_bytes())
    content[4:30] = b"\xff" * 26  # the head of the first page
    (tmp_path / "pages.parquet").write_bytes(content)
    for name in ("x.csv", "x.npy", "x.parquet", "pages.parquet"):
        with pytest.raises(UsageError, match=rf"{name}"):
            written(tmp_path / name)


def test_a_csv_file_that_the_audit_reads_is_written_too(tmp_path):
    """Long cells, and empty lines at the end."""
    rows = [f"{i},{'x' * (200_000 if i == 3 else 3)}" for i in range(N)]
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(rows) + "\n\n\n")
    kept = written(tmp_path / "t.csv").read_text().splitlines()
    assert kept == ["a,b", *(row for row, stays in zip(rows, KEPT, strict=True) if stays)]


def test_byte_order_mark_before_a_quoted_header_is_kept(tmp_path):
    path, head = tmp_path / "x.csv", b'\xef\xbb\xbf"question","answer"\r\n"a, b",c\r\n'
    path.write_bytes(head + b"d,e\r\n")
    assert written(path, kept=np.array([True, False])).read_bytes() == head
