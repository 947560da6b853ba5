"""Scores of any origin, judged."""

import json

import numpy as np
import pytest

from rince.audit import Scored, audit_pairs, judge
from rince.errors import UsageError
from rince.noise import wrong_pairs
from rince.report.page import audit_data
from support.paired_embeddings import scores_and_null


def test_scores_of_any_origin_can_be_judged():
    random = np.random.default_rng(0)
    scores = np.concatenate([random.normal(0, 1, 400), random.normal(5, 1, 600)]).astype(np.float32)
    found = judge(Scored(scores, random.normal(0, 1, 50_000).astype(np.float32)))
    assert abs(found.noise_rate - 0.4) < 0.03


def test_own_scores_may_be_lists_and_are_called_so(tmp_path):
    scores, null = scores_and_null()
    found = judge(scores.tolist(), null.tolist())
    assert abs(found.noise_rate - 1 / 3) < 0.05
    assert "scored by your scores" in found.summary() and "cosine" not in found.summary()
    found.save(tmp_path)
    assert json.loads((tmp_path / "audit.json").read_text())["scored_by"] == "your scores"
    assert audit_data(found, "own", 0.1, str)["score"] == "your scores"


def test_scores_that_tell_nothing_ask_for_their_direction_not_for_fit():
    scores, null = scores_and_null()
    found = judge(-scores, null)
    assert found.uninformative and "Higher scores must mean" in found.summary() and "fit=True" not in found.summary()


def test_scores_that_cannot_be_judged_are_refused():
    scores, null = scores_and_null()
    with pytest.raises(ValueError, match=r"scores must be finite, got nan in row 7"):
        judge(np.where(np.arange(300) == 7, np.nan, scores), null)


def columns(n=900, rate=0.3, seed=0):
    """Two views of hidden causes, of different widths."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(n, 6))
    partner, wrong = wrong_pairs(n, rate, seed)
    return hidden @ random.normal(size=(6, 10)), (hidden @ random.normal(size=(6, 8)))[partner], wrong


def test_fit_uses_cca_and_says_so(tmp_path):
    a, b, wrong = columns()
    result = audit_pairs(a, b, fit=True, progress=False)
    assert result.scorer == "cca" and result.fitted and not result.conditions
    assert result.interval[0] <= wrong.mean() <= result.interval[1]
    result.save(tmp_path)
    record = json.loads((tmp_path / "audit.json").read_text())
    assert record["scorer"] == "cca" and record["fitted"] and record["issues"]["unrelated"]["count"] > 0


def test_unknown_scorers_scores_checks_and_answers_are_refused():
    a, b, _ = columns(100)
    for option, value in (("scorer", "svm"), ("score", "dot"), ("checks", ("typo",)), ("embeddings", "maybe")):
        with pytest.raises(UsageError, match=option):
            audit_pairs(a, b[:, :8], **{option: value})


def test_groups_need_one_value_per_pair_and_may_have_gaps():
    a, b, _ = columns(600)
    with pytest.raises(UsageError, match="groups must have one value per pair"):
        audit_pairs(a, b, fit=True, groups=["web"] * 599)
    result = audit_pairs(a, b, fit=True, groups=["web", None, np.nan] * 200, checks=("group",))
    assert not result.issues["group"].claimed


def test_large_data_are_checked_on_a_sample(monkeypatch):
    a, b, _ = columns()
    whole = audit_pairs(a, b, fit=True, progress=False)
    monkeypatch.setattr("rince.audit.api.MAX_CHECKED", 100)
    streamed = audit_pairs(a, b, fit=True, progress=False)
    assert streamed.interval == whole.interval and any("Checked on a sample" in one for one in streamed.conditions)


def test_placeholders_of_large_data_are_left_out_too(monkeypatch):
    random = np.random.default_rng(0)
    a = random.normal(size=(3000, 16))
    b = a + 0.5 * random.normal(size=a.shape)
    b[:300], b[7] = 1.0, np.inf
    whole = audit_pairs(a, b, skip_invalid=True)
    monkeypatch.setattr("rince.audit.api.MAX_CHECKED", 100)
    large = audit_pairs(a, b, skip_invalid=True)
    assert large.interval == whole.interval and np.array_equal(large.dropped, whole.dropped)
    assert np.flatnonzero(large.issues["placeholder"].scores).tolist() == [*range(7), *range(8, 300)]


def test_checks_can_be_chosen():
    a, b, _ = columns()
    result = audit_pairs(a[:, :8], b, checks=("duplicate",))
    assert set(result.issues) == {"unrelated", "duplicate"}


@pytest.mark.parametrize("fit", (False, True))
@pytest.mark.parametrize("value", (1e15, 3e38))
def test_single_huge_value_does_not_stop_the_audit(fit, value):
    random = np.random.default_rng(0)
    a = random.normal(size=(200, 6)).astype(np.float32)
    b = (a + 0.1 * random.normal(size=a.shape)).astype(np.float32)
    a[3, 2] = value
    result = audit_pairs(a, b, fit=fit)
    assert result.verdict.value == "none found" and len(result.flag()) == 0


@pytest.mark.parametrize("options", ({}, {"fit": True}, {"score": "cosine"}), ids=str)
def test_pairs_that_all_share_an_id_cannot_be_mismatched(options):
    a = np.random.default_rng(0).normal(size=(200, 6))
    with pytest.raises(UsageError, match="all pairs share an id"):
        audit_pairs(a, a + 1, ids=["x"] * 200, **options)


def test_held_out_pairs_are_mentioned_whatever_they_say():
    random = np.random.default_rng(0)
    a, new = random.normal(size=(400, 8)), random.normal(size=(100, 8))
    noise = 0.5 * random.normal(size=(500, 8))
    found = audit_pairs(a, a + noise[:400], held_out=(new, new + noise[400:]), checks=None)
    assert not found.issues["trained_on_these"].claimed and "do not score higher than 100" in found.summary()
    few = audit_pairs(a, a + noise[:400], held_out=(new[:9], new[:9]), checks=None)
    assert "9 held-out pairs are too few" in few.summary()


def test_conditions_about_embeddings_come_before_the_verdict():
    random = np.random.default_rng(0)
    a = random.normal(size=(400, 8))
    lines = audit_pairs(a, a + 0.1 * random.normal(size=a.shape), checks=None).summary().splitlines()
    assert "not trained on these pairs" in lines[1] and lines[2].startswith("No unrelated pairs found")


def test_stretches_are_named_by_rows_of_the_input():
    random = np.random.default_rng(0)
    a = random.normal(size=(1500, 16))
    b = a + 0.3 * random.normal(size=a.shape)
    b[900:1200] = np.roll(b[900:1200], 1, axis=0)
    b[:100] = 1.0  # placeholders are not judged
    (stretch,) = audit_pairs(a, b).issues["shifted"].details["stretches"]
    assert abs(stretch["first"] - 900) < 4 and abs(stretch["last"] - 1199) < 4


def test_better_partners_are_rows_of_the_input():
    random = np.random.default_rng(0)
    a = random.normal(size=(400, 16))
    b = a + 0.2 * random.normal(size=a.shape)
    b[[200, 300]] = b[[300, 200]]
    b[:50] = 1.0  # placeholders are not judged
    issue = audit_pairs(a, b).issues["better_partner"]
    assert sorted(issue.examples[:2]) == [200, 300] and issue.details["partner"][[200, 300]].tolist() == [300, 200]
