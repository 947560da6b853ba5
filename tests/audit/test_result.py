import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import rince
from rince.audit import Scored, api, audit_pairs, judge
from support.paired_embeddings import embeddings, scores_and_null


def test_the_rate_the_wrong_pairs_and_how_sure():
    a, b, wrong = embeddings()
    found = audit_pairs(a, b)
    assert abs(found.noise_rate - 0.3) < 0.03 and found.noise_found and not found.uninformative
    assert found.interval[0] <= 0.3 <= found.interval[1]
    assert isinstance(found.noise_rate, float) and found.p_wrong.shape == (3000,)
    assert found.p_wrong[wrong].mean() > 0.9 and found.p_wrong[~wrong].mean() < 0.05
    flagged = found.flag(0.1)
    assert (~wrong[flagged]).mean() <= 0.13 and len(flagged) > 0.8 * wrong.sum()
    assert abs(found.p_wrong.mean() - 0.3) < 0.03
    assert f"{len(flagged):,} pairs flagged, of which at most 10%" in found.summary()


def test_p_wrong_is_calibrated():
    parts = [embeddings(noise=1.2, seed=seed) for seed in range(3)]
    chance = np.concatenate([audit_pairs(a, b).p_wrong for a, b, _ in parts])
    wrong = np.concatenate([w for _, _, w in parts])
    bins = np.minimum((chance * 10).astype(int), 9)
    gaps = [abs((chance - wrong)[bins == k].mean()) * (bins == k).mean() for k in np.unique(bins)]
    assert sum(gaps) < 0.02 and len(gaps) == 10


def test_clean_pairs_are_called_clean_and_nothing_is_flagged():
    a, b, _ = embeddings(rate=0.0)
    found = audit_pairs(a, b)
    assert (
        not found.noise_found and found.verdict == "none found" and found.noise_rate == 0 and found.best_guess < 0.005
    )
    assert len(found.flag(0.5)) == 0 and not found.p_wrong.any() and (found.trust == 1).all()
    assert found.interval[0] == 0 and found.auroc > 0.99
    assert 0.0005 < found.interval[1] < 0.01
    assert f"up to {found.interval[1]:.1%} of the pairs may be" in found.summary()


def test_mismatched_pairs_only_are_called_useless_not_noise():
    random = np.random.default_rng(0)
    found = audit_pairs(random.normal(size=(500, 8)), random.normal(size=(500, 8)))
    assert found.uninformative and not found.noise_found and len(found.flag(0.5)) == 0 and found.interval == (0, 1)
    assert found.cannot_tell and (found.trust == 1).all()
    assert "Either nearly all pairs are unrelated" in found.summary()


def test_nearly_all_wrong_is_called_useless_and_most_is_not():
    random = np.random.default_rng(0)
    null = random.normal(0, 1, 50_000).astype(np.float32)
    for wrong, useless in ((930, True), (850, False)):
        scores = random.normal(np.where(np.arange(1000) < wrong, 0, 6), 1).astype(np.float32)
        found = judge(Scored(scores, null))
        assert abs(found.best_guess - wrong / 1000) < 0.03 and found.interval[0] < 0.95
        assert found.uninformative == useless and found.noise_found != useless and bool(len(found.flag(0.3))) != useless


def test_suspects_come_with_the_expected_share_of_false_alarms():
    a, b, _ = embeddings(1000, noise=1.2)
    found = audit_pairs(a, b)
    listed, alarms = found.suspects(0.3)
    assert 0.2 < alarms[-1] <= 0.3 and (1 - found.p_wrong[listed]).mean() == pytest.approx(alarms[-1], abs=1e-5)


def test_pairs_of_one_cluster_are_no_more_sure_than_one_pair():
    random = np.random.default_rng(0)
    scores, null = random.normal(np.repeat([0, 5], [80, 320]), 1), random.normal(0, 1, 20_000).astype(np.float32)
    often = np.repeat(scores, 9).astype(np.float32)
    once, alone = judge(scores, null), judge(often, null)
    clustered = judge(Scored(often, null, np.repeat(np.arange(400), 9)))
    assert clustered.noise_rate == pytest.approx(once.noise_rate) and clustered.interval == pytest.approx(once.interval)
    assert np.ptp(clustered.interval) > 1.15 * np.ptp(alone.interval)


def test_a_collapsed_embedding_is_called_so():
    base = np.ones((500, 8), np.float32)
    base[:, 0] += 1e-7 * np.arange(500)
    found = audit_pairs(base, base[::-1].copy())
    assert found.uninformative and any("collapsed" in one for one in found.remarks)


def test_tensors_of_any_precision_and_arrays_give_the_same():
    a, b, _ = embeddings(400)
    first = audit_pairs(a, b)
    assert (audit_pairs(torch.from_numpy(a), torch.from_numpy(b)).scores == first.scores).all()
    assert np.allclose(
        audit_pairs(torch.from_numpy(a).bfloat16(), torch.from_numpy(b).bfloat16()).scores, first.scores, atol=0.02
    )


def test_the_same_seed_gives_the_same_audit():
    a, b, _ = embeddings(400)
    first, again, other = audit_pairs(a, b, seed=1), audit_pairs(a, b, seed=1), audit_pairs(a, b, seed=2)
    assert (first.p_wrong == again.p_wrong).all() and first.interval == again.interval
    assert (first.null != other.null).any()


def test_frequent_caption_does_not_bias_the_rate():
    """Each b belongs to five a; shuffled pairs often meet their own b again."""
    random = np.random.default_rng(0)
    b = np.repeat(random.normal(size=(40, 16)), 25, axis=0).astype(np.float32)
    a = (b + 0.5 * random.normal(size=b.shape)).astype(np.float32)
    found = audit_pairs(a, b)
    assert not found.noise_found and found.null.max() < found.scores.mean()


def test_advice_fits_the_loss_and_names_itself_a_rule_of_thumb():
    a, b, _ = embeddings()
    advice = audit_pairs(a, b).recommend()
    loss = advice.build(rince.CrossView())
    assert type(loss).__name__ == advice.loss and float(loss.temperature) == advice.temperature
    assert "rule of thumb" in advice.reason


@pytest.mark.parametrize(
    "a, b, message",
    [
        (np.ones((60, 3)), np.ones((61, 3)), "got 60 and 61 rows"),
        (np.ones((49, 3)), np.ones((49, 3)), "at least 50 pairs.*got 49"),
        (np.eye(60, 3) + 1, np.eye(60, 4) + 1, "3 and 4 wide.*fit=True"),
        (np.ones((60, 3)), np.eye(60, 3) + 1, "all rows of a are the same"),
        (np.ones((60, 3, 1)), np.ones((60, 3, 1)), "shape"),
        (np.ones((60, 0)), np.ones((60, 0)), "no columns"),
    ],
)
def test_bad_input_is_one_clear_error(a, b, message):
    with pytest.raises(ValueError, match=message):
        audit_pairs(a, b)


@pytest.mark.parametrize("fit", [False, True])
def test_rows_with_nan_or_infinity_are_named(fit):
    a, b, _ = embeddings(100)
    b[7, 2], b[93, 0] = np.nan, np.inf
    with pytest.raises(ValueError, match=r"b .* 2 rows \(7, 93\)"):
        audit_pairs(a, b, fit=fit)


def test_rows_without_a_direction_are_named():
    a, b, _ = embeddings(100)
    a[4] = 0
    with pytest.raises(ValueError, match="a is all zeros in row 4"):
        audit_pairs(a, b)


def test_other_types_and_lengths_of_ids_are_refused():
    a, b, _ = embeddings(100)
    with pytest.raises(TypeError, match="numpy array or a tensor"):
        audit_pairs(a.tolist(), b)
    with pytest.raises(TypeError, match="real numbers"):
        audit_pairs(a.astype(str), b)
    with pytest.raises(ValueError, match="ids must have one value per pair"):
        audit_pairs(a, b, ids=np.arange(99))


def test_former_names_warn_and_work():
    a, b, _ = embeddings(300)
    same = np.arange(300) // 2
    found = audit_pairs(a, b, duplicates=same)
    with pytest.warns(DeprecationWarning, match="audit_pairs"):
        former = api.audit(a, b, groups=same, drop_bad=True)
    assert former.interval == found.interval != audit_pairs(a, b).interval
    with pytest.warns(DeprecationWarning, match="auroc"):
        assert getattr(found, "distinguishable") == found.auroc  # noqa: B009


def test_saving_takes_groups_and_the_marks_of_a_review(tmp_path):
    a, b, _ = embeddings(300)
    audit_pairs(a, b).save(tmp_path, groups=["web", "book"] * 150, marks={7: "wrong"})
    record = json.loads((tmp_path / "audit.json").read_text())
    assert {group["name"] for group in record["groups"]} == {"web", "book"}
    assert '"marks":{"7":"wrong"}' in (tmp_path / "audit.html").read_text()


def test_saving_writes_four_files_and_overwrites_only_by_force(tmp_path):
    a, b, _ = embeddings(300)
    found = audit_pairs(a, b)
    found.save(tmp_path, ids=[f"pair {i}" for i in range(300)])
    assert {p.name for p in tmp_path.iterdir()} == {"audit.csv", "audit.json", "audit.html", "suspects.csv"}
    lines = (tmp_path / "audit.csv").read_text().splitlines()
    assert lines[0] == "id,score,p_wrong,flagged,weight" and len(lines) == 301
    table = [line.split(",") for line in lines[1:]]
    assert [row[0] for row in table] == [f"pair {i}" for i in range(300)]
    assert np.allclose([float(row[1]) for row in table], found.scores, atol=1e-4)
    assert np.allclose([float(row[4]) for row in table], found.weights, atol=1e-4)
    assert {i for i, row in enumerate(table) if row[3] == "1"} == set(found.flag(0.1).tolist())
    record = json.loads((tmp_path / "audit.json").read_text())
    assert record["pairs"] == 300 and record["noise_rate"] == found.noise_rate
    with pytest.raises(FileExistsError, match=r"force=True \(--force on the command line\)"):
        found.save(tmp_path)
    found.save(tmp_path, force=True)


def test_results_are_written_all_or_none(tmp_path, monkeypatch):
    """One of them alone would keep the same command from being given again."""
    found, replace = audit_pairs(*embeddings(300)[:2]), os.replace

    def stopped(old, new):
        if Path(new).suffix == ".html":
            raise KeyboardInterrupt
        replace(old, new)

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        found.save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_saving_parquet_gives_the_same_numbers(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    a, b, _ = embeddings(300)
    found = audit_pairs(a, b)
    found.save(tmp_path, table="parquet")
    table = parquet.read_table(tmp_path / "audit.parquet")
    assert (table["score"].to_numpy() == found.scores).all() and (table["p_wrong"].to_numpy() == found.p_wrong).all()


def test_missing_ids_are_empty_in_the_table_and_rows_in_the_page(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    found = judge(*scores_and_null())
    ids = np.array([None if i % 7 == 0 else i for i in range(300)], dtype=object)
    found.save(tmp_path, ids=ids)
    assert [line.split(",")[0] for line in (tmp_path / "audit.csv").read_text().splitlines()[1:4]] == ["", "1", "2"]
    assert '"row 7"' in (tmp_path / "audit.html").read_text()
    found.save(tmp_path, ids=ids, table="parquet", force=True)
    assert parquet.read_table(tmp_path / "audit.parquet")["id"].to_pylist() == ids.tolist()


def test_clusters_count_from_zero_without_gaps():
    scores = np.zeros(60, np.float32)
    for clusters in (np.arange(60) + 1, np.arange(59)):
        with pytest.raises(ValueError, match="clusters must"):
            judge(Scored(scores, scores, clusters))


def weak_scores(share, shift, seed=0):
    random = np.random.default_rng(seed)
    wrong = np.arange(4000) < 4000 * share
    scores = random.normal(np.where(wrong, 0, shift), np.where(wrong, 1, 1.3)).astype(np.float32)
    return wrong, judge(Scored(scores, random.normal(0, 1, 50_000).astype(np.float32)))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.6])
def test_interval_of_weak_scores_holds_the_truth(share):
    results = [weak_scores(share, 1.2, seed)[1] for seed in range(6)]
    assert sum(one.interval[0] <= share <= one.interval[1] for one in results) >= 5
    assert share > 0 or not any(one.noise_found for one in results)


@pytest.mark.parametrize("share, shift", [(0.0, 1.2), (0.2, 1.2), (0.4, 1.2)])
def test_weak_scores_cannot_tell_and_accuse_nobody(share, shift):
    wrong, found = weak_scores(share, shift)
    assert found.cannot_tell and f"between 0% and {found.interval[1]:.0%}" in found.summary()
    assert found.interval[0] == 0 and share < found.interval[1] < 0.9
    assert not found.noise_found and not found.uninformative and found.noise_rate == 0
    assert len(found.flag(0.9)) == 0 and not found.p_wrong.any()
    low, high = found.auroc_interval
    assert low <= 1 - found.p_values[~wrong].mean() <= high and 0.6 < low < high < 1
    assert "a fitted scorer (--fit, fit=True)" in found.summary()


def test_weights_are_one_minus_p_wrong_and_0_for_dropped_pairs():
    a, b, wrong = embeddings(1000)
    b[3, 0] = np.nan
    found = audit_pairs(a, b, skip_invalid=True)
    good = np.arange(1000) != 3
    assert found.verdict == "found" and found.trust[3] == 0
    assert (found.trust[good] == 1 - found.p_wrong[good]).all()
    assert found.trust[wrong & good].mean() < 0.1 < 0.9 < found.trust[~wrong & good].mean()


def test_an_audit_equals_itself_only():
    found, other = (judge(*scores_and_null()) for _ in range(2))
    assert found == found and found != other


def test_the_record_holds_the_verdict(tmp_path):
    found = judge(*scores_and_null())
    found.save(tmp_path)
    record = json.loads((tmp_path / "audit.json").read_text())
    assert record["verdict"] == "found" and record["auroc"] == found.auroc > 0.9
    assert record["auroc_interval"][0] <= found.auroc <= record["auroc_interval"][1]


def test_few_unrelated_pairs_are_flagged_where_scores_are_strong():
    random = np.random.default_rng(0)
    a = random.normal(size=(8000, 32)).astype(np.float32)
    b = a + 0.4 * random.normal(size=a.shape).astype(np.float32)
    b[:160] = np.roll(b[:160], 1, axis=0)  # 2 %
    result = rince.audit_pairs(a, b, embeddings="unseen", checks=None)
    flagged = result.flag()
    assert result.noise_found and (flagged < 160).sum() > 150 and (flagged >= 160).mean() < 0.1
