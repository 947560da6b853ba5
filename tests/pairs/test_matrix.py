import datetime
import os

import numpy as np
import pytest
import torch

from rince.errors import UsageError
from rince.pairs.matrix import codes, read, row_codes


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.0, np.nan, 1.0, np.nan, 2.0]),
        np.array(["x", "", "x", " ", "y"]),
        np.array(["x", None, "x", float("nan"), "y"], dtype=object),
        ["x", float("nan"), "x", None, "y"],
        ["x", float("nan"), "x", float("nan"), "y"],
        [7, None, 7, None, 8],
        np.array(["2020-01-01", "NaT", "2020-01-01", "NaT", "2021-01-01"], dtype="datetime64[D]"),
        [b"x", b"", b"x", b"", b"y"],
        torch.tensor([1.0, float("nan"), 1.0, float("nan"), 2.0]),
    ],
    ids=str,
)
def test_a_missing_value_equals_no_other(values):
    found = codes(values, "ids", 5)
    assert found[0] == found[2] and len(np.unique(found)) == 4


def test_what_tables_call_missing_equals_no_other():
    pandas = pytest.importorskip("pandas")
    for column in (pandas.array([1, None, 1, None, 2], dtype="Int64"), pandas.Series(["x", None, "x", pandas.NA, "y"])):
        found = codes(column, "ids", 5)
        assert found[0] == found[2] and len(np.unique(found)) == 4


def test_texts_that_read_like_missing_values_are_texts():
    assert len(np.unique(codes(["nan", "nan", "None", "None"], "ids", 4))) == 2
    assert len(np.unique(codes(np.array(["nan", "nan", "None", "None"], dtype=object), "ids", 4))) == 2


def test_equal_values_of_any_kind_have_equal_codes():
    day = datetime.date(2020, 1, 1)
    for values in (
        [3, 4, 3],
        ["a", "b", "a"],
        [True, False, True],
        [day, day.replace(year=2021), day],
        [0.5, 1.5, 0.5],
    ):
        found = codes(values, "ids", 3)
        assert found[0] == found[2] != found[1]


def test_a_value_has_the_same_code_in_every_part():
    values = ["x", None, 7, "7", "007", None, "x", 2**70, "-7"]
    whole = codes(values, "ids", 9)
    parts = [codes(values[:4], "ids", 4), codes(values[4:], "ids", 5, start=4)]
    assert (np.concatenate(parts) == whole).all() and len(np.unique(whole)) == 7
    assert whole[2] == whole[3] == codes(np.array([7]), "ids", 1)[0], "whole numbers beside gaps, and without any"
    numbers = np.array([0.5, -0.0, 0.0, np.nan])
    assert (codes(numbers[1:], "ids", 3, start=1) == codes(numbers, "ids", 4)[1:]).all()
    assert codes(numbers, "ids", 4)[1] == codes(numbers, "ids", 4)[2]


@pytest.mark.parametrize("width", [1, 2, 3, 64, 65])
def test_codes_of_rows_of_round_numbers_differ_where_the_rows_do(width):
    x = torch.randint(0, 2, (20_000, width), generator=torch.Generator().manual_seed(0)).float()
    x[::2] *= 256.0
    assert len(np.unique(row_codes(x))) == len(torch.unique(x, dim=0))
    assert (row_codes(x[::3]) == row_codes(x)[::3]).all(), "wherever a row stands"
    assert (row_codes(-x * 0) == row_codes(x * 0)).all()


@pytest.mark.parametrize("form", [list, lambda ids: np.array(ids, dtype=object)])
def test_one_long_id_does_not_make_all_of_them_long(form):
    import tracemalloc

    ids = form([f"id {i}" for i in range(20_000)] + ["x" * 50_000])
    tracemalloc.start()
    found = codes(ids, "ids", 20_001)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(np.unique(found)) == 20_001
    assert peak < 20_000_000, f"{peak / 1e6:.0f} MB; as texts of numpy they would take 4 GB"


@pytest.mark.parametrize("kept", [10, 100_000])
def test_a_mapped_file_that_became_shorter_is_refused(tmp_path, kept):
    np.save(tmp_path / "a.npy", np.ones((20_000, 8), dtype=np.float32))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert read(mapped[:, ::2], slice(5)).shape == (5, 4)
    os.truncate(tmp_path / "a.npy", kept)
    for part in (mapped, mapped[10:, ::2], mapped.reshape(-1)[:, None]):  # reading what is gone would end the process
        with pytest.raises(UsageError, match=r"a\.npy has become shorter"):
            read(part, slice(5))
