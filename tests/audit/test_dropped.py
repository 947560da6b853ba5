"""Pairs with rows that cannot be used, left out of an audit."""

import json

import numpy as np
import pytest

from rince.audit import audit_pairs
from rince.audit.fit.towers import FitConfig
from support.paired_embeddings import embeddings


def broken_embeddings(n=400):
    """Embeddings with rows of NaN, infinity and zeros, and which rows these are."""
    a, b, wrong = embeddings(n)
    a[0], b[5, 2], b[17, 0], a[n - 1, 3] = 0, np.nan, np.inf, np.nan
    return a, b, wrong, [0, 5, 17, n - 1]


@pytest.mark.parametrize("fit", [False, True])
def test_dropped_pairs_do_not_change_the_others(fit, tmp_path, monkeypatch):
    a, b, _, bad = broken_embeddings()
    if fit:
        bad = bad[1:]  # towers can say something about zeros
    good = np.setdiff1d(np.arange(400), bad)
    recipe = FitConfig(folds=3, steps=20, members=1, width=16) if fit else None
    monkeypatch.setattr("rince.audit.fit.cross_fit.NULL_SIZE", 20_000)
    np.save(tmp_path / "a.npy", a)
    ids = np.arange(400) // 2
    found = audit_pairs(
        np.load(tmp_path / "a.npy", mmap_mode="r"),
        b,
        fit=fit,
        scorer="towers",
        config=recipe,
        skip_invalid=True,
        ids=ids,
    )
    alone = audit_pairs(a[good], b[good], fit=fit, scorer="towers", config=recipe, ids=ids[good])
    assert found.dropped.tolist() == bad and len(found) == 400
    for name in ("scores", "p_values", "p_wrong"):
        values = getattr(found, name)
        assert np.isnan(values[bad]).all() and (values[good] == getattr(alone, name)).all()
    assert found.noise_rate == alone.noise_rate and (found.flag(0.3) == good[alone.flag(0.3)]).all()
    assert f"{len(good)} pairs" in found.summary() and f"{len(bad)} rows (" in found.summary()


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_dropped_pairs_are_in_the_table_and_the_record(tmp_path, rate):
    parquet = pytest.importorskip("pyarrow.parquet")
    a, b, _ = embeddings(400, rate=rate)
    a[3], b[9, 0] = 0, np.nan
    found = audit_pairs(a, b, skip_invalid=True)
    found.save(tmp_path, ids=[f"pair {i}" for i in range(400)], truth=np.zeros(400, bool))
    rows = [line.split(",") for line in (tmp_path / "audit.csv").read_text().splitlines()[1:]]
    assert [row[0] for row in rows if row[2] == ""] == ["pair 3", "pair 9"] and rows[3] == ["pair 3", "", "", "0", "0"]
    record = json.loads((tmp_path / "audit.json").read_text())
    assert record["pairs"] == 398 and record["dropped"] == 2 and record["dropped_rows"] == [3, 9]
    found.save(tmp_path, table="parquet", force=True)
    assert parquet.read_table(tmp_path / "audit.parquet")["p_wrong"].null_count == 2


def test_dropping_too_many_pairs_is_refused():
    a, b, _ = embeddings(60)
    assert audit_pairs(a, b, skip_invalid=True).noise_rate == audit_pairs(a, b).noise_rate
    a[:11] = np.nan
    with pytest.raises(ValueError, match=r"at least 50 pairs.*got 49"):
        audit_pairs(a, b, skip_invalid=True)
    with pytest.raises(ValueError, match=r"skip_invalid=True \(--skip-invalid\)"):
        audit_pairs(a, b)
