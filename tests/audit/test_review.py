import numpy as np
import pytest
from scipy.stats import beta

from rince.audit.review import (
    flag_by_probability,
    is_random_sample,
    read_marks,
    review_features,
    reviewed,
    share_interval,
    write_reviewed,
)
from rince.audit.save import Pairs
from rince.errors import UsageError


def a_table(n=4000, rate=0.2, bias=1.0, seed=0):
    """Pairs with calibrated probabilities (times ``bias``), and which ones are truly wrong."""
    random = np.random.default_rng(seed)
    strong = random.random(n) < 2 * rate
    chance = np.where(strong, random.beta(2, 2, n), random.beta(0.2, 20, n))
    wrong = random.random(n) < chance
    claimed = np.clip(chance * bias, 0, 1)
    return Pairs([f"p{i}" for i in range(n)], 1 - claimed, claimed, claimed > 0.6), wrong


@pytest.mark.parametrize("count, n", [(0, 1), (0, 20), (3, 20), (20, 20), (45, 50)])
def test_the_interval_of_a_share_is_that_of_the_beta_distribution(count, n):
    low, high = share_interval(count, n)
    assert low == pytest.approx(beta.ppf(0.025, count, n - count + 1) if count else 0, abs=1e-6)
    assert high == pytest.approx(beta.ppf(0.975, count + 1, n - count) if count < n else 1, abs=1e-6)


def mark(rows, wrong):
    return {int(row): "wrong" if wrong[row] else "keep" for row in rows}


def test_precision_counts_flags_that_were_decided():
    pairs, wrong = a_table()
    flagged = np.flatnonzero(pairs.flagged)
    marks = mark(flagged[:40], wrong) | {int(flagged[40]): "unsure", int(np.flatnonzero(~pairs.flagged)[0]): "keep"}
    found, _ = reviewed(pairs, marks, 0.2, (0.15, 0.25))
    assert (found.checked, found.confirmed) == (40, wrong[flagged[:40]].sum())
    assert found.precision_interval == share_interval(found.confirmed, 40)
    assert found.marked["unsure"] == 1 and sum(found.marked.values()) == 42
    assert "flags are not reviewed" in found.summary()


@pytest.mark.parametrize("bias", [0.5, 1.0, 1.6])
def test_a_random_review_corrects_a_rate_that_is_off(bias):
    held, before, after = [], [], []
    for seed in range(25):
        pairs, wrong = a_table(bias=bias, seed=seed)
        rows = np.random.default_rng(seed).permutation(len(wrong))[:400]
        claimed = float(pairs.p_wrong.mean())
        found, _ = reviewed(pairs, mark(rows, wrong), claimed, (0.9 * claimed, 1.1 * claimed))
        held.append(found.interval[0] <= wrong.mean() <= found.interval[1])
        before.append(abs(claimed - wrong.mean()))
        after.append(abs(found.noise_rate - wrong.mean()))
    assert np.mean(held) >= 0.88
    assert np.mean(after) < 0.02 and (bias == 1 or np.mean(after) < np.mean(before) / 2)


def related_but_wrong(n=3000, seed=0):
    """Pairs whose scores say little; most wrong pairs lie in one kind of item. The audit found none."""
    random = np.random.default_rng(seed)
    kind = random.random(n) < 0.3
    wrong = random.random(n) < np.where(kind, 0.6, 0.05)
    scores = random.normal(0, 1, n) - 0.5 * wrong
    rows = random.normal(size=(n, 12))
    rows[:, 3] += 6 * kind
    return Pairs([f"p{i}" for i in range(n)], scores, np.zeros(n), np.zeros(n, bool)), wrong, rows


def test_random_marks_estimate_the_rate():
    pairs, wrong, rows = related_but_wrong()
    marked = np.random.default_rng(1).permutation(len(wrong))[:150]
    features = review_features(pairs.scores, [rows, rows.astype(np.float16)])
    assert features.shape == (3000, 21)
    review, p = reviewed(pairs, mark(marked, wrong), 0.0, (0.0, 0.02), features=features)
    assert review.recalibrated and review.interval[0] <= wrong.mean() <= review.interval[1]
    assert abs(review.noise_rate - wrong.mean()) < 0.06 and review.interval[1] - review.interval[0] < 0.2
    rest = np.setdiff1d(np.arange(len(wrong)), marked)
    top = rest[np.argsort(-p[rest])[: len(rest) // 10]]
    before = rest[np.argsort(pairs.scores[rest])[: len(rest) // 10]]
    assert wrong[top].mean() > wrong[before].mean() + 0.15
    assert (p[marked] == wrong[marked]).all() and "reviewed.csv" in review.summary()


def test_marks_of_suspects_alone_or_of_one_kind_do_not_recalibrate():
    pairs, wrong, _ = related_but_wrong()
    lowest, random = np.argsort(pairs.scores)[:100], np.random.default_rng(0).permutation(len(wrong))[:100]
    keep = np.zeros(len(wrong), bool)

    def sample(rows, truth):
        chosen = np.isin(np.arange(len(wrong)), rows)
        return is_random_sample(pairs.scores, chosen & truth, chosen & ~truth)

    assert sample(random, wrong) and not sample(lowest, wrong)
    assert not sample(random, keep) and not sample(random[:20], wrong)
    review, p = reviewed(pairs, mark(lowest, wrong), 0.0, (0.0, 0.02))
    assert p is None and not review.recalibrated and "random order" in review.summary()


def test_flags_by_probability_keep_the_expected_false_alarms():
    p = np.array([0.2, np.nan] + 300 * [0.99] + 40 * [0.5], np.float32)
    flagged = flag_by_probability(p, 0.05)
    assert set(range(2, 302)) <= set(flagged.tolist()) and (p[flagged] >= 0.5).all()
    assert 1 - p[flagged].mean() <= 0.05
    assert not len(flag_by_probability(p[:1], 0.1))


def test_pairs_that_were_not_judged_stay_unjudged(tmp_path):
    pairs, wrong, rows = related_but_wrong(400)
    scores = pairs.scores.copy()
    scores[7], rows[7] = np.nan, np.nan
    pairs = pairs._replace(scores=scores)
    marks = mark(np.random.default_rng(0).permutation(400)[:80], wrong)
    _, p = reviewed(pairs, marks, 0.0, (0.0, 0.1), features=review_features(scores, [rows]))
    assert np.isnan(p[7]) and np.isnan(p).sum() == 1
    write_reviewed(tmp_path / "reviewed.csv", pairs, marks, p, 0.1)
    lines = (tmp_path / "reviewed.csv").read_text().splitlines()
    assert lines[0] == "row,id,score,p_wrong,flagged,mark" and len(lines) == 400
    assert lines[1].split(",")[3:] == ["1", "1", "wrong"]


def test_without_marks_the_audit_stays_as_it_is():
    pairs, _ = a_table()
    rate = float(pairs.p_wrong.mean())
    found, _ = reviewed(pairs, {}, rate, (0.8 * rate, 1.2 * rate))
    assert found.noise_rate == pytest.approx(rate) and found.precision is None
    assert found.interval == pytest.approx((0.8 * rate, 1.2 * rate), rel=0.05)
    assert "None of the" in found.summary()


def test_marks_are_read_with_their_names(tmp_path):
    (tmp_path / "r.csv").write_text('\ufeffrow,id,mark,score\r\n1,"\'=x, y",wrong,0.5\r\n0,plain,unsure,0\r\n')
    assert read_marks(tmp_path / "r.csv", ["plain", "=x, y"]) == {1: "wrong", 0: "unsure"}


@pytest.mark.parametrize(
    "text, message",
    [
        ("row,id,mark\n", "has no marks"),
        ("a,b\n1,2\n", "is not a review: it must have the columns row, id and mark"),
        ("row,id,mark\n0,other,keep\n", "row 0 is 'other' in the review and 'p0' in the audit"),
        ("row,id,mark\n9,p9,keep\n", "names row '9' in line 2: rows go from 0 to 1"),
        ("row,id,mark\n-1,p0,keep\n", "names row '-1'"),
        ("row,id,mark\n0,p0,maybe\n", "has the mark 'maybe' in line 2: marks are keep, wrong, unsure"),
        ("row,id,mark\n0\n", "has the mark '' in line 2"),
    ],
)
def test_another_file_is_one_sentence(tmp_path, text, message):
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        read_marks(tmp_path / "r.csv", ["p0", "p1"])


@pytest.mark.parametrize("row", ["\u00b2", "9" * 5000, "-1", "", "1.0"])
def test_a_row_that_is_no_number_is_named(tmp_path, row):
    (tmp_path / "review.csv").write_text(f"row,id,mark\n{row},p0,keep\n", encoding="utf-8")
    with pytest.raises(UsageError, match="rows go from 0 to 1"):
        read_marks(tmp_path / "review.csv", ["p0", "p1"])
