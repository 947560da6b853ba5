"""The same answers as scikit-learn's grid search on the same folds, and bad input."""

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from rince.evaluate.svm import GRID, linear_accuracy, svm_accuracy


def searched(x, y, folds, inner_folds, grid, seed):
    """The protocol, word for word."""
    predictions, chosen, scores = np.empty_like(y), [], []
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(x, y):
        search = GridSearchCV(SVC(), {"C": list(grid)}, cv=inner_folds, scoring="accuracy").fit(x[train], y[train])
        predictions[test] = search.predict(x[test])
        chosen.append(search.best_params_["C"])
        scores.append(search.best_score_)
    return predictions, chosen, scores


@pytest.mark.parametrize(("classes", "seed"), [(2, 0), (2, 1), (4, 2)])
def test_same_answers_as_a_grid_search(classes, seed):
    x, y = make_classification(
        240, 12, n_informative=6, n_classes=classes, flip_y=0.25, class_sep=0.7, random_state=seed
    )
    x = (x * np.logspace(0, 2, 12)).astype(np.float32)  # scales as uneven as those of summed features
    result = svm_accuracy(x, y, folds=5, inner_folds=3, seed=seed)
    predictions, chosen, scores = searched(x, y, 5, 3, GRID, seed)
    np.testing.assert_array_equal(result.predictions, predictions)
    assert list(result.chosen) == chosen
    np.testing.assert_allclose(result.validation, scores)


def test_same_answers_as_a_grid_search_on_real_graphs(real_data):
    from rince.data.graphs import tudataset
    from rince.encoders.gin import GIN
    from rince.evaluate.svm import features_of

    graphs = tudataset("MUTAG", real_data("tudataset/MUTAG.zip"))
    torch.manual_seed(0)
    x, y = features_of(GIN(graphs.num_features), graphs).numpy(), graphs.y.numpy()
    result = svm_accuracy(x, y)
    predictions, chosen, _ = searched(x, y, 10, 5, GRID, 0)
    np.testing.assert_array_equal(result.predictions, predictions)
    assert list(result.chosen) == chosen
    assert result.accuracy == pytest.approx(np.mean(result.accuracies))


def test_workers_change_nothing():
    x, y = make_classification(120, 6, random_state=0)
    one, two = (svm_accuracy(torch.from_numpy(x), torch.from_numpy(y), folds=4, workers=w) for w in (1, 2))
    np.testing.assert_array_equal(one.predictions, two.predictions)


def test_constant_features_give_the_largest_class():
    y = np.array([0] * 30 + [1] * 20)
    assert svm_accuracy(np.ones((50, 3)), y, folds=5).accuracy == pytest.approx(0.6)


def test_a_linear_probe_separates_what_a_line_separates():
    x, y = make_classification(300, 6, n_informative=4, class_sep=2.5, flip_y=0, random_state=0)
    assert linear_accuracy(x, y, folds=3, inner_folds=3, grid=(0.1, 1)) > 0.85
    noise = np.random.default_rng(0).normal(size=x.shape)
    assert linear_accuracy(noise, y, folds=3, inner_folds=3, grid=(0.1, 1)) < 0.65


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (np.ones((20, 2)), np.zeros(20), {}, "two classes, all 20 samples are of class"),
        (np.ones((20, 2)), np.zeros(19), {}, r"features \[n, d\] and labels \[n\], got \(20, 2\) and \(19,\)"),
        (
            np.ones((20, 2)),
            np.array([0] * 15 + [1] * 5),
            {},
            "class 1 has 5 samples, 10 folds with 5 inner ones need 10",
        ),
        (np.ones((20, 2)), np.array([0] * 15 + [1] * 5), {"folds": 2}, "class 1 has 5 samples"),
        (np.full((20, 2), np.nan), np.array([0, 1] * 10), {}, "20 of 20 feature rows are not finite"),
        (np.ones((20, 2)), np.array([0, 1] * 10), {"grid": ()}, "grid must hold values of C above 0"),
        (np.ones((20, 2)), np.array([0, 1] * 10), {"folds": 1}, "must be at least 2, got 1"),
    ],
)
def test_bad_input_is_one_clear_sentence(x, y, options, message):
    with pytest.raises(ValueError, match=message):
        svm_accuracy(x, y, **options)
