"""`rince clean` with data that are not those of the audit, or no longer in its order: refused, and nothing written."""

import json

import numpy as np
import pytest

from rince.cli import main
from rince.noise import wrong_pairs

arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
N = 300
ORDER = np.random.default_rng(3).permutation(N)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Pairs in a table, and the audit of them."""
    monkeypatch.chdir(tmp_path)
    write(pairs(0))
    assert main(["audit", "s.parquet:vec_a", "s.parquet:vec_b", "--ids", "u", "--out", "sa"]) == 0
    return tmp_path


def pairs(seed):
    random = np.random.default_rng(seed)
    a = random.normal(size=(N, 8)).astype(np.float32)
    b = (a + 0.3 * random.normal(size=a.shape)).astype(np.float32)[wrong_pairs(N, 0.3, 0)[0]]
    return {"vec_a": a, "vec_b": b, "u": np.array([f"item {k}" for k in range(N)])}


def write(columns, name="s.parquet"):
    parquet.write_table(arrow.table({key: list(values) for key, values in columns.items()}), name)


def clean(*options, a="s.parquet:vec_a", b="s.parquet:vec_b"):
    return main(["clean", a, b, "--audit", "sa", "--out", "sc", *options])


def refused(folder, capsys, *options, **sides):
    capsys.readouterr()
    assert clean(*options, **sides) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and not (folder / "sc").exists()
    return error


def without_fingerprint(folder):
    record = json.loads((folder / "sa" / "audit.json").read_text())
    del record["fingerprint"]
    (folder / "sa" / "audit.json").write_text(json.dumps(record))


def test_the_same_data_are_cleaned_from_any_kind_of_file(folder):
    columns = pairs(0)
    np.save("a.npy", columns["vec_a"].astype(np.float64))
    np.savez("b.npz", b=columns["vec_b"])
    header = ",".join(f"n{k}" for k in range(8))
    np.savetxt("b.csv", columns["vec_b"], "%.9g", ",", header=header, comments="")
    assert clean() == 0
    for b in ("b.npz", "b.csv"):
        assert clean("--out", b[-3:], a="a.npy", b=b) == 0
    assert len(np.load("csv/a.npy")) == len(np.load("npz/a.npy")) == parquet.read_table("sc/s.parquet").num_rows < N


def test_a_table_in_another_order_is_refused(folder, capsys):
    write({key: values[ORDER] for key, values in pairs(0).items()})
    error = refused(folder, capsys)
    assert "s.parquet:vec_a and s.parquet:vec_b hold the rows of the audit sa/audit.csv in another order" in error
    assert "audit again" in error
    assert "in another order" in refused(folder, capsys, "--ids", "u")


def test_two_rows_that_changed_places_are_enough(folder, capsys):
    order = np.arange(N)
    order[[7, 201]] = 201, 7
    write({key: values[order] for key, values in pairs(0).items()})
    assert "in another order" in refused(folder, capsys)


def test_other_data_of_the_same_length_are_refused(folder, capsys):
    write({**pairs(1), "u": np.arange(N)})
    assert "hold data other than those of the audit sa/audit.csv: audit again" in refused(folder, capsys)
    columns = pairs(0)
    columns["vec_b"][250, 3] += 0.01
    write(columns)
    assert "s.parquet:vec_b holds data other than those of the audit" in refused(folder, capsys)
    write({**columns, "vec_b": columns["u"]})
    assert "s.parquet:vec_b holds data other" in refused(folder, capsys), "it has no numbers at all"


def test_exchanged_and_equal_sides_are_refused(folder, capsys):
    error = refused(folder, capsys, a="s.parquet:vec_b", b="s.parquet:vec_a")
    assert "are swapped: give s.parquet:vec_a first, then s.parquet:vec_b" in error
    np.save("a.npy", pairs(0)["vec_a"])
    assert "A and B are both a.npy" in refused(folder, capsys, a="a.npy", b="a.npy")
    np.save("b.npy", pairs(0)["vec_a"])
    assert "b.npy holds data other" in refused(folder, capsys, a="a.npy", b="b.npy")


@pytest.mark.parametrize("kept", ["audit.json of before", "audit.csv alone", "of another version"])
def test_an_audit_without_a_fingerprint_is_taken_as_before(folder, kept):
    without_fingerprint(folder)
    if kept == "audit.csv alone":
        (folder / "sa" / "audit.json").unlink()
    if kept == "of another version":
        (folder / "sa" / "audit.json").write_text(json.dumps({"fingerprint": {"version": 99}}))
    write(pairs(1))
    assert clean() == 0


def test_ids_are_compared_where_there_is_nothing_else(folder, capsys):
    (folder / "sa" / "audit.json").unlink()
    columns = pairs(0)
    write({**columns, "id": columns["u"]})
    assert clean("--out", "same") == 0
    write({**{key: values[ORDER] for key, values in columns.items()}, "id": columns["u"][ORDER]})
    error = refused(folder, capsys)
    assert (
        "s.parquet:id holds the ids of the audit in another order" in error and "rows, the first of them row 0" in error
    )
    assert "s.parquet:u holds the ids of the audit in another order" in refused(folder, capsys, "--ids", "u")
    write({**columns, "id": np.arange(N)})
    assert "s.parquet:id holds other ids than the audit" in refused(folder, capsys)
    assert clean("--ids", "u") == 0, "the column of the ids has another name"


def test_rows_without_ids_in_the_audit_are_not_compared(folder):
    np.savetxt("numbers.csv", np.arange(N)[::-1], "%d", header="id", comments="")
    assert main(["audit", "s.parquet:vec_a", "s.parquet:vec_b", "--out", "sa", "--force"]) == 0
    (folder / "sa" / "audit.json").unlink()
    write({**pairs(0), "id": np.arange(N)[::-1]})
    assert clean() == 0


def test_a_table_with_the_ids_of_the_audit_may_hold_something_else(folder, capsys):
    """Embeddings were audited; what is cleaned are the texts they were made of."""
    texts = np.array([f"text {k}" for k in range(N)])
    ids = pairs(0)["u"]
    write({"question": texts, "answer": texts, "u": ids}, "texts.parquet")
    sides = {"a": "texts.parquet:question", "b": "texts.parquet:answer"}
    assert "data other than" in refused(folder, capsys, **sides)
    np.savetxt("ids.csv", ids, "%s", header="u", comments="")
    assert "data other than" in refused(folder, capsys, "--ids", "ids.csv", **sides), "ids of another file say nothing"
    assert clean("--ids", "u", **sides) == 0
    write({"question": texts, "answer": texts, "u": ids[ORDER]}, "texts.parquet")
    assert main(["clean", *sides.values(), "--audit", "sa", "--out", "other", "--ids", "u"]) == 2


def test_rows_that_were_left_out_may_hold_anything(folder, capsys):
    columns = pairs(0)
    columns["vec_a"][[5, 90]] = np.nan
    np.save("a.npy", columns["vec_a"])
    np.save("b.npy", columns["vec_b"])
    assert main(["audit", "a.npy", "b.npy", "--out", "sa", "--force", "--skip-invalid"]) == 0
    np.save("b.npy", np.where(np.arange(N)[:, None] == 90, 7, columns["vec_b"]))
    assert clean("--out", "fine", a="a.npy", b="b.npy") == 0
    np.save("b.npy", np.where(np.arange(N)[:, None] == 91, 7, columns["vec_b"]))
    assert "b.npy holds data other" in refused(folder, capsys, a="a.npy", b="b.npy")


def test_encoded_texts_are_known_by_what_stands_in_the_column(folder, capsys):
    words = ["apple", "river", "engine", "violin", "desert", "planet", "button"]
    texts = [f"{words[k % 7]} {words[k // 7 % 7]} {words[k // 49]}" for k in range(N)]
    # Shuffled: of rows in order, the audit compares differences, and the first row has none.
    rows = [f"{texts[k]},{texts[k]} indeed\n" for k in np.random.default_rng(0).permutation(N)]
    (folder / "t.csv").write_text("q,a\n" + "".join(rows))
    sides = {"a": "t.csv:q", "b": "t.csv:a"}
    assert main(["audit", *sides.values(), "--encode", "--out", "sa", "--force"]) == 0
    assert clean("--out", "fine", **sides) == 0
    (folder / "t.csv").write_text("q,a\n" + "".join(rows[k] for k in ORDER))
    assert "in another order" in refused(folder, capsys, **sides)


def test_labels_are_known_by_their_numbers(folder, capsys):
    labels = np.random.default_rng(0).integers(0, 3, N)
    np.save("a.npy", np.eye(3)[labels] + 0.1 * np.random.default_rng(1).normal(size=(N, 3)))
    names = np.array(["cat", "7", "dog"])[labels]
    np.savetxt("t.csv", names, "%s", header="label", comments="")
    sides = {"a": "a.npy", "b": "t.csv:label"}
    assert main(["audit", *sides.values(), "--fit", "--out", "sa", "--force"]) == 0
    assert clean("--out", "fine", **sides) == 0
    np.savetxt("t.csv", names[ORDER], "%s", header="label", comments="")
    assert "t.csv:label holds" in refused(folder, capsys, **sides)
