import numpy as np
import pytest
import torch

from rince.audit import Scored, audit_pairs
from rince.audit.fit.towers import FitConfig
from rince.audit.null import (
    as_scored,
    class_side,
    mismatched_index,
    right_by_chance,
    share_other_class_better,
    share_right_by_chance,
)
from rince.errors import UsageError
from rince.pairs.matrix import label_numbers, row_codes
from support.audit_scores import cosine_scores


def test_mismatched_pairs_share_no_key_and_are_drawn_evenly():
    random = np.random.default_rng(0)
    own, group = np.arange(60), np.repeat(np.arange(20), 3)
    i, j = mismatched_index([own, group], [own, group], 3000, random)
    assert len(i) == 3000 and (group[i] != group[j]).all()
    assert np.abs(np.bincount(j, minlength=60) / 50 - 1).max() < 0.6


def test_few_mismatched_pairs_are_all_taken_once():
    own, group = np.arange(60), np.repeat(np.arange(20), 3)
    i, j = mismatched_index([own, group], [own, group], 100_000, np.random.default_rng(0))
    wanted = {(x, y) for x in range(60) for y in range(60) if x // 3 != y // 3}
    assert len(i) == len(wanted) and set(zip(i.tolist(), j.tolist(), strict=True)) == wanted
    assert len(set(i[:300].tolist())) > 50, "in random order: some may be content with the first of them"


def test_without_mismatched_pairs_there_is_an_error():
    with pytest.raises(ValueError, match="no mismatched pairs"):
        mismatched_index([np.zeros(5, int)], [np.zeros(5, int)], 10, np.random.default_rng(0))


def test_cosine_scores_and_their_null(monkeypatch):
    random = np.random.default_rng(0)
    a, b = random.normal(size=(80, 5)), random.normal(size=(80, 5))
    scored = cosine_scores(a, b, [], seed=0, mismatched=200_000)
    table = (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T
    assert np.allclose(scored.scores, np.diag(table), atol=1e-6)
    others = table[~np.eye(80, dtype=bool)]
    assert np.allclose(np.quantile(scored.null, [0.1, 0.5, 0.9]), np.quantile(others, [0.1, 0.5, 0.9]), atol=0.01)


def test_the_same_caption_twice_is_no_mismatched_pair():
    """b repeats every row, so its partner's twin would be a perfect match among the mismatched pairs."""
    random = np.random.default_rng(0)
    b = np.repeat(random.normal(size=(40, 6)), 3, axis=0).astype(np.float32)
    a = b + 0.01 * random.normal(size=b.shape).astype(np.float32)
    assert cosine_scores(a, b, [], mismatched=50_000).null.max() < 0.98
    assert cosine_scores(b, a, [], mismatched=50_000).null.max() < 0.98


def test_equal_pairs_and_pairs_of_a_key_are_one_thing():
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 50, 6)).astype(np.float32)
    often = random.permutation(np.repeat(np.arange(50), 3))
    assert cosine_scores(a, b, mismatched=100).units == 50
    assert cosine_scores(a[often], b[often], mismatched=100).units == 50
    assert cosine_scores(a[often], random.normal(size=(150, 6)), mismatched=100).units == 150, "one row only"
    assert cosine_scores(a[often], b[often], [often // 2], mismatched=100).units == 25


def test_near_duplicates_are_no_mismatched_pairs_if_they_share_an_id():
    random = np.random.default_rng(0)
    b = np.repeat(random.normal(size=(40, 6)), 3, axis=0) + 0.001 * random.normal(size=(120, 6))
    a = b + 0.01 * random.normal(size=b.shape)
    groups = np.repeat(np.arange(40), 3)
    assert cosine_scores(a, b, [], mismatched=50_000).null.max() > 0.99
    assert cosine_scores(a, b, [groups], mismatched=50_000).null.max() < 0.98


def test_chunks_and_a_small_pool_change_nothing_but_the_sample(monkeypatch, tmp_path):
    random = np.random.default_rng(0)
    a = random.normal(size=(3000, 8)).astype(np.float32)
    b = (a + random.normal(size=a.shape)).astype(np.float32)
    whole = cosine_scores(a, b, [])
    np.save(tmp_path / "a.npy", a)
    monkeypatch.setattr("rince.pairs.matrix.CHUNK_NUMBERS", 4096)
    parts = cosine_scores(np.load(tmp_path / "a.npy", mmap_mode="r"), b, pool=1000)
    assert (whole.scores == parts.scores).all()
    quantiles = np.linspace(0.05, 0.95, 10)
    assert np.allclose(np.quantile(whole.null, quantiles), np.quantile(parts.null, quantiles), atol=0.05)


def test_row_codes_are_equal_for_equal_rows_only():
    x = torch.randn(5000, 3).round(decimals=1)
    x[0], x[1] = 0.0, -0.0
    codes = row_codes(x)
    assert codes[0] == codes[1]
    assert len(np.unique(codes)) == len(torch.unique(x, dim=0))
    assert len(np.unique(row_codes(torch.eye(64)))) == 64


def scores_and_null(n=300):
    random = np.random.default_rng(0)
    return random.normal(size=n), random.normal(size=1000)


@pytest.mark.parametrize("form", [list, np.asarray, torch.from_numpy, lambda x: torch.from_numpy(x).bfloat16()])
def test_scores_from_anywhere_are_the_same_as_arrays(form):
    scores, null = scores_and_null()
    for found in (as_scored(form(scores), form(null)), as_scored(Scored(form(scores), form(null)))):
        for mine, given in zip(found[:2], (scores, null), strict=True):
            assert mine.dtype == np.float32 and np.allclose(mine, given, rtol=0.01)


@pytest.mark.parametrize(
    "change, error, message",
    [
        (
            lambda s, z: (np.where(np.arange(300) == 7, np.nan, s), z),
            ValueError,
            "scores must be finite, got nan in row 7",
        ),
        (lambda s, z: (s, np.append(z, [np.inf, -np.inf])), ValueError, r"null must be finite, got inf in 2 rows"),
        (lambda s, z: (s * 1e300, z), ValueError, "scores must be finite"),
        (lambda s, z: (s[:3], z), ValueError, "at least 50 pairs, got 3"),
        (lambda s, z: (s, z[:0]), ValueError, "null must hold the scores of mismatched pairs, got none"),
        (lambda s, z: (s, []), ValueError, "null must hold the scores of mismatched pairs, got none"),
        (lambda s, z: (s[:, None], z), ValueError, r"scores must .* one dimension, got the shape \(300, 1\)"),
        (lambda s, z: (s.astype(str), z), TypeError, "scores must hold real numbers"),
        (lambda s, z: (s,), TypeError, "The scores of mismatched pairs are missing"),
        (lambda s, z: (Scored(s, z), 3), TypeError, "not both"),
    ],
)
def test_scores_that_cannot_be_judged_are_one_clear_error(change, error, message):
    with pytest.raises(error, match=message):
        as_scored(*change(*scores_and_null()))


QUICK = FitConfig(folds=3, members=1, width=64, dim=16, steps=60)


def test_a_side_with_few_different_rows_is_a_class():
    single, few = np.arange(1000), np.arange(1000) % 7
    assert class_side(single, few) == "right" and class_side(few, single) == "left"
    assert class_side(few, np.arange(1000) % 3) == "right"
    assert class_side(single, single) is None and class_side(single, np.arange(1000) // 2) is None
    assert class_side(np.arange(60), np.arange(60) % 7) is None, "six pairs of a class are too few"
    assert right_by_chance(single, single) == 0 and right_by_chance(single, few) == pytest.approx(1 / 6, rel=0.01)


@pytest.mark.parametrize("sizes", [[500, 500], [700, 300], [400, 300, 300], [100] * 10])
def test_how_often_a_mismatched_label_is_the_true_one(sizes):
    """By doing it: labels are shuffled, and every wrong one exchanged for that of a random pair of another class."""
    random = np.random.default_rng(0)
    true = np.repeat(np.arange(len(sizes)), sizes)
    hits, tries = 0, 0
    for _ in range(200):
        said = random.permutation(true)
        other = random.permutation(true)
        counts = (said != true) & (other != said)
        weight = 1 / (1 - np.array(sizes)[said] / len(true))  # of the draws that are of another class
        hits, tries = hits + (weight * counts * (other == true)).sum(), tries + (weight * counts).sum()
    assert share_right_by_chance(true) == pytest.approx(hits / tries, rel=0.03)


@pytest.mark.parametrize("classes", [2, 4])
def test_shuffled_labels_count_as_wrong_only_where_the_class_changed(classes):
    random = np.random.default_rng(0)
    label = random.integers(classes, size=900)
    features = 2.5 * np.eye(classes)[label] @ random.normal(size=(classes, 12)) + random.normal(size=(900, 12))
    said = label.copy()
    shuffled = random.permutation(900)[:270]
    said[shuffled] = said[random.permutation(shuffled)]
    truth = (said != label).mean()
    found = audit_pairs(features, np.eye(classes)[said], fit=True, scorer="towers", config=QUICK)
    assert truth < 0.25 and found.interval[0] <= truth <= found.interval[1]
    flags = found.flag(0.1)
    assert len(flags) > 0.5 * truth * 900 and (said[flags] == label[flags]).mean() < 0.25


def confused(random, features=12):
    """Rows of six classes, of which two and two are alike, and labels, a fifth of them confused with the like one."""
    label = random.integers(6, size=1200)
    centers = random.normal(size=(3, features)).repeat(2, 0) + 0.7 * random.normal(size=(6, features))
    said = np.where(random.random(1200) < 0.2, label ^ 1, label)
    return 2 * centers[label] + 0.5 * random.normal(size=(1200, features)), label, said, 2 * centers


@pytest.mark.parametrize("classes_first", [False, True])
def test_labels_confused_with_similar_ones_lie_in_the_interval(classes_first):
    rows, label, said, _ = confused(np.random.default_rng(0))
    sides = (np.eye(6)[said], rows) if classes_first else (rows, np.eye(6)[said])
    found = audit_pairs(*sides, fit=True, scorer="towers", config=QUICK)
    truth = (said != label).mean()
    assert found.interval[0] <= truth <= found.interval[1]
    assert not len(found.flag(0.1)) or found.noise_found
    assert found.verdict != "none found"
    assert f"{found.other_class_better:.1%} of the pairs fit another class better" in found.summary()
    assert found.of_classes and found.recommend().loss == "InfoNCE"


@pytest.mark.parametrize("classes_first", [False, True])
def test_so_they_do_by_the_cosine(classes_first):
    rows, label, said, centers = confused(np.random.default_rng(1), features=32)
    sides = (centers[said], rows) if classes_first else (rows, centers[said])
    found = audit_pairs(*sides)
    assert found.interval[0] <= (said != label).mean() <= found.interval[1]
    right = audit_pairs(*((centers[label], rows) if classes_first else (rows, centers[label])))
    assert right.verdict == "none found"


def test_the_share_of_pairs_that_fit_another_class_better():
    table = np.array([[3.0, 1.0, 2.0], [1.0, 0.0, 5.0], [2.0, 2.0, 0.0]], dtype=np.float32)
    assert share_other_class_better(table, np.array([0, 0, 1])) == pytest.approx(1 / 3), "a tie is no rival"
    assert (
        share_other_class_better(table[:, :1], np.zeros(3, dtype=np.int64))
        == 0
        == share_other_class_better(table[:0], np.zeros(0))
    )


@pytest.mark.parametrize("kind", ["numbers", "column of numbers", "texts", "objects"])
def test_labels_in_any_form_say_the_same(kind):
    random = np.random.default_rng(0)
    label = random.integers(4, size=900)
    rows = 2.5 * np.eye(4)[label] @ random.normal(size=(4, 12)) + random.normal(size=(900, 12))
    said = np.where(random.random(900) < 0.3, random.integers(4, size=900), label)
    names = np.array(["cat", "dog", "eel", "fly"])
    given = {"numbers": said, "column of numbers": said[:, None], "texts": names[said]}.get(
        kind, names[said].astype(object)
    )
    found = audit_pairs(rows, given, fit=True, scorer="towers", config=QUICK)
    truth = (said != label).mean()
    assert found.interval[0] <= truth <= found.interval[1] and found.noise_found
    assert found.noise_rate == pytest.approx(
        audit_pairs(rows, np.eye(4)[said], fit=True, scorer="towers", config=QUICK).noise_rate, abs=0.03
    )


def test_labels_of_texts_have_numbers_in_their_order():
    found = label_numbers([["b", "a", None] * 10, ["b ", "", " "]])
    assert found[:2].tolist() == [[1], [0]] and np.isnan(found[[2, -1, -2]]).all() and found[-3] == 1
    many = [str(k) for k in range(100)]
    assert label_numbers([many * 10]).shape == (1000, 1)
    assert label_numbers([many * 9]) is None and label_numbers([[*many, "x"] * 10]) is None
    assert label_numbers([["", None]]) is None and label_numbers([]) is None


def test_texts_that_are_no_labels_are_refused():
    rows = np.random.default_rng(0).normal(size=(300, 4))
    with pytest.raises(UsageError, match="too many different ones for labels"):
        audit_pairs(rows, np.array([f"text {k}" for k in range(300)]), fit=True)
    with pytest.raises(TypeError, match="or texts as labels, got float"):
        audit_pairs(rows, np.array([0.5] * 300, dtype=object), fit=True)
    with pytest.raises(UsageError, match=r"4 and 1 wide.*fit=True"):
        audit_pairs(rows, np.array(["a", "b"] * 150))
