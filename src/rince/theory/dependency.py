"""RINCE at q = 1 as a lower bound of the Wasserstein dependency measure, with clean and with noisy pairs.

At q = 1 the expected loss is linear in the distribution of the pairs: lam K E_PP[e^s] - (1 - lam) E_P[e^s], where P is
the joint distribution and PP the product of its marginals.
"""

import torch
from torch import Tensor

from rince.theory.distributions import independent

Number = float | Tensor


def least_lam(number: Number) -> Number:
    """The smallest lam for which RINCE at q = 1 bounds the dependency, with and without noise: 1 / (K + 1).

    Below it, views that are independent already contradict the bound.

    Args:
        number: K, the number of negatives.

    Returns:
        1 / (K + 1).

    Example:
        >>> least_lam(255)
        0.00390625
    """
    return 1 / (number + 1)


def printed_least_lam(number: Number, eta: Number) -> Number:
    """The condition on lam that the paper prints for noisy pairs; far more than what is needed.

    Args:
        number: K, the number of negatives.
        eta: noise rate.

    Returns:
        (eta K - eta + 1) / (eta K - eta + 1 + K).

    Example:
        >>> round(printed_least_lam(255, 0.4), 4)
        0.2869
    """
    above = eta * number - eta + 1
    return above / (above + number)


def noisy_weights(lam: Number, number: Number, eta: Number) -> tuple[Number, Number]:
    """What E_P[e^s] and E_PP[e^s] are multiplied with in minus the expected loss, and in the loss, if pairs are noisy.

    Args:
        lam: in (0, 1].
        number: K, the number of negatives.
        eta: noise rate; 0 gives the clean weights.

    Returns:
        (1 - lam)(1 - eta) and lam K - eta (1 - lam).

    Example:
        >>> noisy_weights(lam=0.5, number=4, eta=0.5)
        (0.25, 1.75)
    """
    return (1 - lam) * (1 - eta), lam * number - eta * (1 - lam)


def printed_noisy_weights(lam: Number, number: Number, eta: Number) -> tuple[Number, Number]:
    """The weights that the paper prints: the second one, K (lam - eta + eta lam), multiplies the noise by K, too.

    Args:
        lam: in (0, 1].
        number: K, the number of negatives.
        eta: noise rate.

    Returns:
        (1 - lam)(1 - eta) and K (lam - eta + eta lam); right for K = 1 or eta = 0 only.

    Example:
        >>> printed_noisy_weights(lam=0.5, number=4, eta=0.5)  # true: 0.25 and 1.75
        (0.25, 1.0)
    """
    return (1 - lam) * (1 - eta), number * (lam - eta + eta * lam)


def symmetric_rince(joint: Tensor, scores: Tensor, weights: tuple[Number, Number]) -> Tensor:
    """The expected loss of RINCE at q = 1 from its two weights.

    Args:
        joint: clean probabilities, shape (..., x, v).
        scores: score of every pair, shape (..., x, v).
        weights: from :func:`noisy_weights`, numbers or shape (...).

    Returns:
        Shape (...).

    Example:
        >>> joint = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
        >>> symmetric_rince(joint, torch.zeros(2, 2), noisy_weights(lam=0.2, number=4, eta=0.3))
        tensor(0.)
    """
    pull, push = weights
    together, apart = ((table * scores.exp()).sum((-2, -1)) for table in (joint, independent(joint)))
    return push * apart - pull * together


def dependency_constant(lam: Number, temperature: Number, slope: Number) -> Tensor:
    """L in: minus the expected loss of RINCE at q = 1 is at most (1 - eta) L W(P_XV, P_X P_V).

    Args:
        lam: at least ``least_lam(number)``.
        temperature: t, scores are cosines over it.
        slope: Lipschitz constant of the map from representations to the unit sphere.

    Returns:
        slope (1 - lam) e^{1/t} / t.

    Example:
        >>> dependency_constant(lam=0.5, temperature=1.0, slope=2.0)
        tensor(2.7183)
    """
    t = torch.as_tensor(temperature)
    return slope * (1 - lam) * torch.exp(1 / t) / t


def effective_lam(lam: Number, number: Number, eta: Number) -> Number:
    """The lam of a clean problem that has the same minimisers as RINCE at q = 1 has on noisy pairs.

    r = lam K / (1 - lam) is how many times likelier than chance a pair must be to attract. Noise turns it into
    (r - eta) / (1 - eta): it stays 1 where it is 1, at lam = 1 / (K + 1), and moves away from 1 elsewhere.

    Args:
        lam: in (0, 1).
        number: K, the number of negatives.
        eta: noise rate below 1.

    Returns:
        The other lam; negative where r < eta: negatives do not repel any more.

    Example:
        >>> round(effective_lam(0.01, 255, 0.6), 4), effective_lam(1 / 256, 255, 0.6) * 256
        (0.019, 1.0)
    """
    likelier = (lam * number / (1 - lam) - eta) / (1 - eta)
    return likelier / (number + likelier)
