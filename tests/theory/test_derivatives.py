"""InfoNCE's derivatives against differences of the formula, beside what is printed."""

import math

import pytest
import torch

from rince.theory import info_nce_derivatives, printed_derivatives, printed_proof_derivatives


def loss(scores):
    return -math.log(math.exp(scores[0]) / sum(math.exp(score) for score in scores))


def slope(scores, place, step=1e-6):
    up, down = ([*scores[:place], scores[place] + sign * step, *scores[place + 1 :]] for sign in (1, -1))
    return (loss(up) - loss(down)) / (2 * step)


@pytest.mark.parametrize("scores", [[0.5, 1.2, -0.3], [2.0, 0.1], [-4.0, 3.0, 3.0, -2.0]])
def test_they_are_the_slopes_of_the_loss(scores):
    positive, negatives = torch.tensor(scores[0], dtype=torch.float64), torch.tensor(scores[1:], dtype=torch.float64)
    found = info_nce_derivatives(positive, negatives)
    assert float(found[0]) == pytest.approx(slope(scores, 0), abs=1e-8)
    assert found[1].tolist() == pytest.approx([slope(scores, i + 1) for i in range(len(negatives))], abs=1e-8)
    assert float(found[0] + found[1].sum()) == pytest.approx(0, abs=1e-12)


def test_the_printed_ones_are_what_the_appendix_says_and_are_wrong():
    positive, negatives = (
        torch.tensor(0.0, dtype=torch.float64),
        torch.tensor([0.2, math.log(1.311)], dtype=torch.float64),
    )
    scores = [0.0, *negatives.tolist()]
    pos, neg = 1.0, sum(math.exp(score) for score in scores[1:])
    by_positive, by_negatives = printed_derivatives(positive, negatives)
    assert float(by_positive) == pytest.approx(-1 / loss(scores) * pos * neg / (pos + neg) ** 2)
    second = -1 / loss(scores) * (pos * (1 - 1.311) + neg) / (pos + neg) ** 2
    assert float(by_negatives[1]) == pytest.approx(second)
    assert slope(scores, 0) == pytest.approx(-0.717, abs=1e-3) and float(by_positive) == pytest.approx(-0.161, abs=1e-3)
    assert slope(scores, 2) > 0 > second


def test_the_lines_of_the_proof_contradict_their_own_last_line():
    positive, negatives = torch.tensor(0.3, dtype=torch.float64), torch.tensor([0.1, -1.0], dtype=torch.float64)
    total = float(positive.exp() + negatives.exp().sum())
    p, e = math.exp(0.3) / total, math.exp(0.3)
    by_positive, by_negatives = printed_proof_derivatives(positive, negatives)
    assert float(by_positive) == pytest.approx(-(e / total) * (total * e - e * e) / total**2)
    first = math.exp(0.1)
    assert float(by_negatives[0]) == pytest.approx(-(total / first) * (-e * first) / total**2)
    right = info_nce_derivatives(positive, negatives)
    assert float(right[0]) == pytest.approx(-1 + p)
    assert abs(float(right[0] - by_positive)) > 0.3 and abs(float(right[1][0] - by_negatives[0])) > 0.01
