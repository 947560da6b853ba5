"""Nested cross-validation against its definition, and bad input."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC

from rince.evaluate.svm import linear_accuracy, svm_accuracy


def test_chosen_c_and_accuracy_are_those_of_the_protocol():
    """10 stratified outer folds; C of each by 5 stratified inner folds, ties to the smaller C."""
    x, y = make_classification(120, 8, n_informative=4, flip_y=0.25, class_sep=0.7, random_state=0)
    grid = (0.01, 1.0, 100.0)
    result = svm_accuracy(x, y, folds=3, inner_folds=2, grid=grid)
    for fold, (train, test) in enumerate(StratifiedKFold(3, shuffle=True, random_state=0).split(x, y)):
        scores = [cross_val_score(SVC(C=c), x[train], y[train], cv=2).mean() for c in grid]
        machine = SVC(C=grid[int(np.argmax(scores))]).fit(x[train], y[train])
        np.testing.assert_array_equal(result.predictions[test], machine.predict(x[test]))
        assert result.chosen[fold] == machine.C and result.validation[fold] == pytest.approx(max(scores))
        assert result.accuracies[fold] == pytest.approx(machine.score(x[test], y[test]))
    assert result.accuracy == pytest.approx(np.mean(result.accuracies))


def test_constant_features_give_the_largest_class():
    y = np.array([0] * 30 + [1] * 20)
    assert svm_accuracy(np.ones((50, 3)), y, folds=5).accuracy == pytest.approx(0.6)


def test_labels_may_be_texts():
    x, y = make_classification(60, 4, class_sep=2.0, random_state=0)
    names = np.array(["cat", "dog"])
    expected, result = svm_accuracy(x, y, folds=3), svm_accuracy(x, names[y], folds=3)
    assert result.accuracies == expected.accuracies
    assert result.predictions.tolist() == names[expected.predictions].tolist()


def test_linear_probe_separates_linearly_separable_classes():
    x, y = make_classification(300, 6, n_informative=4, class_sep=2.5, flip_y=0, random_state=0)
    assert linear_accuracy(x, y, folds=3, inner_folds=3, grid=(0.1, 1)) > 0.85
    noise = np.random.default_rng(0).normal(size=x.shape)
    assert linear_accuracy(noise, y, folds=3, inner_folds=3, grid=(0.1, 1)) < 0.65


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (np.ones((20, 2)), np.zeros(20), {}, "at least two classes"),
        (np.ones((20, 2)), np.zeros(19), {}, r"got \(20, 2\) and \(19,\)"),
        (
            np.ones((20, 2)),
            np.array([0] * 15 + [1] * 5),
            {},
            "class 1 has 5 samples, 10 folds with 5 inner ones need 10",
        ),
        (np.ones((20, 2)), np.array([0] * 15 + [1] * 5), {"folds": 2}, "class 1 has 5 samples"),
        (np.full((20, 2), np.nan), np.array([0, 1] * 10), {}, "non-finite"),
    ],
)
def test_bad_input_is_refused(x, y, options, message):
    with pytest.raises(ValueError, match=message):
        svm_accuracy(x, y, **options)
