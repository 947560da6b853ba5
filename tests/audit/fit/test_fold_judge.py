import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.audit.fit.cross_fit import CrossFit
from rince.audit.fit.features import Features
from rince.audit.fit.fold_judge import Folds
from rince.audit.fit.towers import Recipe


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=20))
def test_a_pair_is_in_the_fold_of_what_it_is_one_thing_with(sample):
    """The row number says it first, then the code of the pair, then the key; a code in several folds says nothing."""
    pair, key, number = (np.array(column, dtype=np.int64) for column in zip(*sample, strict=True))
    rows = 10 * np.arange(len(sample))
    folds = Folds.of(number, 3, [rows, pair, key])
    assert (folds.find([rows, pair, key]) == number).all()
    asked = np.arange(8)
    found = folds.find([np.full(8, 5), asked, asked[::-1].copy()])
    for k, other, fold in zip(asked, asked[::-1], found, strict=True):
        of_pair, of_key = set(number[pair == k]), set(number[key == other])
        wanted = of_pair if len(of_pair) == 1 else of_key if len(of_key) == 1 else {k % 3}
        assert {fold} == wanted


def fitted(classes):
    random = np.random.default_rng(0)
    a = random.normal(size=(240, 5)).astype(np.float32)
    b = np.eye(3, dtype=np.float32)[random.integers(0, 3, 240)] if classes else a[:, ::-1] + 1
    recipe = Recipe(folds=3, members=2, width=16, dim=4, steps=5)
    fit = CrossFit(Features(a, "a"), Features(b, "b"), [], 0, recipe)
    return a, b, fit, fit.second_round([1], fit.first_round([(0, 1), (0, 2), (1, 2)]))[0]


def test_a_judge_says_of_any_pair_what_the_fit_says_of_those_of_its_sample(monkeypatch):
    monkeypatch.setattr("rince.audit.fit.cross_fit.MISMATCHED", 900)
    for classes in (False, True):
        a, b, fit, judge = fitted(classes)
        rows = fit.folds[1].rows
        sides = (torch.from_numpy(side[rows].copy()) for side in (a, b))
        found = judge.judge(*sides, [key[rows] for key in fit.keys])
        known, scores = judge.known(rows)
        assert known.all() and np.allclose(found, scores, atol=1e-4) and (fit.classes is not None) == classes
        assert not judge.known(np.setdiff1d(np.arange(240), rows))[0].any()


def test_a_class_that_the_sample_has_not_gets_a_score_all_the_same(monkeypatch):
    monkeypatch.setattr("rince.audit.fit.cross_fit.MISMATCHED", 900)
    a, _, _, judge = fitted(True)
    new = torch.full((2, 3), 0.5)
    keys = [np.array([900, 901]), np.array([1, 2]), np.array([7, 8])]
    assert np.isfinite(judge.judge(torch.from_numpy(a[:2].copy()), new, keys)).all()
