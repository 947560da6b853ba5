"""Random choices made for many groups at once: the arithmetic under the views of graphs.

A group is a graph, its items are nodes or edges. No function here loops over groups.
"""

import torch
from torch import Tensor


def uniform(shape: int | tuple[int, ...], generator: torch.Generator | None, device: torch.device) -> Tensor:
    """Numbers in [0, 1) drawn on the generator's device, so that one seed gives the same result everywhere."""
    source = device if generator is None else generator.device
    return torch.rand(shape, generator=generator, device=source, dtype=torch.float64).to(device)


def counts(size: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """``rate * size`` rounded up or down at random, so that its mean is exact for small groups too."""
    return (size.double() * rate + uniform(len(size), generator, size.device)).floor().long().clamp_(max=size)


def rank(group: Tensor, key: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """An order that sorts items by group and then by ``key`` in [0, 1), and the place each has within its group."""
    order = (key + group).argsort()
    size = torch.bincount(group, minlength=groups)
    start = size.cumsum(0) - size
    return order, torch.arange(len(order), device=order.device) - start[group[order]]


def pick(group: Tensor, number: Tensor, generator: torch.Generator | None) -> Tensor:
    """A mask over items that hits ``number[g]`` items of every group g, all subsets being equally likely."""
    hit = torch.zeros(len(group), dtype=torch.bool, device=group.device)
    items = (number[group] > 0).nonzero().squeeze(1)  # sorting is the cost: leave out groups where nothing is picked
    order, place = rank(group[items], uniform(len(items), generator, group.device), len(number))
    items = items[order]
    hit[items] = place < number[group[items]]
    return hit


def distinct(number: Tensor, size: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """For every group g, ``number[g]`` different integers out of ``range(size[g])``: their groups and the integers.

    Rejection where at most half of a range is wanted, a full shuffle elsewhere: never more than O(wanted) work.
    """
    device = size.device
    base = size.cumsum(0) - size
    crowded = number * 2 > size
    full = torch.where(crowded, size, 0)
    group = torch.repeat_interleave(full)
    first = full.cumsum(0) - full
    local = torch.arange(len(group), device=device) - first[group]
    hit = pick(group, number, generator)
    shuffled = base[group[hit]] + local[hit]

    wanted = torch.where(crowded, 0, number)
    drawn = torch.empty(0, dtype=torch.long, device=device)
    missing = wanted
    while (total := int(missing.sum())) > 0:
        group = torch.repeat_interleave(missing)
        fresh = base[group] + (uniform(total, generator, device) * size[group]).long()
        drawn = torch.cat((drawn, fresh)).unique()
        missing = wanted - torch.bincount(owner(drawn, size), minlength=len(size))
    everything = torch.cat((shuffled, drawn))
    group = owner(everything, size)
    return group, everything - base[group]


def owner(item: Tensor, size: Tensor) -> Tensor:
    """The group that each global number belongs to, where group g owns ``size[g]`` consecutive numbers."""
    return torch.searchsorted(size.cumsum(0), item, right=True)
