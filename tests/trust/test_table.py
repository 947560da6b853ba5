"""Trust from a table: which column, and which row belongs to which pair."""

import json

import numpy as np
import pytest

from rince.errors import UsageError
from rince.trust import read_weights


@pytest.fixture
def csv(tmp_path):
    def write(text, name="t.csv"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


AUDIT = "id,score,p_wrong,flagged\n"


def test_audit_without_weights_gives_one_minus_p_wrong(csv):
    path = csv(AUDIT + "0,0.9,0.25,0\n1,,,0\n2,0.1,1,1\n", "audit.csv")
    assert read_weights(path, 3).tolist() == [0.75, 0.0, 0.0]
    assert read_weights(path.removesuffix("/audit.csv"), 3).tolist() == [0.75, 0.0, 0.0]


def test_a_column_trust_is_taken_as_it_is_and_any_other_by_its_name(csv):
    path = csv("id,trust,mine,p_wrong\n0,0.5,1,0.9\n1,0.25,0,0.9\n")
    assert read_weights(path, 2).tolist() == [0.5, 0.25]
    assert read_weights(f"{path}:mine", 2).tolist() == [1, 0]
    with pytest.raises(UsageError, match=r"weight nor p_wrong.*t.csv:b"):
        read_weights(csv("a,b\n1,2\n"), 1)


def test_rows_are_matched_by_id(csv):
    path = csv("id,trust\nx,0.1\ny,0.2\nz,0.3\n")
    assert np.allclose(read_weights(path, 2, ["z", "x"]), [0.3, 0.1])
    numbers = csv("id,trust\n4,0.1\n0,0.2\n7,0.3\n")
    assert np.allclose(read_weights(numbers, 2, [7, 0]), [0.3, 0.2])


def test_numbered_rows_are_taken_in_their_order_where_they_name_nobody(csv):
    path = csv("id,trust\n0,0.1\n1,0.2\n")
    assert np.allclose(read_weights(path, 2, ["cat.jpg", "dog.jpg"]), [0.1, 0.2])
    assert np.allclose(read_weights(csv("trust\n0.1\n0.2\n"), 2, ["cat.jpg", "dog.jpg"]), [0.1, 0.2])


def test_parquet_and_npy_do_as_well(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    parquet.write_table(arrow.table({"id": [1, 0], "p_wrong": [0.5, None]}), tmp_path / "t.parquet")
    assert read_weights(tmp_path / "t.parquet", 2).tolist() == [0, 0.5]
    np.save(tmp_path / "t.npy", np.array([1.0, 0.5]))
    assert read_weights(tmp_path / "t.npy", 2).tolist() == [1, 0.5]


@pytest.mark.parametrize(
    ("text", "names", "sentence"),
    [
        ("trust\n1\n1\n1\n", None, "has 3 rows for 2 training pairs"),
        ("id,trust\n0,1\n5,1\n", None, "has no row for 1 of the 2 training pairs, the first of them '1'"),
        ("id,trust\nx,1\nq,1\n", ["x", "y"], "has no row for 1 of the 2 training pairs, the first of them 'y'"),
        ("id,trust\nx,1\nx,0.5\ny,1\n", ["x", "y"], "has the id 'x' more than once"),
        ("id,trust\n0,1\n1,nan\n", None, "got nan in row 1"),
        ("id,trust\n0,1\n1,\n", None, "got nan in row 1"),
        ("id,trust\n0,1\n1,2\n", None, r"got 2 in row 1"),
        ("id,trust\n0,0\n1,0\n", None, "are 0"),
        ("id,trust\n0,1\n1,high\n", None, "has 'high' in column trust"),
    ],
)
def test_what_is_wrong_with_a_table_is_one_sentence(csv, text, names, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        read_weights(csv(text), 2, names)
    assert "\n" not in str(error.value)


def test_an_audit_that_calls_itself_useless_gives_no_trust(csv, tmp_path):
    path = csv(AUDIT + "0,0.1,0.95,0\n1,0.1,0.95,0\n", "audit.csv")
    (tmp_path / "audit.json").write_text(json.dumps({"useless": True}))
    with pytest.raises(UsageError, match="tell nothing about pairs"):
        read_weights(path, 2)
    with pytest.raises(UsageError, match=r"no complete audit"):
        read_weights(tmp_path / "..", 2)


@pytest.mark.parametrize(
    "content", [b"id,trust\n0,\xf5\n", b"id,trust\n0,1\n1\n", b"", b"id,trust\n0," + b"x" * 60_000_000]
)
def test_a_damaged_table_is_one_sentence_with_its_name(tmp_path, content):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(UsageError, match=r"t\.csv"):
        read_weights(tmp_path / "t.csv", 1)
