import numpy as np
import torch

import rince
from rince.compare.towers import (
    Columns,
    Training,
    batches,
    fit,
    recall_at_1,
    split,
    tower,
    train,
    word_numbers,
)

QUICK = Training(epochs=15, batch=50, lr=5e-3, width=32, dim=16)


def columns(n=400):
    random = torch.Generator().manual_seed(0)
    a = torch.randn(n, 8, generator=random)
    return Columns(a, a @ torch.randn(8, 6, generator=random))


def test_splits_do_not_overlap_and_only_training_is_mismatched():
    data = columns()
    parts = split(*data[:2], 0.4, 1, validation=50, test=100)
    assert len(parts.a) == 250 and len(parts.validation[0]) == 50 and len(parts.test[0]) == 100
    rows = torch.cat([parts.a, parts.validation[0], parts.test[0]])
    assert len(rows.unique(dim=0)) == 400
    place = {tuple(row.tolist()): i for i, row in enumerate(data.a)}
    partner = torch.stack([data.b[place[tuple(row.tolist())]] for row in parts.a])
    assert np.array_equal((partner != parts.b).any(1).numpy(), parts.wrong) and parts.wrong.sum() == 100
    for a, b in (parts.validation, parts.test):
        assert torch.equal(torch.stack([data.b[place[tuple(row.tolist())]] for row in a]), b)


def test_towers_learn_and_depend_on_the_seed():
    parts = split(*columns()[:2], 0.0, 0, validation=50, test=100)
    loss = rince.InfoNCE(temperature=0.2, contrast=rince.CrossView())
    first, second = (train(parts.a, parts.b, loss, 3, QUICK) for _ in range(2))
    assert recall_at_1(*first, parts.test) == recall_at_1(*second, parts.test) > 40


def test_pairs_of_no_weight_teach_nothing():
    """Weights that leave out the mismatched pairs serve better than all pairs alike."""
    parts = split(*columns()[:2], 0.6, 0, validation=50, test=100)
    loss = rince.InfoNCE(temperature=0.2, contrast=rince.CrossView())
    plain = recall_at_1(*train(parts.a, parts.b, loss, 0, QUICK), parts.test)
    weights = torch.from_numpy(~parts.wrong).float()
    assert recall_at_1(*train(parts.a, parts.b, loss, 0, QUICK, weights), parts.test) > plain + 10


def test_recall_is_the_mean_of_both_directions():
    a, b = torch.tensor([[1.0, 0], [0, 1]]), torch.tensor([[1.0, 0.1], [1, 0]])
    identity = torch.nn.Identity()
    assert recall_at_1(identity, identity, (a, a)) == 100
    # a0: b1 is nearer than b0 (wrong); a1: b0 is nearer (wrong). b0: a0 (right); b1: a0 (wrong).
    assert recall_at_1(identity, identity, (a, b)) == 25


def test_word_numbers_of_texts():
    rows = word_numbers(["A dog runs.", "a dog", "", "zebra a"])
    assert rows.shape == (4, 3) and rows[1].tolist()[2] == 0
    assert rows[0, 0] == rows[1, 0] == rows[3, 1] and rows[3, 0] == 1 and rows[2].tolist() == [1, 0, 0]


def test_collapsed_towers_have_recall_zero():
    """A loss under which they collapse would win every comparison else."""
    pairs = (torch.randn(50, 4), torch.randn(50, 4))
    for value in (1.0, float("nan")):
        assert recall_at_1(lambda x, v=value: torch.full((50, 3), v), lambda x: torch.ones(50, 3), pairs) == 0
    same = torch.eye(50)[torch.arange(50) // 2]
    assert recall_at_1(torch.nn.Identity(), torch.nn.Identity(), (same, same)) == 100, "the same item again is no rival"


def test_no_pair_is_mismatched_within_its_group():
    x = torch.arange(90.0)[:, None]
    groups = np.arange(90) // 3
    parts = split(x, x, 0.5, 0, validation=9, test=9, groups=groups)
    of = dict(zip(x[:, 0].tolist(), groups.tolist(), strict=True))
    swapped = [of[a] != of[b] for a, b in zip(parts.a[:, 0].tolist(), parts.b[:, 0].tolist(), strict=True)]
    assert np.array_equal(swapped, parts.wrong) and parts.wrong.sum() == 36


def test_fit_uses_all_batches_and_ends_at_learning_rate_zero():
    a, b = torch.randn(2, 60, 5)
    plan = batches(60, 2, None, 20)
    towers = tower(a, Training(width=8, dim=4)), tower(b, Training(width=8, dim=4))
    optimizer = torch.optim.SGD([p for one in towers for p in one.parameters()], lr=0.1)
    seen = []
    loss = rince.InfoNCE(temperature=0.2, contrast=rince.CrossView())
    loss.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    f, g = fit(towers, optimizer, a, b, loss, plan)
    assert seen == [20] * 6 and not f.training and not g.training
    assert optimizer.param_groups[0]["lr"] < 1e-9


def test_q_follows_its_schedule():
    a, b = torch.randn(2, 40, 5)
    towers = tower(a, Training(width=8, dim=4)), tower(b, Training(width=8, dim=4))
    optimizer = torch.optim.SGD([p for one in towers for p in one.parameters()], lr=0.1)
    loss, seen = rince.GCE(q=1.0, temperature=0.2, contrast=rince.CrossView()), []
    loss.register_forward_pre_hook(lambda module, _: seen.append(module.q))
    fit(towers, optimizer, a, b, loss, batches(40, 2, None, 20), q=lambda done: 0.5 + done / 2)
    assert seen == [0.5, 0.625, 0.75, 0.875]
