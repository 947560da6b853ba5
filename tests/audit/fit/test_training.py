"""Towers trained together are what each of them would be alone, by plain modules and the library's own loss."""

import math

import numpy as np
import pytest
import torch

from rince.audit.fit.features import Features
from rince.audit.fit.towers import FitConfig, TrainTask, stacked_scores, tower, train_towers
from rince.losses import RINCE, CrossView


def columns(n=90):
    random = np.random.default_rng(0)
    hidden = random.normal(size=(n, 4))
    a, b = (hidden @ random.normal(size=(4, k)) for k in (7, 5))
    return Features(a.astype(np.float32), "a"), Features(b.astype(np.float32), "b")


def alone(left, right, lesson, recipe, q, batch):
    """The same with nn.Module, RINCE and one optimizer per pair of towers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(lesson.seed)
        f, g = tower(left.width, recipe), tower(right.width, recipe)
    loss = RINCE(q=q, lam="balanced", temperature=recipe.temperature, contrast=CrossView(), scale="unit")
    optimizer = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=recipe.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.steps)
    random, order = torch.Generator().manual_seed(lesson.seed), torch.empty(0, dtype=torch.int64)
    for _ in range(recipe.steps):
        if len(order) < batch:
            order = torch.randperm(len(lesson.rows), generator=random)
        now, order = order[:batch], order[batch:]
        chosen = lesson.rows[now.numpy()]
        ids = None if lesson.ids is None else lesson.ids[now]
        weights = None if lesson.weights is None else lesson.weights[now]
        optimizer.zero_grad()
        loss(f(left[chosen]), g(right[chosen]), ids=ids, weights=weights).backward()
        optimizer.step()
        schedule.step()
    return f.eval(), g.eval()


@pytest.mark.parametrize("layers", [1, 2])
def test_towers_trained_together_are_those_trained_alone(layers):
    left, right = columns()
    recipe = FitConfig(width=16, dim=8, layers=layers, batch=40, steps=6)
    random = np.random.default_rng(1)
    lessons = [
        TrainTask(np.arange(0, 60), 3),
        TrainTask(np.arange(20, 90), 4, weights=torch.from_numpy(random.random(70, dtype=np.float32))),
        TrainTask(np.arange(10, 70), 5, ids=torch.arange(60) // 3),
    ]
    state = torch.random.get_rng_state()
    together = train_towers(left, right, lessons, recipe, 0.3, min_steps=1)
    assert torch.equal(torch.random.get_rng_state(), state)
    for lesson, towers in zip(lessons, together, strict=True):
        for one, reference, x in zip(towers, alone(left, right, lesson, recipe, 0.3, 40), (left, right), strict=True):
            # Not the weights: a bias before a normalization has a gradient of nothing but rounding.
            found, wanted = (network.train()(x[np.arange(90)]).detach() for network in (one, reference))
            assert torch.allclose(found, wanted, atol=1e-3 * float(wanted.std()))
            for name, value in reference.state_dict().items():
                if "running" in name:
                    assert torch.allclose(one.state_dict()[name], value, atol=5e-3), name


@pytest.mark.parametrize("temperature", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("with_ids", [False, True])
def test_stacked_scores_are_those_of_the_contrast(temperature, with_ids):
    torch.manual_seed(0)
    a, b = (torch.randn(3, 9, 4, requires_grad=True) for _ in range(2))
    keys = torch.randint(0, 4, (3, 9)) if with_ids else None
    found = stacked_scores(a, b, keys, temperature)
    for k in range(3):
        wanted = CrossView()(a[k], b[k], temperature, ids=None if keys is None else keys[k])
        for one, other in ((found.positive, wanted.positive), (found.negatives, wanted.negatives)):
            assert torch.allclose(one[k], other, atol=1e-4)
        assert torch.equal(found.number[k], wanted.number)
    mine = torch.autograd.grad(found.negatives.sum(), a)[0]
    theirs = torch.autograd.grad(
        sum(
            CrossView()(a[k], b[k], temperature, ids=None if keys is None else keys[k]).negatives.sum()
            for k in range(3)
        ),
        a,
    )[0]
    assert torch.allclose(mine, theirs, atol=1e-3 / temperature)


def test_batch_without_negatives_is_finite():
    a, b = (torch.randn(1, 6, 4, requires_grad=True) for _ in range(2))
    found = stacked_scores(a, b, torch.zeros(1, 6, dtype=torch.int64), 0.1)
    value = RINCE(q=0.5, lam="balanced", temperature=0.1, scale="unit").objective(0.1)(found).sum()
    value.backward()
    assert math.isfinite(value.item()) and torch.isfinite(a.grad).all()
