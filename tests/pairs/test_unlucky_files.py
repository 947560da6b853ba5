"""Files as other programs and people leave them: read as they are meant, or refused in one sentence."""

import gzip
import io
import json
import tarfile

import numpy as np
import pytest

from rince import cli
from rince.errors import UsageError
from rince.pairs.columns import matrix, values
from rince.pairs.layouts import pair_files
from rince.pairs.raw import raw_column
from rince.pairs.source import source
from rince.trust import KeepSample
from rince.trust.clean import kept_pairs, read_audit, write_clean

N = 60
ROWS = np.random.default_rng(0).normal(size=(N, 3)).round(3)


def tar(*members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def test_blank_last_line_of_a_csv_is_not_a_row(tmp_path):
    lines = ["a,b,c", *(",".join(map(str, row)) for row in ROWS), "   ", ""]
    (tmp_path / "x.csv").write_text("\r\n".join(lines))
    assert np.allclose(matrix(source(f"{tmp_path}/x.csv"), tmp_path), ROWS)


def test_missing_numbers_of_other_programs_are_missing(tmp_path):
    (tmp_path / "x.csv").write_text('a\n1\nNA\nnull\n""\n2\nNone\nn/a\n3\n')
    rows = matrix(source(f"{tmp_path}/x.csv:a"), tmp_path)
    assert np.flatnonzero(~np.isnan(rows[:, 0])).tolist() == [0, 4, 7]


def test_stray_quotation_mark_is_named_instead_of_joining_rows(tmp_path):
    lines = [f"text {k}\t{k}" for k in range(N)]
    for marked in ((5,), (5, 9)):
        marks = [f'"{line}' if k in marked else line for k, line in enumerate(lines)]
        (tmp_path / "x.tsv").write_text("\n".join(["a\tb", *marks]) + "\n")
        with pytest.raises(UsageError, match=r"x\.tsv .*quotation mark in line 7"):
            values(source(f"{tmp_path}/x.tsv:a"))
    inside = [f'{line} 5" screen' for line in lines]
    (tmp_path / "x.tsv").write_text("\n".join(["a\tb", *inside, '"two\nlines, ""quoted"""\tx']) + "\n")
    assert values(source(f"{tmp_path}/x.tsv:a")).tolist() == [*(f"text {k}" for k in range(N)), 'two\nlines, "quoted"']


def test_empty_files_and_folders_are_named(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n")
    with pytest.raises(UsageError, match=r"x\.csv:a has no rows"):
        raw_column(source(f"{tmp_path}/x.csv:a"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="folder holds no files"):
        source(f"{tmp_path}/folder")


def test_missing_lists_of_json_lines_are_missing_rows(tmp_path):
    records = [{"x": row.tolist()} if k not in (0, 7) else {"x": None, "y": 1} for k, row in enumerate(ROWS)]
    records[7] = {"y": 2}
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, records)))
    rows = matrix(source(f"{tmp_path}/x.jsonl:x"), tmp_path)
    assert np.flatnonzero(np.isnan(rows).all(1)).tolist() == [0, 7] and np.allclose(rows[8:], ROWS[8:])


def test_json_file_holds_one_object_per_line(tmp_path):
    (tmp_path / "x.json").write_text("".join(f'{{"x": {k}}}\n' for k in range(N)))
    assert matrix(source(f"{tmp_path}/x.json:x"), tmp_path)[:, 0].tolist() == list(range(N))
    for text in (json.dumps([{"x": 1}]), json.dumps([{"x": 1}], indent=1)):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(UsageError, match=r"x\.json has no JSON object in line 1.*jq"):
            matrix(source(f"{tmp_path}/x.json:x"), tmp_path)


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "csv"])
def test_folder_of_shards_of_any_format(tmp_path, ending):
    for number, rows in enumerate(np.array_split(np.arange(N), 12)):
        content = "x\n" if ending == "csv" else ""
        content += "".join(f"{k}\n" if ending == "csv" else f'{{"x": {k}}}\n' for k in rows)
        content = gzip.compress(content.encode()) if ending.endswith("gz") else content.encode()
        (tmp_path / f"part{number}.{ending}").write_bytes(content)
    (tmp_path / ".crc").write_bytes(b"")
    assert matrix(source(f"{tmp_path}:x"), tmp_path)[:, 0].tolist() == list(range(N))


def test_folder_of_img2dataset_is_its_tars(tmp_path):
    (tmp_path / "00000.tar").write_bytes(tar(*((f"{k:05d}.txt", str(k).encode()) for k in range(N))))
    (tmp_path / "00000.parquet").write_bytes(b"")
    (tmp_path / "00000_stats.json").write_text("{}")
    assert values(source(f"{tmp_path}:txt")).tolist() == list(map(str, range(N)))


def test_media_folder_with_a_table_is_a_folder_of_media(tmp_path):
    (tmp_path / "1.png").write_bytes(b"")
    (tmp_path / "captions.csv").write_text("caption\nx\n")
    assert source(str(tmp_path), raw=True).kind == "folder"


def test_port_of_a_url_is_not_a_column():
    with pytest.raises(FileNotFoundError, match=r"https?://localhost:1/x\.npy does not exist"):
        source("http://localhost:1/x.npy")


@pytest.mark.parametrize(("kind", "other"), [("list", "list"), ("number", "number"), ("text", "text")])
def test_shards_of_tables_may_differ_in_precision(tmp_path, kind, other):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    types = {
        "list": (arrow.list_(arrow.float32()), arrow.large_list(arrow.float64()), arrow.list_(arrow.float32(), 2)),
        "number": (arrow.float32(), arrow.int64(), arrow.float64()),
        "text": (arrow.string(), arrow.large_string(), arrow.dictionary(arrow.int32(), arrow.string())),
    }
    cells = {"list": [1.0, 2.0], "number": 3, "text": "t"}
    for number, type_ in enumerate(types[kind]):
        column = arrow.array([cells[kind]] * 4, type_)
        parquet.write_table(arrow.table({"x": column}), tmp_path / f"{number}.parquet")
    where = source(f"{tmp_path}/*.parquet:x")
    if kind == "text":
        assert values(where).tolist() == ["t"] * 12
    else:
        assert matrix(where, tmp_path).tolist() == [np.ravel(cells[kind]).tolist()] * 12


def test_damaged_header_inside_a_tar_is_not_its_end(tmp_path):
    content = bytearray(tar(*((f"{k:05d}.txt", b"x") for k in range(N))))
    content[10 * 1024 : 10 * 1024 + 20] = b"\xff" * 20
    (tmp_path / "x.tar").write_bytes(content)
    with pytest.raises(UsageError, match=r"x\.tar is cut off or damaged at byte 10,240"):
        values(source(f"{tmp_path}/x.tar:txt"))


def test_sample_without_a_member_is_named_and_can_be_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    texts = [f"word{k} word{k * k % 91} word{k % 7}" for k in range(200)]
    members = [(f"{k:05d}.{side}", text.encode()) for k, text in enumerate(texts) for side in ("txt", "cap.txt")]
    (tmp_path / "x.tar").write_bytes(tar(*(one for one in members if one[0] not in ("00000.txt", "00007.cap.txt"))))
    sides = ["audit", "x.tar:txt", "x.tar:cap.txt", "--encode", "--encoder", "ngrams"]
    assert cli.main(sides) == 2
    assert "sample '00000' of x.tar" in capsys.readouterr().err
    assert cli.main([*sides, "--skip-invalid"]) == 0
    assert cli.main(["clean", *sides[1:3]]) == 0
    with tarfile.open("clean/x.tar") as archive:
        names = archive.getnames()
    assert "00001.txt" in names and not {"00000.cap.txt", "00007.txt"} & {*names}
    assert raw_column(source("x.tar:txt"), None).items[0] is None


def test_decisions_and_ids_as_parquet(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    a = np.random.default_rng(0).normal(size=(300, 8))
    b = a + 0.2
    b[:40] = np.roll(b[:40], 1, axis=0)
    np.save("a.npy", a)
    np.save("b.npy", b)
    np.save("ids.npy", np.array([f"={k}" for k in range(300)]))
    assert cli.main(["audit", "a.npy", "b.npy", "--ids", "ids.npy"]) == 0
    assert cli.main(["clean", "a.npy", "b.npy", "--table", "parquet"]) == 0
    table = parquet.read_table("clean/decisions.parquet")
    kept = table["kept"].to_numpy()
    assert table.column_names == ["row", "id", "weight", "kept"] and table["id"].to_pylist()[:2] == ["=0", "=1"]
    assert np.array_equal(np.load("clean/a.npy"), a[kept]) and not (tmp_path / "clean/decisions.csv").exists()
    assert cli.main(["clean", "a.npy", "b.npy", "--table", "parquet", "--ids-only", "--out", "ids"]) == 0
    keep = KeepSample("ids/kept_ids.parquet")
    assert [keep({"__key__": f"={k}"}) for k in range(300)] == kept.tolist()
    ids = parquet.read_table("ids/kept_ids.parquet")["id"].to_pylist()
    assert ids == [f"={k}" for k in np.flatnonzero(kept)]


def test_ids_as_parquet_after_a_batch_that_is_dropped_as_a_whole(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    lines = [f"{k},1,{float(k < 8192)},{int(k < 8192)},1\n" for k in range(9000)]
    (tmp_path / "audit.csv").write_text("id,score,p_wrong,flagged,weight\n" + "".join(lines))
    for side in "ab":
        np.save(tmp_path / f"{side}.npy", np.zeros((9000, 1)))
    audited, pairs = read_audit(tmp_path / "audit.csv"), pair_files(f"{tmp_path}/a.npy", f"{tmp_path}/b.npy")
    kept = kept_pairs(audited)
    write_clean(tmp_path, tmp_path, pairs, {}, audited, kept, ids_only=True, table="parquet")
    assert parquet.read_table(tmp_path / "kept_ids.parquet")["id"].to_pylist() == [str(k) for k in range(8192, 9000)]


def test_ids_are_the_same_whatever_type_of_number_a_file_has(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for k, ids in enumerate((arrow.array([7, 8]), arrow.array([7.0, None]))):
        parquet.write_table(arrow.table({"id": ids}), tmp_path / f"{k}.parquet")
    assert [str(one) for one in values(source(f"{tmp_path}/*.parquet:id"))] == ["7", "8", "7", "None"]


@pytest.mark.parametrize("option", ["--link", "--copy"])
def test_links_without_media_are_refused(tmp_path, monkeypatch, capsys, option):
    monkeypatch.chdir(tmp_path)
    a = np.random.default_rng(0).normal(size=(300, 8))
    np.save("a.npy", a)
    np.save("b.npy", a + 0.1)
    assert cli.main(["audit", "a.npy", "b.npy"]) == 0
    assert cli.main(["clean", "a.npy", "b.npy", option]) == 2
    assert option in capsys.readouterr().err and not (tmp_path / "clean").exists()
