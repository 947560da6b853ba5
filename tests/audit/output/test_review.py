import numpy as np
import pytest
from scipy.stats import beta

from rince.audit.output.review import read_marks, reviewed, share_interval
from rince.audit.output.table import Pairs
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
    found = reviewed(pairs, marks, 0.2, (0.15, 0.25))
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
        found = reviewed(pairs, mark(rows, wrong), claimed, (0.9 * claimed, 1.1 * claimed))
        held.append(found.interval[0] <= wrong.mean() <= found.interval[1])
        before.append(abs(claimed - wrong.mean()))
        after.append(abs(found.noise_rate - wrong.mean()))
    assert np.mean(held) >= 0.88
    assert np.mean(after) < 0.02 and (bias == 1 or np.mean(after) < np.mean(before) / 2)


def test_without_marks_the_audit_stays_as_it_is():
    pairs, _ = a_table()
    rate = float(pairs.p_wrong.mean())
    found = reviewed(pairs, {}, rate, (0.8 * rate, 1.2 * rate))
    assert found.noise_rate == pytest.approx(rate) and found.precision is None
    assert found.interval == pytest.approx((0.8 * rate, 1.2 * rate), rel=0.05)
    assert "none of the" in found.summary()


def test_marks_are_read_with_their_names(tmp_path):
    (tmp_path / "r.csv").write_text('\ufeffrow,id,mark,score\r\n1,"\'=x, y",wrong,0.5\r\n0,plain,unsure,0\r\n')
    assert read_marks(tmp_path / "r.csv", ["plain", "=x, y"]) == {1: "wrong", 0: "unsure"}


@pytest.mark.parametrize(
    "text, message",
    [
        ("a,b\n1,2\n", "is no review: it must have the columns row, id and mark"),
        ("row,id,mark\n0,other,keep\n", "belongs to another audit: row 0 is called 'other' there and 'p0' here"),
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
