import numpy as np
import pytest
import torch

from rince.audit.fit.towers import Classes, FitConfig, class_scores


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
