import json

import numpy as np
import pytest
import torch

from rince.audit import audit_pairs, audit_shards, file_shards
from rince.errors import UsageError
from rince.noise import wrong_pairs
from rince.pairs.columns import number_batches
from rince.pairs.format import format_of
from rince.pairs.source import source

pytest.importorskip("fsspec")
arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")


@pytest.fixture(autouse=True)
def few_mismatched_pairs(monkeypatch):
    monkeypatch.setattr("rince.audit.null.NULL_SIZE", 40_000)


@pytest.fixture
def pairs():
    random = np.random.default_rng(0)
    a = random.normal(size=(900, 5)).astype(np.float32)
    b = (a + 0.5 * random.normal(size=a.shape)).astype(np.float32)
    return a, b[wrong_pairs(900, 0.3, 0)[0]]


def write(folder, a, b, cuts=(300, 310), ids=None, row_group_size=100, **more):
    ids = list(range(900)) if ids is None else ids
    for number, rows in enumerate(np.split(np.arange(len(a)), cuts)):
        columns = {"image": list(a[rows]), "text": list(b[rows]), "id": [ids[row] for row in rows]}
        columns |= {name: [values[row] for row in rows] for name, values in more.items()}
        parquet.write_table(arrow.table(columns), folder / f"part{number + 8}.parquet", row_group_size=row_group_size)


def test_shards_follow_the_natural_order_of_files(pairs, tmp_path):
    write(tmp_path, *pairs)
    parts = file_shards(f"{tmp_path}/*.parquet:image", f"{tmp_path}/*.parquet:text", ids="id", rows=250)
    assert [part.rows for part in parts] == [250, 50, 10, 250, 250, 90]
    assert np.concatenate([part.ids() for part in parts]).tolist() == list(range(900))
    blocks = [block for part in parts for block in part.blocks()]
    for side, wanted in enumerate(pairs):
        assert np.array_equal(np.concatenate([block[side] for block in blocks]), wanted)


def test_ids_with_gaps_mean_the_same_in_every_partition(pairs, tmp_path):
    ids = [None if row in (3, 305) else row // 2 for row in range(900)]
    write(tmp_path, *pairs, ids=ids, source=["x", None, "y"] * 300)
    parts = file_shards(
        f"{tmp_path}/*.parquet:image", f"{tmp_path}/*.parquet:text", ids="id", duplicates="source", groups="source"
    )
    starts = np.cumsum([0, *(part.rows for part in parts[:-1])])
    found = np.concatenate([part.keys(start)[0] for part, start in zip(parts, starts, strict=True)])
    known = [value for value in ids if value is not None]
    assert len(np.unique(found)) == len(set(known)) + 2
    same = np.concatenate([part.keys(start)[1] for part, start in zip(parts, starts, strict=True)])
    assert len(np.unique(same)) == 2 + 300, "what is missing equals no other"
    found = audit_shards(parts, out=tmp_path / "out")
    table = parquet.read_table(tmp_path / "out" / "audit.parquet")
    assert table["id"].to_pylist() == ids and {one.name for one in found.groups} == {"x", "y", "(none)"}


def test_tables_give_the_audit_of_the_arrays_that_they_hold(pairs, tmp_path):
    write(tmp_path, *pairs)
    whole = audit_pairs(*pairs, ids=np.arange(900))
    parts = file_shards(f"{tmp_path}/*.parquet:image", f"file://{tmp_path}/*.parquet:text", ids="id")
    found = audit_shards(parts)
    assert found.noise_rate == whole.noise_rate and found.flagged == len(whole.flag(0.1))
    for name, side in zip("ab", pairs, strict=True):
        np.save(tmp_path / f"{name}.npy", side)
    parts = file_shards(tmp_path / "a.npy", tmp_path / "b.npy", rows=400)
    assert [part.rows for part in parts] == [400, 400, 100]
    assert audit_shards(parts).noise_rate == audit_pairs(*pairs).noise_rate


def test_several_columns_of_numbers_are_one_side(pairs, tmp_path):
    a, b = pairs
    columns = {f"a{k}": a[:, k] for k in range(5)} | {f"b{k}": b[:, k] for k in range(5)}
    parquet.write_table(arrow.table(columns), tmp_path / "x.parquet")
    (part,) = file_shards(f"{tmp_path}/x.parquet:a*", f"{tmp_path}/x.parquet:b0,b1,b2,b3,b4")
    x, y = next(part.blocks())
    assert np.array_equal(x, a) and np.array_equal(y, b)


@pytest.mark.parametrize(
    "a, b, more, message",
    [
        ("none/*.parquet:x", "part*.parquet:text", {}, "no file matches"),
        ("part*.parquet:x", "part*.parquet:text", {}, "has no column x; it has image, text, id"),
        ("part*.parquet:text", "part*.parquet:text", {}, "A and B are both"),
        ("part8.parquet:image", "one.parquet:text", {}, "has 300 rows and .*one.parquet.* 900"),
        ("part*.parquet:image", "part*.parquet:text", {"ids": "key"}, "has no column key"),
        ("a.csv:x", "part*.parquet:text", {}, r"A \(.*a\.csv:x\) has 1 rows in 1 files and B \(.*\) 900 in 3"),
    ],
)
def test_tables_that_do_not_fit_together_are_one_clear_error(pairs, tmp_path, a, b, more, message):
    write(tmp_path, *pairs)
    rows = {"image": list(pairs[0]), "text": list(pairs[1])}
    parquet.write_table(arrow.table(rows), tmp_path / "one.parquet")
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(UsageError, match=message):
        file_shards(f"{tmp_path}/{a}", f"{tmp_path}/{b}", **more)


def test_arrays_that_do_not_fit_together_are_one_clear_error(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((60, 3)))
    np.save(tmp_path / "b.npy", np.ones((61, 3)))
    np.save(tmp_path / "c.npy", np.ones((60, 1, 1)))
    np.save(tmp_path / "t.npy", np.array(["label"] * 60))
    messages = {"b": "has 60 rows and .* 61", "c": "shape", "t": "where a number should be", "d": "does not exist"}
    for other, message in messages.items():
        with pytest.raises(UsageError, match=message):
            file_shards(tmp_path / "a.npy", tmp_path / f"{other}.npy")


def test_one_number_per_pair_is_a_column(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((60, 3)))
    np.save(tmp_path / "y.npy", np.arange(60) % 3)
    parts = file_shards(tmp_path / "a.npy", tmp_path / "y.npy", rows=40)
    assert [b.shape for part in parts for _, b in part.blocks()] == [(40, 1), (20, 1)]


def test_sides_of_different_formats_and_files_are_read_row_by_row(pairs, tmp_path):
    """A in three Parquet files, B in seven .npy files, ids in one CSV file: shards end where files of A and B do."""
    a, b = pairs
    write(tmp_path, a, b)
    for number, rows in enumerate(np.array_split(np.arange(900), 7)):
        np.save(tmp_path / f"b{number}.npy", b[rows])
    (tmp_path / "ids.csv").write_text("name\n" + "".join(f"n{row}\n" for row in range(900)))
    parts = file_shards(f"{tmp_path}/*.parquet:image", f"{tmp_path}/b*.npy", ids=f"{tmp_path}/ids.csv:name")
    blocks = [block for part in parts for block in part.blocks()]
    for side, wanted in enumerate(pairs):
        assert np.array_equal(np.concatenate([block[side] for block in blocks]), wanted)
    assert np.concatenate([part.ids() for part in parts]).tolist() == [f"n{row}" for row in range(900)]
    ends = np.cumsum([part.rows for part in parts])
    assert {300, 310, 900, *np.cumsum([len(rows) for rows in np.array_split(np.arange(900), 7)])} == set(ends.tolist())


def test_every_format_is_read_in_ranges_of_rows(pairs, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    a, ids = pairs[0], np.arange(900)
    table = arrow.table({"v": list(a), "id": ids})
    np.save(tmp_path / "x.npy", a)
    np.save(tmp_path / "f.npy", np.asfortranarray(a))
    np.savez_compressed(tmp_path / "x.npz", v=a)
    torch.save({"v": torch.from_numpy(a)}, tmp_path / "x.pt")
    safetensors.save_file({"v": torch.from_numpy(a)}, tmp_path / "x.safetensors")
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=130)
    feather.write_feather(table, tmp_path / "x.feather", chunksize=70)
    names = [f"v{k}" for k in range(a.shape[1])]
    rows = "".join(",".join(f"{value!r}" for value in row.tolist()) + "\n" for row in a)
    (tmp_path / "x.csv").write_text(",".join(names) + "\n" + rows)
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"v": row.tolist()}) + "\n" for row in a))
    for text in (
        "x.npy",
        "f.npy",
        *(f"x.{kind}:v" for kind in ("npz", "pt", "safetensors", "parquet", "feather", "jsonl")),
    ):
        where = source(f"{tmp_path}/{text}")
        file = where.files[0]
        for start, stop in ((0, 1), (17, 290), (500, 900)):
            part = where._replace(part=((file, start, stop),))
            assert np.array_equal(np.concatenate([*number_batches(part)]), a[start:stop]), (text, start, stop)
        assert format_of(where).rows(file) == 900
    where = source(f"{tmp_path}/x.csv")
    part = where._replace(part=((where.files[0], 17, 290),))
    assert np.array_equal(np.concatenate([*number_batches(part)]), a[17:290])
