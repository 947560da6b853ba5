"""A training step with gradient caching on one process and on two, for tests/losses/test_cached.py."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rince

CASES = ("plain", "accumulated", "unused", "two towers")
N = 24


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 8))
        self.spare = nn.Linear(2, 2, bias=False)

    def forward(self, x, spare=False):
        return self.map(x) + (self.spare.weight.sum() if spare else 0)


def step(case, rank=None):
    """Loss and gradients; of the joined batch, without caching, where there is no rank."""
    g = torch.Generator().manual_seed(7)
    batches = torch.randn(2, 2, N, 5, generator=g, dtype=torch.float64)
    own = slice(0, N) if rank is None else slice(rank * N // 2, (rank + 1) * N // 2)
    torch.manual_seed(0)
    towers = [Tower().double() for _ in range(2 if case == "two towers" else 1)]
    used = case != "unused"
    wrapped = towers
    if rank is not None:
        wrapped = [DistributedDataParallel(t, find_unused_parameters=not used) for t in towers]
    loss = rince.RINCE(q=0.5, lam="balanced", temperature=0.2, contrast=rince.CrossView(), scale="unit")

    def value(pair):
        inputs = [(x[own], used) for x in pair]
        if rank is None:
            return loss(*(towers[i % len(towers)](*x) for i, x in enumerate(inputs)))
        return rince.cached(loss, wrapped if len(wrapped) == 2 else wrapped[0], inputs, chunk=5)

    if case == "accumulated":
        if rank is None:
            value(batches[0]).backward()
        else:
            with wrapped[0].no_sync():
                value(batches[0]).backward()
    result = value(batches[1])
    result.backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for t in towers for p in t.parameters()]
    return result.detach(), torch.cat([x.flatten() for x in grads])


def worker(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    torch.save({case: step(case, rank) for case in CASES}, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
