from pathlib import Path

import numpy as np
import pytest

from rince.audit.shards.runner import LocalRunner
from rince.errors import UsageError
from rince.pairs.fingerprint import NUMBERS, SidePrint, item_codes, sums_of
from rince.pairs.source import source
from rince.trust.same_data import side_print

arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")


def test_fingerprints_of_media_names_and_contents(tmp_path):
    names = [f"{k % 3}/{k}.png" for k in range(20)]
    judged = np.arange(20) != 4
    expected = [tmp_path / name for k, name in enumerate(names) if k != 4]
    known = SidePrint("pictures", 0, sums_of(item_codes(expected, tmp_path), 0))
    contents = [b"\x89PNG " + name.encode() for name in names]
    structs = [{"bytes": content, "path": "x"} for content in contents]
    parquet.write_table(arrow.table({"name": names, "content": contents, "struct": structs}), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("name,n\n" + "".join(f"{name},1\n" for name in names))

    def found(what, kind="pictures"):
        return side_print(source(str(tmp_path / what)), kind, judged, tmp_path)

    assert found("t.csv:name") == found("t.parquet:name") == known != found("t.csv:name", "texts")
    assert found("t.parquet:content") == found("t.parquet:struct") != known
    assert item_codes([Path("a.png")], Path())[0] == item_codes(["a.png"], tmp_path)[0]


@pytest.mark.parametrize("rows", [59, 61])
def test_another_number_of_rows_is_said_as_such(tmp_path, rows):
    np.save(tmp_path / "a.npy", np.ones((60, 3)))
    with pytest.raises(UsageError, match=f"has 60 rows, the audit {rows}: this is not the audit of these pairs"):
        side_print(source(str(tmp_path / "a.npy")), NUMBERS, np.ones(rows, dtype=bool), tmp_path)


def test_a_column_of_another_kind_has_no_fingerprint(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((60, 3)))
    np.save(tmp_path / "texts.npy", np.full((60, 2), "text"))
    judged = np.ones(60, dtype=bool)
    assert side_print(source(str(tmp_path / "a.npy")), "texts", judged, tmp_path) is None
    assert side_print(source(str(tmp_path / "texts.npy")), NUMBERS, judged, tmp_path) is None


@pytest.mark.parametrize(("kind", "pattern"), [(NUMBERS, "*.npy"), ("texts", "*.jsonl:t")])
def test_files_compared_one_by_one_have_the_fingerprint_of_all_rows(tmp_path, kind, pattern):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    for number, part in enumerate(np.array_split(np.arange(60), 4)):
        np.save(tmp_path / f"{number}.npy", rows[part])
        (tmp_path / f"{number}.jsonl").write_text("".join(f'{{"t": "text {k}"}}\n' for k in part))
    judged = np.arange(60) % 7 != 0
    where = source(f"{tmp_path}/{pattern}")
    whole = side_print(where, kind, judged, tmp_path)
    assert whole is not None and side_print(where, kind, judged, tmp_path, LocalRunner()) == whole
    assert side_print(where, "sounds", judged, tmp_path, LocalRunner()) != whole
    with pytest.raises(UsageError, match="has 60 rows, the audit 59"):
        side_print(where, kind, judged[:59], tmp_path, LocalRunner())
