import numpy as np
import pytest

from rince.audit import array_partitions, audit, audit_partitions, table_partitions
from rince.errors import UsageError
from rince.noise import wrong_pairs

pytest.importorskip("fsspec")
arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def few_mismatched_pairs(monkeypatch):
    monkeypatch.setattr("rince.audit.partitions.pipeline.MISMATCHED", 40_000)


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


def test_partitions_are_row_groups_in_the_natural_order_of_files(pairs, tmp_path):
    write(tmp_path, *pairs)
    parts = table_partitions(f"{tmp_path}/*.parquet:image", f"{tmp_path}/*.parquet:text", ids="id", rows=250)
    assert [part.rows for part in parts] == [200, 100, 10, 200, 200, 190]
    assert np.concatenate([part.ids() for part in parts]).tolist() == list(range(900))
    blocks = [block for part in parts for block in part.blocks()]
    for side, wanted in enumerate(pairs):
        assert np.array_equal(np.concatenate([block[side] for block in blocks]), wanted)


def test_ids_with_gaps_mean_the_same_in_every_partition(pairs, tmp_path):
    ids = [None if row in (3, 305) else row // 2 for row in range(900)]
    write(tmp_path, *pairs, ids=ids, source=["x", None, "y"] * 300)
    parts = table_partitions(
        f"{tmp_path}/*.parquet:image", f"{tmp_path}/*.parquet:text", ids="id", duplicates="source", groups="source"
    )
    starts = np.cumsum([0, *(part.rows for part in parts[:-1])])
    found = np.concatenate([part.keys(start)[0] for part, start in zip(parts, starts, strict=True)])
    known = [value for value in ids if value is not None]
    assert len(np.unique(found)) == len(set(known)) + 2
    same = np.concatenate([part.keys(start)[1] for part, start in zip(parts, starts, strict=True)])
    assert len(np.unique(same)) == 2 + 300, "what is missing equals no other"
    found = audit_partitions(parts, out=tmp_path / "out")
    table = parquet.read_table(tmp_path / "out" / "audit.parquet")
    assert table["id"].to_pylist() == ids and {one.name for one in found.groups} == {"x", "y", "(none)"}


def test_tables_give_the_audit_of_the_arrays_that_they_hold(pairs, tmp_path):
    write(tmp_path, *pairs)
    whole = audit(*pairs, ids=np.arange(900))
    parts = table_partitions(f"{tmp_path}/*.parquet:image", f"file://{tmp_path}/*.parquet:text", ids="id")
    found = audit_partitions(parts)
    assert found.noise_rate == whole.noise_rate and found.flagged == len(whole.flag(0.1))
    for name, side in zip("ab", pairs, strict=True):
        np.save(tmp_path / f"{name}.npy", side)
    parts = array_partitions(tmp_path / "a.npy", tmp_path / "b.npy", rows=400)
    assert [part.rows for part in parts] == [400, 400, 100]
    assert audit_partitions(parts).noise_rate == audit(*pairs).noise_rate


def test_several_columns_of_numbers_are_one_side(pairs, tmp_path):
    a, b = pairs
    columns = {f"a{k}": a[:, k] for k in range(5)} | {f"b{k}": b[:, k] for k in range(5)}
    parquet.write_table(arrow.table(columns), tmp_path / "x.parquet")
    (part,) = table_partitions(f"{tmp_path}/x.parquet:a*", f"{tmp_path}/x.parquet:b0,b1,b2,b3,b4")
    x, y = next(part.blocks())
    assert np.array_equal(x, a) and np.array_equal(y, b)


@pytest.mark.parametrize(
    "a, b, more, message",
    [
        ("none/*.parquet:x", "part*.parquet:text", {}, "there is no file"),
        ("part*.parquet:x", "part*.parquet:text", {}, "has no column x; it has image, text, id"),
        ("part*.parquet:text", "part*.parquet:text", {}, "A and B are both"),
        ("part*.parquet", "part*.parquet:text", {}, "name one, as FILES:COLUMN"),
        ("part*.parquet:image", "one.parquet:text", {}, "A has 3 files and B 1"),
        ("part8.parquet:image", "one.parquet:text", {}, "has 300 rows and .*one.parquet.* 900"),
        ("all.parquet:image", "one.parquet:text", {}, "the same row_group_size"),
        ("part*.parquet:image", "part*.parquet:text", {"ids": "i*,image"}, "ids must be one column, got image, id"),
        ("a.csv:x", "part*.parquet:text", {}, "files must end in .parquet"),
    ],
)
def test_tables_that_do_not_fit_together_are_one_clear_error(pairs, tmp_path, a, b, more, message):
    write(tmp_path, *pairs)
    for name, size in (("one", 900), ("all", 100)):
        rows = {"image": list(pairs[0]), "text": list(pairs[1])}
        parquet.write_table(arrow.table(rows), tmp_path / f"{name}.parquet", row_group_size=size)
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(UsageError, match=message):
        table_partitions(f"{tmp_path}/{a}", f"{tmp_path}/{b}", **more)


def test_arrays_that_do_not_fit_together_are_one_clear_error(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((60, 3)))
    np.save(tmp_path / "b.npy", np.ones((61, 3)))
    np.save(tmp_path / "c.npy", np.ones((60, 1, 1)))
    np.save(tmp_path / "t.npy", np.array(["label"] * 60))
    messages = {"b": "got 60 and 61 rows", "c": "shape", "t": "must hold real numbers", "d": "there is no file"}
    for other, message in messages.items():
        with pytest.raises(UsageError, match=message):
            array_partitions(tmp_path / "a.npy", tmp_path / f"{other}.npy")


def test_one_number_per_pair_is_a_column(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((60, 3)))
    np.save(tmp_path / "y.npy", np.arange(60) % 3)
    parts = array_partitions(tmp_path / "a.npy", tmp_path / "y.npy", rows=40)
    assert [b.shape for part in parts for _, b in part.blocks()] == [(40, 1), (20, 1)]
