"""Trust from embeddings: every fold has a space of its own, and the scores are those of the audit's towers."""

import numpy as np
import pytest
import torch

from rince.audit.fit.towers import relative_scores
from rince.errors import UsageError
from rince.noise.pairs import wrong_pairs
from rince.trust import judge_embeddings, pair_trust
from rince.trust.cross_fitted import fold_scores


def spaces(rate, seed=0, n=800, folds=2):
    """Pairs embedded by two models: the second one's space is turned, so that rows of different folds mean nothing."""
    draws = torch.Generator().manual_seed(seed)
    z = torch.randn(n, 12, generator=draws)
    a, b = (z + 0.4 * torch.randn(n, 12, generator=draws) for _ in range(2))
    partner, wrong = wrong_pairs(n, rate, seed)
    b = b[torch.from_numpy(partner)]
    fold = torch.arange(n) % folds
    turn, _ = torch.linalg.qr(torch.randn(12, 12, generator=draws))
    a, b = (torch.where(fold[:, None] == 1, x @ turn, x) for x in (a, b))
    return a, b, fold, wrong


def test_wrong_pairs_are_told_apart_within_folds():
    a, b, fold, wrong = spaces(0.4)
    found = judge_embeddings(a, b, fold)
    assert abs(found.noise_rate - 0.4) < 0.05
    weights = pair_trust(a, b, fold)
    assert weights.dtype == torch.float32 and weights.shape == (800,)
    assert weights[wrong].mean() < 0.1 and weights[~wrong].mean() > 0.9
    assert torch.equal(weights, pair_trust(a.numpy(), b.numpy(), fold.numpy()))


def test_without_noise_every_weight_is_one():
    a, b, fold, _ = spaces(0.0)
    assert (pair_trust(a, b, fold) == 1).all()


def test_names_of_folds_and_scale_of_embeddings_do_not_matter():
    a, b, fold, _ = spaces(0.4)
    names = np.where(fold.numpy() == 0, "first", "second")
    assert torch.equal(pair_trust(a, b, fold), pair_trust(2 * a, 8 * b, names))


def test_scores_are_those_of_the_towers_of_an_audit():
    a, b, fold, _ = spaces(0.2)
    a, b = (torch.nn.functional.normalize(x[fold == 0], dim=1) for x in (a, b))
    scored = fold_scores(a, b, [], 0.1, (0, 0), 1000)
    n = len(a)
    everybody = np.arange(n)
    expected, _ = relative_scores(a, b, [everybody], (everybody[:5], everybody[5:10]), everybody, 0.1)
    assert len(scored.null) == 1000 and np.allclose(scored.scores, expected, atol=1e-4)


def test_equal_items_are_no_mismatched_pairs():
    """With only two different items, a mismatched pair is always one of both."""
    one, other = torch.eye(2)
    a = torch.stack([one, other]).repeat(60, 1)
    scored = fold_scores(a, a.clone(), [], 0.1, (0, 0), 500)
    assert scored.null.max() < scored.scores.min()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda a, b, f: (a, b[:, :5], f), "embeddings of one space"),
        (lambda a, b, f: (a, b, f[:-1]), r"one number per pair: expected \(800,\), got \(799,\)"),
        (lambda a, b, f: (a, b, torch.arange(800) // 10), "at least 50 pairs to tell right from wrong ones, got 10"),
        (lambda a, b, f: (a.log(), b, f), "a has NaN or infinite values in row 0"),
        (lambda a, b, f: (a[0], b[0], f), r"must be embeddings of the shape \(pairs, width\)"),
    ],
)
def test_what_does_not_fit_is_one_sentence(change, sentence):
    a, b, fold, _ = spaces(0.2)
    a[0] = -1
    with pytest.raises(UsageError, match=sentence):
        pair_trust(*change(a, b, fold))
