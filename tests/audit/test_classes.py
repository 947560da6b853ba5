import numpy as np
import pytest

from rince.audit import audit
from rince.audit.classes import accidents, class_side, label_numbers, share_hit_by_accident, share_with_rival
from rince.audit.fit.towers import Recipe
from rince.errors import UsageError

QUICK = Recipe(folds=3, members=1, width=64, dim=16, steps=60)


def test_a_side_with_few_different_rows_is_a_class():
    single, few = np.arange(1000), np.arange(1000) % 7
    assert class_side(single, few) == "right" and class_side(few, single) == "left"
    assert class_side(few, np.arange(1000) % 3) == "right"
    assert class_side(single, single) is None and class_side(single, np.arange(1000) // 2) is None
    assert class_side(np.arange(60), np.arange(60) % 7) is None, "six pairs of a class are too few"
    assert accidents(single, single) == 0 and accidents(single, few) == pytest.approx(1 / 6, rel=0.01)


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
    assert share_hit_by_accident(true) == pytest.approx(hits / tries, rel=0.03)


@pytest.mark.parametrize("classes", [2, 4])
def test_shuffled_labels_count_as_wrong_only_where_the_class_changed(classes):
    random = np.random.default_rng(0)
    label = random.integers(classes, size=900)
    features = 2.5 * np.eye(classes)[label] @ random.normal(size=(classes, 12)) + random.normal(size=(900, 12))
    said = label.copy()
    shuffled = random.permutation(900)[:270]
    said[shuffled] = said[random.permutation(shuffled)]
    truth = (said != label).mean()
    found = audit(features, np.eye(classes)[said], fit=True, recipe=QUICK)
    assert truth < 0.25 and found.interval[0] <= truth <= found.interval[1]
    flags = found.flag(0.1)
    assert len(flags) > 0.5 * truth * 900 and (said[flags] == label[flags]).mean() < 0.25


def confused(random, features=12):
    """Rows of six classes, of which two and two are alike, and labels, a fifth of them confused with the like one."""
    label = random.integers(6, size=1200)
    centres = random.normal(size=(3, features)).repeat(2, 0) + 0.7 * random.normal(size=(6, features))
    said = np.where(random.random(1200) < 0.2, label ^ 1, label)
    return 2 * centres[label] + 0.5 * random.normal(size=(1200, features)), label, said, 2 * centres


@pytest.mark.parametrize("classes_first", [False, True])
def test_labels_confused_with_similar_ones_lie_in_the_interval(classes_first):
    rows, label, said, _ = confused(np.random.default_rng(0))
    sides = (np.eye(6)[said], rows) if classes_first else (rows, np.eye(6)[said])
    found = audit(*sides, fit=True, recipe=QUICK)
    truth = (said != label).mean()
    assert found.interval[0] <= truth <= found.interval[1]
    assert not len(found.flag(0.1)) or found.noise_found
    assert not found.verdict.startswith("none")
    assert f"{found.with_rival:.1%} fit another class better" in found.summary()
    assert found.of_classes and found.recommend().loss == "InfoNCE"


@pytest.mark.parametrize("classes_first", [False, True])
def test_so_they_do_by_the_cosine(classes_first):
    rows, label, said, centres = confused(np.random.default_rng(1), features=32)
    sides = (centres[said], rows) if classes_first else (rows, centres[said])
    found = audit(*sides)
    assert found.interval[0] <= (said != label).mean() <= found.interval[1]
    right = audit(*((centres[label], rows) if classes_first else (rows, centres[label])))
    assert right.verdict == "none found"


def test_the_share_of_pairs_that_fit_another_class_better():
    table = np.array([[3.0, 1.0, 2.0], [1.0, 0.0, 5.0], [2.0, 2.0, 0.0]], dtype=np.float32)
    assert share_with_rival(table, np.array([0, 0, 1])) == pytest.approx(1 / 3), "a tie is no rival"
    assert share_with_rival(table[:, :1], np.zeros(3, dtype=np.int64)) == 0 == share_with_rival(table[:0], np.zeros(0))


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
    found = audit(rows, given, fit=True, recipe=QUICK)
    truth = (said != label).mean()
    assert found.interval[0] <= truth <= found.interval[1] and found.noise_found
    assert found.noise_rate == pytest.approx(audit(rows, np.eye(4)[said], fit=True, recipe=QUICK).noise_rate, abs=0.03)


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
        audit(rows, np.array([f"text {k}" for k in range(300)]), fit=True)
    with pytest.raises(TypeError, match="or texts as labels, got float"):
        audit(rows, np.array([0.5] * 300, dtype=object), fit=True)
    with pytest.raises(UsageError, match="4 and 1 wide: use fit=True"):
        audit(rows, np.array(["a", "b"] * 150))
