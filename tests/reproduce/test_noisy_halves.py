import numpy as np
import pytest
import torch

from rince.losses import GCE, InfoNCE
from rince.losses.contrast import CrossView
from rince.noise.pairs import wrong_pairs
from rince.reproduce import noisy_halves as halves


def test_auc_against_all_comparisons():
    random = np.random.default_rng(0)
    scores, wrong = random.integers(0, 9, 60).astype(np.float32), random.random(60) < 0.4
    pairs = [(r > w) + 0.5 * (r == w) for r in scores[~wrong] for w in scores[wrong]]
    assert np.isclose(halves.auc(scores, wrong), np.mean(pairs))
    assert np.isnan(halves.auc(scores, np.zeros(60, bool)))


def test_recalls_count_the_rank_of_the_partner():
    z = torch.eye(20)
    swapped = z[[1, 0, *range(2, 20)]]
    assert halves.recalls(torch.nn.Identity(), torch.nn.Identity(), (z, z)) == (1.0, 1.0)
    assert halves.recalls(torch.nn.Identity(), torch.nn.Identity(), (z, swapped))[0] == pytest.approx(0.9)


def test_the_split_keeps_training_choosing_and_testing_apart_and_tests_on_clean_pairs():
    x = np.arange(100, dtype=np.float32)[:, None]
    parts = halves.split(x, x, 0.4, seed=0, choose=10, test=20)
    rows = [set(part[:, 0].tolist()) for part in (parts.a, parts.validation[0], parts.test[0])]
    assert [len(r) for r in rows] == [70, 10, 20] and len(set.union(*rows)) == 100
    assert torch.equal(*parts.test) and torch.equal(*parts.validation)
    assert ((parts.a != parts.b)[:, 0].numpy() == parts.wrong).all() and parts.wrong.sum() == 28


def test_training_is_the_same_for_the_same_seed():
    torch.manual_seed(1)
    a, b = torch.randn(512, 8), torch.randn(512, 8)
    first, again = (halves.train_towers(a, b, InfoNCE(0.1, CrossView()), seed=3, epochs=1)[0] for _ in range(2))
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), again.parameters(), strict=True))


def test_a_weight_of_nothing_is_as_good_as_another_partner():
    """Pairs without weight pull at nothing: who their partners are matters to them as negatives of others only."""
    torch.manual_seed(1)
    a, b = torch.randn(256, 8), torch.randn(256, 8)
    weights = (torch.arange(256) >= 128).float()
    order = torch.cat([torch.arange(128).flip(0), torch.arange(128, 256)])
    loss = InfoNCE(0.1, CrossView())
    plain = [halves.train_towers(a, x, loss, 3, 1)[0] for x in (b, b[order])]
    weighted = [halves.train_towers(a, x, loss, 3, 1, weights)[0] for x in (b, b[order])]

    def distance(f, g):
        return sum(float((p - q).abs().sum()) for p, q in zip(f.parameters(), g.parameters(), strict=True))

    assert distance(*weighted) < 0.05 * distance(*plain)


def test_models_that_never_saw_a_pair_find_whether_it_is_wrong():
    draws = np.random.default_rng(0)
    z = draws.normal(size=(600, 12)).astype(np.float32)
    a, b = (torch.from_numpy(z + 0.2 * draws.normal(size=z.shape).astype(np.float32)) for _ in range(2))
    partner, wrong = wrong_pairs(600, 0.3, 0)
    found = halves.found_trust(a, b[torch.from_numpy(partner)], GCE(1.0, 0.2, CrossView()), 0.2, 0, 30)
    assert abs(found.noise_rate - 0.3) < 0.1 and halves.auc(found.trust, wrong) > 0.95


def test_batches_are_whole_and_all_different():
    plan = halves.batches(1000, 3, 0)
    assert [len(epoch) for epoch in plan] == [3, 3, 3] and all(len(rows) == 256 for rows in plan[0])
    seen = torch.cat(plan[0])
    assert len(seen.unique()) == len(seen) and not torch.equal(plan[0][0], plan[1][0])
    assert len(halves.batches(100, 1, 0)[0][0]) == 100
