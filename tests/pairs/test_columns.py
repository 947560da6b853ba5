import csv
import gzip
import struct
import warnings
import zipfile

import numpy as np
import pytest
import torch

from rince.errors import UsageError
from rince.pairs.columns import check_different, matrix, values
from rince.pairs.matrix import codes
from rince.pairs.source import source

DATA = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)


def write_csv(path, names, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([names, *rows])


def test_npy_is_mapped_not_read(tmp_path):
    np.save(tmp_path / "x.npy", DATA)
    found = matrix(source(str(tmp_path / "x.npy")), tmp_path)
    assert isinstance(found, np.memmap) and (found == DATA).all()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_by_name_or_the_only_array(tmp_path, save):
    save(tmp_path / "two.npz", image=DATA, text=DATA[:, :2])
    save(tmp_path / "one.npz", image=DATA)
    (tmp_path / "s").mkdir()
    assert (matrix(source(f"{tmp_path}/two.npz:text"), tmp_path / "s") == DATA[:, :2]).all()
    assert (matrix(source(f"{tmp_path}/one.npz"), tmp_path / "s") == DATA).all()
    with pytest.raises(ValueError, match=r"image, text: .*two\.npz:image"):
        matrix(source(f"{tmp_path}/two.npz"), tmp_path / "s")


def test_csv_columns_by_name_list_or_pattern(tmp_path, monkeypatch):
    monkeypatch.setattr("rince.pairs.format.ROWS", 30)
    write_csv(tmp_path / "t.csv", ["id", "x0", "x1", "y0", "y1"], [[f"n{i}", *row] for i, row in enumerate(DATA)])
    (tmp_path / "s").mkdir()
    assert np.allclose(matrix(source(f"{tmp_path}/t.csv:x*"), tmp_path / "s"), DATA[:, :2])
    assert np.allclose(matrix(source(f"{tmp_path}/t.csv:y1,x0"), tmp_path / "s"), DATA[:, [3, 0]])
    assert list(values(source(f"{tmp_path}/t.csv:id"))) == [f"n{i}" for i in range(100)]
    with pytest.raises(ValueError, match=r"'n0' in column id, row 0"):
        matrix(source(f"{tmp_path}/t.csv"), tmp_path / "s")
    with pytest.raises(ValueError, match=r"no column z; it has id, x0"):
        matrix(source(f"{tmp_path}/t.csv:z"), tmp_path / "s")
    with pytest.raises(ValueError, match=r"columns id, x0.* FILE:COLUMN.*t\.csv:id"):
        values(source(f"{tmp_path}/t.csv"))


def test_a_short_line_of_a_csv_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,2\n3\n")
    with pytest.raises(ValueError, match="1 cell instead of 2 in line 3"):
        matrix(source(f"{tmp_path}/t.csv"), tmp_path)


def test_missing_ids_of_tables_equal_no_other(tmp_path, monkeypatch):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("rince.pairs.arrow_files.ROWS", 4)
    monkeypatch.setattr("rince.pairs.format.ROWS", 4)
    write_csv(tmp_path / "t.csv", ["id", "x"], [[name, 0] for name in ("p", "", "q", "", "p", "q")])
    found = codes(values(source(f"{tmp_path}/t.csv:id")), "ids", 6)
    assert len(set(found)) == 4 and found[0] == found[4] and found[2] == found[5]
    large = 2**60 + 1
    for ids in (["p", None, "q", None, "p", "q"], [large, None, 7, None, large, 7], [0.5, None, 1.5, None, 0.5, 1.5]):
        parquet.write_table(arrow.table({"id": ids}), tmp_path / "t.parquet")
        there = values(source(f"{tmp_path}/t.parquet"))
        found = codes(there, "ids", 6)
        assert len(set(found)) == 4 and found[0] == found[4] and found[2] == found[5]
        assert there[0] == ids[0] and str(there[2]) == str(ids[2])


def test_a_table_of_several_things_lists_its_columns(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"id": [1, 2], "e": [[1.0], [2.0]]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"columns id, e: .*t\.parquet:e"):
        matrix(source(f"{tmp_path}/t.parquet"), tmp_path)
    parquet.write_table(arrow.table({"e": [["a"], ["b"]]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"lists of (large_)?string in column e"):
        matrix(source(f"{tmp_path}/t.parquet:e"), tmp_path)


def test_empty_cells_of_a_csv_are_nan_and_lists_as_text_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,2\n,4\n")
    assert np.array_equal(matrix(source(f"{tmp_path}/t.csv"), tmp_path), [[1, 2], [np.nan, 4]], equal_nan=True)
    write_csv(tmp_path / "l.csv", ["id", "e"], [[1, "[0.1, 0.2]"], [2, "[0.3, 0.4]"]])
    with pytest.raises(ValueError, match=r"column e: .*Parquet or \.npy"):
        matrix(source(f"{tmp_path}/l.csv:e"), tmp_path)


def test_tabs_separate_the_cells_of_a_tsv(tmp_path):
    (tmp_path / "t.tsv").write_text("name\tx\ty\none, two\t1\t2\n")
    assert matrix(source(f"{tmp_path}/t.tsv:x,y"), tmp_path).tolist() == [[1, 2]]
    assert list(values(source(f"{tmp_path}/t.tsv:name"))) == ["one, two"]


@pytest.mark.parametrize("first", ["0.5,1.5", "3,4", "7", "nan,1e-3", "image1,0.2,-0.3", "0"])
def test_a_first_line_of_numbers_is_no_header(tmp_path, first):
    (tmp_path / "t.csv").write_text(f"{first}\n{first}\n")
    with pytest.raises(ValueError, match=r"t\.csv seems to have no header.*--no-header"):
        values(source(f"{tmp_path}/t.csv"))


@pytest.mark.parametrize("first", ["0,1,2", "id,0,1", "x,y,0.5", "left_0.1,left_0.2"])
def test_numbered_columns_are_a_header(tmp_path, first):
    (tmp_path / "t.csv").write_text(f"{first}\n" + ",".join("7" for _ in first.split(",")) + "\n")
    assert len(matrix(source(f"{tmp_path}/t.csv"), tmp_path)) == 1


def test_without_a_header_no_line_is_lost_and_columns_have_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in DATA.tolist()))
    (tmp_path / "s").mkdir()
    assert (matrix(source(f"{tmp_path}/t.csv", header=False), tmp_path / "s") == DATA).all()
    assert (matrix(source(f"{tmp_path}/t.csv:2,0", header=False), tmp_path / "s") == DATA[:, [2, 0]]).all()
    assert len(values(source(f"{tmp_path}/t.csv:3", header=False))) == 100


def test_tensors_of_torch_and_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    data = torch.from_numpy(DATA)
    torch.save(data, tmp_path / "one.pt")
    torch.save(data, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    torch.save({"a": data.half(), "b": data[:, :2], "epoch": 3}, tmp_path / "two.pt")
    safetensors.save_file({"a": data.bfloat16(), "b": data[:, :2].contiguous()}, tmp_path / "x.safetensors")
    (tmp_path / "x.safetensors.gz").write_bytes(gzip.compress((tmp_path / "x.safetensors").read_bytes()))
    for name in ("one.pt", "old.pth"):
        assert (matrix(source(f"{tmp_path}/{name}"), tmp_path) == DATA).all()
    for name in ("two.pt", "x.safetensors", "x.safetensors.gz"):
        assert (matrix(source(f"{tmp_path}/{name}:b"), tmp_path) == DATA[:, :2]).all()
        assert np.allclose(matrix(source(f"{tmp_path}/{name}:a"), tmp_path), DATA, rtol=0.01)
        with pytest.raises(ValueError, match="holds a, b: name one, as"):
            matrix(source(f"{tmp_path}/{name}"), tmp_path)


class Runs:
    def __reduce__(self):
        return (print, ("this code ran",))


def test_a_damaged_torch_file_is_not_opened(tmp_path):
    for content in (b"\x80\x02\x87.", b"\x80\x02\x85.", b"\x80\x02h\x07.", b"\x80\x02."):
        (tmp_path / "x.pt").write_bytes(content)
        with pytest.raises(UsageError, match=r"x\.pt holds more than tensors"):
            matrix(source(f"{tmp_path}/x.pt"), tmp_path)


def test_a_torch_file_that_would_run_code_is_not_opened(tmp_path, capsys):
    torch.save({"a": Runs()}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r"x\.pt holds more than tensors"):
        matrix(source(f"{tmp_path}/x.pt"), tmp_path)
    assert capsys.readouterr().out == ""


def test_a_column_is_not_its_own_partner(tmp_path):
    write_csv(tmp_path / "t.csv", ["x", "y"], [[1, 2]])
    np.save(tmp_path / "x.npy", DATA)
    same = source(f"{tmp_path}/t.csv")
    with pytest.raises(ValueError, match=r"such as .*t\.csv:y; it has x, y"):
        check_different(same, same)
    with pytest.raises(ValueError, match="name two different files"):
        check_different(source(f"{tmp_path}/x.npy"), source(f"{tmp_path}/x.npy"))
    check_different(source(f"{tmp_path}/t.csv:x"), source(f"{tmp_path}/t.csv:y"))


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet", "x.csv", "x.tsv", "x.pt", "x.safetensors"])
def test_an_unreadable_file_is_named(tmp_path, name):
    if name in ("x.parquet", "x.safetensors"):
        pytest.importorskip("pyarrow" if name == "x.parquet" else "safetensors")
    (tmp_path / name).write_bytes(b"\x93 this is not what its name says \xff\xfe\n\x00")
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        matrix(source(str(tmp_path / name)), tmp_path)


def test_pickles_are_never_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"x\.npy cannot be read"):
        matrix(source(str(tmp_path / "x.npy")), tmp_path)


def test_missing_files_and_other_kinds_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        source(str(tmp_path / "x.npy"))
    (tmp_path / "x.xls").write_text("hello")
    with pytest.raises(UsageError, match=r"x\.xls .*\.npy, \.npz"):
        source(str(tmp_path / "x.xls"))


def test_temporary_columns_are_unlinked(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=DATA)
    write_csv(tmp_path / "t.csv", ["x", "y"], DATA[:, :2].tolist())
    (tmp_path / "s").mkdir()
    found = [matrix(source(f"{tmp_path}/{name}"), tmp_path / "s") for name in ("x.npz", "t.csv")]
    assert list((tmp_path / "s").iterdir()) == []
    assert (found[0] == DATA).all() and np.allclose(found[1], DATA[:, :2])


def test_what_was_packed_out_of_nothing_is_not_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros((1000, 1000)))
    monkeypatch.setattr("rince._support.zip_files.MAX_SIZE", 1_000_000)
    for read in (lambda where: matrix(where, tmp_path), values):
        with pytest.raises(UsageError, match=r"x\.npz has 0\.0 MB and would unpack to"):
            read(source(f"{tmp_path}/x.npz"))
    monkeypatch.undo()
    assert matrix(source(f"{tmp_path}/x.npz"), tmp_path).shape == (1000, 1000)


def test_an_array_that_promises_more_than_it_holds_is_refused(tmp_path):
    import io
    import zipfile

    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", head.getvalue() + bytes(80))
    with pytest.raises(UsageError, match=r"x\.npz is cut off"):
        values(source(f"{tmp_path}/x.npz"))


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(5, 2).to_sparse(), "not hold a plain tensor"),
        (torch.empty(5, 2, device="meta"), "not hold a plain tensor"),
        (torch.ones(5, 2).to(torch.complex64).conj(), "not complex"),
        (torch.tensor(3.0), "a single number"),
    ],
)
def test_tensors_that_are_no_plain_numbers_are_refused(tmp_path, tensor, message):
    torch.save(tensor, tmp_path / "a.pt")
    with pytest.raises(UsageError, match=message):
        matrix(source(str(tmp_path / "a.pt")), tmp_path)


def test_numbers_of_eight_bits_are_read(tmp_path):
    values = torch.tensor([[1.0, -0.5], [0.25, 2.0]])
    torch.save(values.to(torch.float8_e4m3fn), tmp_path / "a.pt")
    np.testing.assert_array_equal(matrix(source(str(tmp_path / "a.pt")), tmp_path), values.numpy())


def test_a_shape_that_counts_backwards_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((80, 4), np.float32))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content.replace(b"(80, 4), }", b"(-8, 4), }"))
    with pytest.raises(UsageError, match="cannot be read"):
        matrix(source(str(tmp_path / "a.npy")), tmp_path)


@pytest.mark.parametrize("header", [b"{'descr': (", b"{'descr': '<f", b"{'descr': '<f4', 'shape': 08}", b"\n  x\n y"])
def test_a_header_of_npy_that_cannot_be_parsed_is_one_sentence(tmp_path, header):
    header = header + b" " * (117 - len(header)) + b"\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(UsageError, match=r"x\.npy"):
        matrix(source(str(tmp_path / "x.npy")), tmp_path)


def test_few_distinct_texts_are_labels(tmp_path):
    write_csv(tmp_path / "t.csv", ["id", "kind"], [[k, ("cat", "dog", "")[k % 3]] for k in range(60)])
    found = matrix(source(f"{tmp_path}/t.csv:kind"), tmp_path)
    assert found.shape == (60, 1) and found[:2, 0].tolist() == [0, 1] and np.isnan(found[2::3]).all()
    write_csv(tmp_path / "u.csv", ["id", "kind"], [[k, f"text {k % 30}"] for k in range(60)])
    with pytest.raises(UsageError, match="'text 0' in column kind, row 0"):
        matrix(source(f"{tmp_path}/u.csv:kind"), tmp_path)
    with pytest.raises(UsageError, match="where a number should be"):
        matrix(source(f"{tmp_path}/t.csv"), tmp_path)
    np.save(tmp_path / "y.npy", np.arange(60))
    assert matrix(source(f"{tmp_path}/y.npy"), tmp_path).shape == (60, 1)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("(400, True)", "impossible shape"),
        ("(True,)", "impossible shape"),
        (f"({2**63 - 1},) * 2", ""),
    ],
)
@pytest.mark.parametrize("packed", (False, True))
def test_impossible_shapes_are_one_sentence_without_warnings(tmp_path, shape, message, packed):
    path, head = tmp_path / "x.npy", f"{{'descr': '<f8', 'fortran_order': False, 'shape': {eval(shape)}, }}"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(3200))
    if packed:
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.write(path, "x.npy")
    with warnings.catch_warnings(), pytest.raises(UsageError, match=rf"x\.np[yz] .*{message}"):
        warnings.simplefilter("error", RuntimeWarning)
        matrix(source(str(path.with_suffix(".npz" if packed else ".npy"))), tmp_path)


def test_records_are_no_ids(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(9, dtype=[("a", "f8")]))
    with pytest.raises(UsageError, match=r"got \[\('a', '<f8'\)\]"):
        values(source(str(tmp_path / "x.npy")))
