import numpy as np
import torch

import rince
from rince import small_towers
from rince.compare.towers import Training, tower


def test_no_pair_is_mismatched_within_its_group():
    x = torch.arange(90.0)[:, None]
    groups = np.arange(90) // 3
    parts = small_towers.split(x, x, 0.5, 0, validation=9, test=9, groups=groups)
    of = dict(zip(x[:, 0].tolist(), groups.tolist(), strict=True))
    swapped = [of[a] != of[b] for a, b in zip(parts.a[:, 0].tolist(), parts.b[:, 0].tolist(), strict=True)]
    assert np.array_equal(swapped, parts.wrong) and parts.wrong.sum() == 36


def test_fit_takes_every_batch_of_the_plan_and_ends_at_a_rate_of_zero():
    a, b = torch.randn(2, 60, 5)
    plan = small_towers.batches(60, 2, None, 20)
    towers = tower(a, Training(width=8, dim=4)), tower(b, Training(width=8, dim=4))
    optimizer = torch.optim.SGD([p for one in towers for p in one.parameters()], lr=0.1)
    seen = []
    loss = rince.InfoNCE(0.2, rince.CrossView())
    loss.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    f, g = small_towers.fit(towers, optimizer, a, b, loss, plan)
    assert seen == [20] * 6 and not f.training and not g.training
    assert optimizer.param_groups[0]["lr"] < 1e-9


def test_q_follows_its_schedule():
    a, b = torch.randn(2, 40, 5)
    towers = tower(a, Training(width=8, dim=4)), tower(b, Training(width=8, dim=4))
    optimizer = torch.optim.SGD([p for one in towers for p in one.parameters()], lr=0.1)
    loss, seen = rince.GCE(1.0, 0.2, rince.CrossView()), []
    loss.register_forward_pre_hook(lambda module, _: seen.append(module.q))
    small_towers.fit(
        towers, optimizer, a, b, loss, small_towers.batches(40, 2, None, 20), q=lambda done: 0.5 + done / 2
    )
    assert seen == [0.5, 0.625, 0.75, 0.875]


def test_pairs_are_embedded_by_networks_that_never_saw_them():
    a = b = torch.arange(12.0)[:, None]
    fold = torch.arange(12) % 3

    class Seen(torch.nn.Module):
        def __init__(self, rows):
            super().__init__()
            self.rows = set(rows.tolist())

        def forward(self, x):
            return torch.tensor([[float(int(row) in self.rows)] for row in x])

    sides = small_towers.held_out_embeddings(a, b, fold, 1, lambda rows: (Seen(rows), Seen(rows)))
    assert not any(side.any() for side in sides)
