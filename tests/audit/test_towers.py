import numpy as np
import pytest
import torch

from rince.audit.null import stranger_index
from rince.audit.towers import Features, Recipe, relative_scores


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


def test_features_are_standard_and_a_column_too_large_for_memory_gives_the_same(monkeypatch):
    a = np.random.default_rng(0).normal(size=(300, 20)) * 100
    a[:, 4] = 7.0
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
    with pytest.raises(ValueError, match="folds must be at least 3"):
        Recipe(folds=2)
