import numpy as np
import torch

from rince.audit import audit
from rince.audit.cross_fit import CrossFit, fitted_scores, fold_numbers
from rince.audit.towers import Features, Recipe
from rince.demo import auc
from rince.noise import wrong_pairs

QUICK = Recipe(folds=3, members=1, width=64, dim=16, steps=60)


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
    found = audit(a, b, fit=True, recipe=QUICK)
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
    """Random features can be learned by heart only: held out, pairs must score like strangers."""
    random = np.random.default_rng(0)
    found = audit(random.normal(size=(400, 12)), random.normal(size=(400, 12)), fit=True, recipe=QUICK)
    assert 0.4 < found.p_values.mean() < 0.6 and found.useless


def test_ids_stay_together_unless_they_are_classes():
    random = np.random.default_rng(0)
    ids = np.repeat(np.arange(200), 2)
    fold = fold_numbers(400, 5, [ids], random)
    assert (fold[0::2] == fold[1::2]).all() and np.bincount(fold).min() >= 60
    classes = np.repeat(np.arange(10), 40)
    fold = fold_numbers(400, 5, [classes], random)
    assert (np.bincount(fold) == 80).all() and len(set(fold[:40])) == 5


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
        fit.second_round(0, fit.first_round())
        seen.append(known[-1][1].state_dict())
    assert all(torch.equal(seen[0][name], seen[1][name]) for name in seen[0])


def test_knowing_whom_to_mistrust_helps():
    a, b, wrong = features(900, rate=0.5)
    fit = CrossFit(Features(a, "a"), Features(b, "b"), [], 0, QUICK)
    first = fit.first_round()
    scores = np.empty((2, len(a)))
    for k, fold in enumerate(fit.folds):
        scores[0, fold.rows] = first[(k + 1) % 3, k].scores
        scores[1, fold.rows] = fit.second_round(k, first).scores
    before, after = (auc(s, wrong) for s in scores)
    assert after > before + 0.01
