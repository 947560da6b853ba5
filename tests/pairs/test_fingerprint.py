import json

import numpy as np
import pytest

from rince.audit import audit_pairs, audit_shards, audit_table, file_shards, judge
from rince.pairs.fingerprint import Sums, added_sums, from_record, sums_of

N = 600


@pytest.fixture
def sides():
    random = np.random.default_rng(0)
    a = random.normal(size=(N, 6)).astype(np.float32)
    return a, (a + 0.3 * random.normal(size=a.shape)).astype(np.float32)


def test_the_sums_of_parts_add_up_and_know_the_order():
    codes = np.random.default_rng(0).integers(-(2**63), 2**63, 1000)
    parts = [sums_of(codes[start : start + 300], start) for start in range(0, 1000, 300)]
    assert added_sums(parts) == sums_of(codes, 0) != Sums()
    turned = sums_of(codes[::-1], 0)
    assert turned.any_order == sums_of(codes, 0).any_order and turned.ordered != sums_of(codes, 0).ordered


@pytest.mark.parametrize("fit", [False, True])
def test_partitions_have_the_fingerprint_of_the_whole(sides, fit, tmp_path):
    a, b = sides
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    found = audit_pairs(a, b, fit=fit)
    parts = file_shards(tmp_path / "a.npy", tmp_path / "b.npy", rows=170)
    assert audit_shards(parts, fit=fit).fingerprint == found.fingerprint
    assert found.fingerprint.rows == N and found.fingerprint.b.width == 6 and found.fingerprint.a != found.fingerprint.b


def test_it_is_kept_in_the_record_and_read_back(sides, tmp_path):
    found = audit_pairs(sides[0].astype(np.float64), sides[1])
    found.save(tmp_path)
    record = json.loads((tmp_path / "audit.json").read_text())
    assert from_record(record) == found.fingerprint == audit_pairs(*sides).fingerprint
    for change in ({"version": 2}, {"codes": "0"}, {"a": None}, {"b": {"kind": "numbers"}}):
        assert from_record({"fingerprint": {**record["fingerprint"], **change}}) is None
    assert from_record({}) is None and from_record({"fingerprint": [1]}) is None


def test_scores_without_data_have_none(tmp_path):
    found = judge(np.random.default_rng(0).normal(5, 1, 200), np.random.default_rng(1).normal(0, 1, 10_000))
    found.save(tmp_path)
    assert found.fingerprint is None and "fingerprint" not in json.loads((tmp_path / "audit.json").read_text())


def test_rows_that_are_left_out_do_not_count(sides, tmp_path):
    a, b = (np.insert(side, [0, 300], np.nan, axis=0) for side in sides)
    for name, side in (("a", a), ("b", b)):
        np.save(tmp_path / f"{name}.npy", side)
    parts = file_shards(tmp_path / "a.npy", tmp_path / "b.npy", rows=200)
    expected = audit_pairs(*sides).fingerprint
    assert audit_pairs(a, b, skip_invalid=True).fingerprint == expected
    assert audit_shards(parts, skip_invalid=True).fingerprint == expected


def test_encoded_columns_are_known_by_their_items(sides):
    arrow = pytest.importorskip("pyarrow")
    texts = [f"text number {k} of many" for k in range(N)]
    table = arrow.table({"q": texts, "b": list(sides[1])})
    found = [audit_table(table, "q", "b", encoder_a="ngrams", seed=seed).fingerprint for seed in (0, 1)]
    assert found[0] == found[1] and found[0].a.kind == "texts" and found[0].b == audit_pairs(*sides).fingerprint.b
