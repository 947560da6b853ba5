from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.audit import audit_pairs, p_values
from rince.audit.fit.cross_fit import CrossFit, Folds, fold_numbers
from rince.audit.fit.features import Features
from rince.audit.fit.towers import FitConfig
from rince.demo import auc
from rince.noise import wrong_pairs
from support.audit_scores import fitted_scores


def both_rounds(fit):
    return fit.first_round(list(combinations(range(fit.config.folds), 2)))


QUICK = FitConfig(folds=3, members=1, width=64, dim=16, steps=60)


def features(n=900, rate=0.3, seed=0):
    """Two views of hidden causes, of different widths and scales, with a constant column."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(n, 6))
    a = np.tanh(hidden @ random.normal(size=(6, 20))) * 100
    b = (hidden @ random.normal(size=(6, 9))) ** 3 + 1000
    a[:, 4] = 7.0
    partner, wrong = wrong_pairs(n, rate, seed)
    return a, b[partner], wrong


def test_other_widths_other_scales_and_a_constant_column():
    a, b, wrong = features()
    found = audit_pairs(a, b, fit=True, scorer="towers", config=QUICK)
    assert abs(found.noise_rate - 0.3) < 0.1
    order = np.argsort(found.scores)
    assert wrong[order[:150]].mean() > 0.85


def test_the_same_seed_gives_the_same_scores_and_leaves_torch_alone():
    a, b, _ = features(200)
    state = torch.random.get_rng_state()
    first, again = (fitted_scores(a, b, [], 3, QUICK) for _ in range(2))
    assert (first.scores == again.scores).all() and (first.null == again.null).all()
    assert (torch.random.get_rng_state() == state).all()
    assert (fitted_scores(a, b, [], 4, QUICK).scores != first.scores).any()


def test_a_pair_is_scored_by_towers_that_never_saw_it():
    """Random features can be learned by heart only: held out, pairs must score like mismatched ones."""
    random = np.random.default_rng(0)
    found = audit_pairs(
        random.normal(size=(400, 12)), random.normal(size=(400, 12)), fit=True, scorer="towers", config=QUICK
    )
    assert 0.4 < found.p_values.mean() < 0.6 and found.uninformative


def test_ids_stay_together_unless_they_are_classes():
    random = np.random.default_rng(0)
    pairs, ids = np.arange(400), np.repeat(np.arange(200), 2)
    fold = fold_numbers(pairs, 5, [ids], random)
    assert (fold[0::2] == fold[1::2]).all() and np.bincount(fold).min() >= 60
    classes = np.repeat(np.arange(10), 40)
    fold = fold_numbers(pairs, 5, [classes], random)
    assert (np.bincount(fold) == 80).all() and len(set(fold[:40])) == 5


def test_ids_and_groups_both_keep_pairs_together():
    pairs = np.arange(480)
    for keys in ([pairs, pairs // 2], [pairs // 2, (pairs + 2) // 4], [pairs % 10, pairs // 2]):
        fold = fold_numbers(pairs, 5, keys, np.random.default_rng(0))
        assert (fold[0::2] == fold[1::2]).all() and np.bincount(fold).min() >= 80
    fold = fold_numbers(pairs, 5, [pairs // 2, (pairs + 2) // 4], np.random.default_rng(0))
    assert (fold[2:-2:4] == fold[4::4]).all(), "linked by a group of two ids"


def test_equal_pairs_share_a_fold():
    a, b, _ = features(150)
    twice = np.random.default_rng(1).permutation(np.tile(np.arange(150), 2))
    same = CrossFit(Features(a[twice], "a"), Features(b[twice], "b"), [], 0, QUICK)
    assert len(set(zip(twice, same.number, strict=True))) == 150
    half = CrossFit(Features(a[twice], "a"), Features(np.vstack([b, b + 1]), "b"), [], 0, QUICK)
    assert len(set(zip(twice, half.number, strict=True))) > 200


def test_wrong_pairs_that_come_up_often_are_not_learned_by_heart(monkeypatch):
    monkeypatch.setattr("rince.audit.fit.cross_fit.NULL_SIZE", 9000)
    a, b, wrong = features(200)
    often = np.random.default_rng(1).permutation(np.repeat(np.arange(200), 4))
    scored = fitted_scores(a[often], b[often], [], 0, QUICK)
    assert p_values(scored.scores, scored.null)[wrong[often]].mean() > 0.4
    assert scored.units == 200


def test_too_few_different_pairs_are_refused():
    a, b, _ = (np.tile(one, (15, *[1] * (one.ndim - 1))) for one in features(5))
    with pytest.raises(ValueError, match="Only 5 of the 75 pairs are different"):
        audit_pairs(a, b, fit=True, scorer="towers", config=QUICK)


def test_nothing_of_a_fold_reaches_the_towers_that_score_it():
    a, b, _ = features(300)
    changed = b.copy()
    fold = CrossFit(Features(a, "a"), Features(b, "b"), [], 3, QUICK)
    rows = fold.folds[0].rows
    changed[rows] = np.roll(b[rows], 1, axis=0)
    other = CrossFit(Features(a, "a"), Features(changed, "b"), [], 3, QUICK)
    seen = []
    for fit in (fold, other):
        known = []
        towers_of = fit._towers
        fit._towers = lambda *args, towers_of=towers_of, known=known, **kw: (
            known.append(towers_of(*args, **kw)) or known[-1]
        )
        fit.second_round([0, 1], both_rounds(fit))
        seen.append(known[-1][0][1].state_dict())  # the towers of fold 0
    assert all(torch.equal(seen[0][name], seen[1][name]) for name in seen[0])


def test_knowing_whom_to_mistrust_helps():
    a, b, wrong = features(900, rate=0.75)
    fit = CrossFit(Features(a, "a"), Features(b, "b"), [], 0, QUICK)
    first = both_rounds(fit)
    scores = np.empty((2, len(a)))
    for k, fold in enumerate(fit.folds):
        scores[0, fold.rows] = first[(k + 1) % 3, k].scores
        scores[1, fold.rows] = fit.second_round([k], first)[0].scores
    before, after = (auc(s, wrong) for s in scores)
    assert after > before + 0.01


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
    config = FitConfig(folds=3, members=2, width=16, dim=4, steps=5)
    fit = CrossFit(Features(a, "a"), Features(b, "b"), [], 0, config)
    return a, b, fit, fit.second_round([1], fit.first_round([(0, 1), (0, 2), (1, 2)]))[0]


def test_fold_judge_matches_the_fit(monkeypatch):
    monkeypatch.setattr("rince.audit.fit.cross_fit.NULL_SIZE", 900)
    for classes in (False, True):
        a, b, fit, judge = fitted(classes)
        rows = fit.folds[1].rows
        sides = (torch.from_numpy(side[rows].copy()) for side in (a, b))
        found = judge.score(*sides, [key[rows] for key in fit.keys])
        known, scores = judge.known(rows)
        assert known.all() and np.allclose(found, scores, atol=1e-4) and (fit.classes is not None) == classes
        assert not judge.known(np.setdiff1d(np.arange(240), rows))[0].any()


def test_a_class_that_the_sample_has_not_gets_a_score_all_the_same(monkeypatch):
    monkeypatch.setattr("rince.audit.fit.cross_fit.NULL_SIZE", 900)
    a, _, _, judge = fitted(True)
    new = torch.full((2, 3), 0.5)
    keys = [np.array([900, 901]), np.array([1, 2]), np.array([7, 8])]
    assert np.isfinite(judge.score(torch.from_numpy(a[:2].copy()), new, keys)).all()
