import math

import pytest
import torch

from rince.optimizers import LARS, warmup_cosine


def test_a_step_of_lars_is_what_its_formula_says():
    torch.manual_seed(0)
    matrix, bias = torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(3))
    start, start_bias = matrix.detach().clone(), bias.detach().clone()
    optimizer = LARS([matrix, bias], lr=0.5, momentum=0.9, weight_decay=0.1, trust=0.02)
    velocity, velocity_bias = torch.zeros(3, 4), torch.zeros(3)
    for _ in range(3):
        matrix.grad, bias.grad = torch.randn(3, 4), torch.randn(3)
        direction = matrix.grad + 0.1 * start
        velocity = 0.9 * velocity + direction * 0.02 * start.norm() / direction.norm()
        velocity_bias = 0.9 * velocity_bias + bias.grad  # neither decay nor scaling
        start, start_bias = start - 0.5 * velocity, start_bias - 0.5 * velocity_bias
        optimizer.step()
        torch.testing.assert_close(matrix.detach(), start)
        torch.testing.assert_close(bias.detach(), start_bias)


def test_lars_leaves_a_matrix_of_zeros_able_to_move():
    matrix = torch.nn.Parameter(torch.zeros(2, 2))
    matrix.grad = torch.ones(2, 2)
    LARS([matrix], lr=0.1).step()
    assert torch.isfinite(matrix).all() and matrix.abs().sum() > 0


@pytest.mark.parametrize("options", [{"lr": -1}, {"momentum": 1.0}, {"weight_decay": -0.1}])
def test_bad_numbers_are_refused(options):
    with pytest.raises(ValueError, match="LARS must"):
        LARS([torch.nn.Parameter(torch.zeros(1))], **options)


def test_the_learning_rate_rises_in_a_line_and_falls_in_a_cosine():
    shares = [warmup_cosine(step, 100, 10) for step in range(101)]
    assert shares[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert shares[10] == 1 and shares[100] == pytest.approx(0)
    assert shares[55] == pytest.approx(0.5 * (1 + math.cos(math.pi * 0.5)))


def test_lars_can_scale_biases_and_norms_too():
    bias = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    bias.grad = torch.tensor([1.0, 0.0])
    LARS([bias], lr=1.0, momentum=0.0, weight_decay=0.5, trust=0.1, scale_all=True).step()
    direction = torch.tensor([1.0, 0.0]) + 0.5 * torch.tensor([3.0, 4.0])
    torch.testing.assert_close(bias.detach(), torch.tensor([3.0, 4.0]) - 0.1 * 5 * direction / direction.norm())
