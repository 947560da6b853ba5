import numpy as np
import pytest
import torch

from rince.audit.fit.towers import Classes, FitConfig, class_scores, relative_scores
from rince.audit.null import mismatched_index


def test_relative_scores_against_the_slow_formula():
    torch.manual_seed(0)
    z_a, z_b = (torch.nn.functional.normalize(torch.randn(30, 5), dim=1) for _ in range(2))
    group = np.repeat(np.arange(15), 2)
    keys = [np.arange(30), group]
    i, j = mismatched_index(keys, keys, 200, np.random.default_rng(0))
    pairs, others = relative_scores(z_a, z_b, keys, (i, j), np.arange(30), 0.2)
    table = (z_a @ z_b.T / 0.2).double().numpy()

    def slow(row, column):
        from_row = [table[row, k] for k in range(30) if group[k] != group[row] and k != column]
        from_column = [table[k, column] for k in range(30) if group[k] != group[column] and k != row]
        return table[row, column] - 0.5 * np.log(np.mean(np.exp(from_row))) - 0.5 * np.log(np.mean(np.exp(from_column)))

    assert np.allclose(pairs, [slow(k, k) for k in range(30)], atol=1e-4)
    assert np.allclose(others, [slow(r, c) for r, c in zip(i, j, strict=True)], atol=1e-4)


def test_scores_of_classes_against_the_slow_formula():
    torch.manual_seed(0)
    code = np.array([0, 1, 2, 0, 1, 0, 2, 0, 0, 1])
    z_a, centers = (torch.nn.functional.normalize(torch.randn(k, 5), dim=1) for k in (10, 3))
    i, j = np.array([0, 1, 5]), np.array([1, 2, 6])
    found = class_scores(Classes.of(z_a, centers[code], 10 * code, 0.2), z_a, (i, j), 10 * code, 0.2)
    table = (z_a @ centers.T / 0.2).double().numpy()

    def slow(row, label):
        rivals = [table[row, code[k]] for k in range(10) if code[k] != label]
        items = [table[k, label] for k in range(10) if code[k] != label]
        return table[row, label] - 0.5 * np.log(np.mean(np.exp(rivals))) - 0.5 * np.log(np.mean(np.exp(items)))

    assert np.allclose(found.scores, [slow(k, code[k]) for k in range(10)], atol=1e-4)
    assert np.allclose(found.null, [slow(r, code[c]) for r, c in zip(i, j, strict=True)], atol=1e-4)
    beaten = [max(slow(k, c) for c in range(3) if c != code[k]) > slow(k, code[k]) for k in range(10)]
    assert 0 < found.other_class_better < 1 and found.other_class_better == np.mean(beaten)


def test_a_recipe_without_held_out_folds_is_refused():
    with pytest.raises(ValueError, match="folds must be at least 3"):
        FitConfig(folds=2)


def test_references_that_are_the_pair_itself_are_left_out_however_many_keys_say_so():
    random = np.random.default_rng(0)
    z_a, z_b = (torch.nn.functional.normalize(torch.randn(60, 4), dim=1) for _ in range(2))
    keys = [np.arange(60), random.integers(0, 12, 60), random.integers(0, 12, 60)]
    references = np.sort(random.permutation(60)[:30])
    i, j = mismatched_index(keys, keys, 50, random)
    found, _ = relative_scores(z_a, z_b, keys, (i, j), references, 0.2)
    chance = (z_a @ z_b.T / 0.2).double().exp().numpy()
    apart = np.all([key[:, None] != key[references][None] for key in keys], axis=0)
    level_a = (chance[:, references] * apart).sum(1) / apart.sum(1)
    level_b = (chance.T[:, references] * apart).sum(1) / apart.sum(1)
    slow = np.log(np.diag(chance)) - 0.5 * np.log(level_a) - 0.5 * np.log(level_b)
    assert np.allclose(found, slow, atol=1e-4)
