import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rince._support.csv_cells import escaped, unescaped
from rince.audit import Scored, judge
from rince.audit.save import read_pairs
from rince.errors import UsageError


def an_audit(n=100):
    random = np.random.default_rng(0)
    scores = np.where(np.arange(n) < n // 4, random.normal(0, 0.1, n), random.normal(0.7, 0.1, n))
    return judge(Scored(scores.astype(np.float32), random.normal(0, 0.1, 10_000).astype(np.float32)))


@given(st.text(alphabet="'=+-@\t\r01.a") | st.text())
def test_what_is_escaped_is_read_back_and_never_starts_a_formula(text):
    cell = escaped(text)
    assert unescaped(cell) == text
    assert cell[:1] not in ("=", "+", "@", "\t", "\r")
    assert not cell.startswith("-") or set(cell) <= set("-.") | {c for c in cell if c.isdigit()}


@pytest.mark.parametrize("table", ["csv", "parquet"])
def test_spreadsheet_formulas_are_quoted_and_read_back(tmp_path, table):
    if table == "parquet":
        pytest.importorskip("pyarrow")
    found = an_audit()
    ids = ["=cmd|'/c calc'!A0", "'=x", "-12.5", "@a", "+1+1", "'plain", *(f"pair {i}" for i in range(94))]
    found.save(tmp_path, ids=ids, table=table)
    if table == "csv":
        with open(tmp_path / "audit.csv", newline="") as file:
            cells = [row[0] for row in csv.reader(file)][1:7]
        assert cells == ["'=cmd|'/c calc'!A0", "''=x", "-12.5", "'@a", "'+1+1", "'plain"]
    pairs = read_pairs(tmp_path)
    assert pairs.ids == ids
    assert np.allclose(pairs.scores, found.scores, rtol=1e-4, atol=1e-6)
    assert np.flatnonzero(pairs.flagged).tolist() == sorted(found.flag(0.1))


def test_a_folder_without_an_audit_and_another_table_are_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="no complete audit in"):
        read_pairs(tmp_path)
    (tmp_path / "audit.csv").write_text("id,score,p_wrong,flagged\na,much,0,0\n")
    with pytest.raises(UsageError, match="is not the table of an audit"):
        read_pairs(tmp_path)
