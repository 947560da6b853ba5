import random

import numpy as np
import torch

from rince._support.step_seeds import Draws, generator, number, seed_globally


def test_step_rng_depends_on_the_whole_key_only():
    keys = [(0, 1), (1, 1), (0, 2), (1, 2), (0, 0, 1), (0, 1, 1), (5, 7, 9), (7, 5, 9)]
    assert len({number(*key) for key in keys}) == len(keys)
    torch.manual_seed(3)
    first = torch.rand(4, generator=generator(1, 2))
    torch.manual_seed(4)
    assert torch.equal(first, torch.rand(4, generator=generator(1, 2)))


def test_the_draws_of_all_processes_are_those_of_one():
    whole = Draws(generator(0), 12)
    parts = [Draws(generator(0), 4, rank, 3) for rank in range(3)]
    for draw in (lambda d: d.uniform(2, 3, (5,)), lambda d: d.chance(0.5), lambda d: d.orders(4)):
        assert torch.equal(draw(whole), torch.cat([draw(part) for part in parts]))


def test_seeding_globally_in_every_step_leaves_nothing_behind():
    before = len(torch.cuda._queued_calls)
    drawn = []
    for _ in range(3):
        seed_globally(7, torch.device("cpu"))
        drawn.append(torch.rand(4))
    assert torch.equal(drawn[0], drawn[1]) and torch.equal(drawn[1], drawn[2])
    assert len(torch.cuda._queued_calls) == before


def test_all_global_generators_follow_the_seed():
    def drawn():
        seed_globally(12345678901234567890 >> 1, torch.device("cpu"))
        return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002

    first = drawn()
    assert drawn() == first and len(set(first)) == 3
