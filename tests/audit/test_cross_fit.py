import numpy as np
import pytest
import torch

from rince.audit import audit
from rince.audit.null import stranger_index
from rince.audit.towers import Features, Recipe, _folds, fitted_scores, relative_scores
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


def test_relative_scores_against_the_slow_formula():
    torch.manual_seed(0)
    z_a, z_b = (torch.nn.functional.normalize(torch.randn(30, 5), dim=1) for _ in range(2))
    group = np.repeat(np.arange(15), 2)
    keys = [np.arange(30), group]
    i, j = stranger_index(keys, keys, 200, np.random.default_rng(0))
    pairs, others = relative_scores(z_a, z_b, keys, (i, j), np.arange(30), 0.2)
    table = (z_a @ z_b.T / 0.2).double().numpy()

    def slow(row, column):
        from_row = [table[row, k] for k in range(30) if group[k] != group[row] and k != column]
        from_column = [table[k, column] for k in range(30) if group[k] != group[column] and k != row]
        return table[row, column] - 0.5 * np.log(np.mean(np.exp(from_row))) - 0.5 * np.log(np.mean(np.exp(from_column)))

    assert np.allclose(pairs, [slow(k, k) for k in range(30)], atol=1e-4)
    assert np.allclose(others, [slow(r, c) for r, c in zip(i, j, strict=True)], atol=1e-4)


def test_ids_stay_together_unless_they_are_classes():
    random = np.random.default_rng(0)
    ids = np.repeat(np.arange(200), 2)
    fold = _folds(400, 5, [ids], random)
    assert (fold[0::2] == fold[1::2]).all() and np.bincount(fold).min() >= 60
    classes = np.repeat(np.arange(10), 40)
    fold = _folds(400, 5, [classes], random)
    assert (np.bincount(fold) == 80).all() and len(set(fold[:40])) == 5


def test_features_are_standard_and_a_column_too_large_for_memory_gives_the_same(monkeypatch):
    a, _, _ = features(300)
    whole = Features(a, "a")
    rows = np.array([5, 1, 200])
    monkeypatch.setattr("rince.audit.towers.IN_MEMORY", 0)
    streamed = Features(a, "a")
    everything = whole[np.arange(300)]
    assert torch.allclose(everything[:, :4].mean(0), torch.zeros(4), atol=1e-5)
    assert torch.allclose(everything[:, :4].std(0), torch.ones(4), atol=0.01)
    assert not everything[:, 4].any()
    assert torch.equal(whole[rows], streamed[rows])


def test_a_recipe_without_held_out_folds_is_refused():
    with pytest.raises(ValueError, match="folds must be at least 2"):
        Recipe(folds=1)
