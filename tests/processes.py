"""The same training step on one process and on several, for tests/contrast/test_gather.py."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rince

WIDTH = 12
CONTRASTS = {
    "TwoView": rince.TwoView,
    "CrossView": rince.CrossView,
    "CrossView one way": lambda: rince.CrossView(symmetric=False),
    "Queue": lambda: rince.Queue(WIDTH, 30),
    "Supervised": rince.Supervised,
}


LOSSES = {
    "RINCE": lambda **options: rince.RINCE(q=0.5, lam="balanced", temperature=0.2, **options),
    "GCE": lambda **options: rince.GCE(q=0.7, temperature=0.2, **options),
    "SCE": lambda **options: rince.SymmetricCrossEntropy(temperature=0.2, **options),
    "Debiased": lambda **options: rince.Debiased(temperature=0.2, **options),
    "HardNegatives": lambda **options: rince.HardNegatives(temperature=0.2, **options),
    "MILNCE": lambda **options: rince.MILNCE(temperature=0.2, **options),
    "Sigmoid": lambda **options: rince.Sigmoid(bias=-3, **options),
}


def cases(world):
    """Name of the contrast, local batch sizes, whether ids and weights are given and losses summed, and the loss."""
    for kind in CONTRASTS:
        for sizes in ([6] * world, [5, 2, 9][:world]):
            yield kind, sizes, False, "RINCE"
        yield kind, [4, 7, 3][:world], True, "RINCE"
        yield kind, [0, 5, 3][:world], kind == "Supervised", "RINCE"  # a process may have run out of data
        for name in list(LOSSES)[1:] if kind != "Supervised" else ("GCE", "SCE"):
            if world == 2 or (kind, name) == ("TwoView", "MILNCE"):
                yield kind, [5, 2, 9][:world], True, name
    yield "TwoView", [150, 200, 100][:world], False, "RINCE"  # large enough for tiles
    yield "CrossView", [400, 300, 200][:world], True, "RINCE"
    for name in ("HardNegatives", "MILNCE", "Sigmoid"):
        yield "TwoView", [150, 200, 100][:world], True, name


def step(kind, sizes, extras, name="RINCE", rank=None):
    """Value, gradients of network and loss, and the state after two steps; of the joined batch if there is no rank."""
    g = torch.Generator().manual_seed(sum(sizes))
    n = sum(sizes)
    x1, x2, labels = torch.randn(2, n, 5, generator=g), torch.randn(2, n, 5, generator=g), torch.arange(n) % 4
    ids, weights = torch.arange(n) // 2, torch.rand(n, generator=g) if extras else None
    own = slice(0, n) if rank is None else slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, WIDTH))
    module = network if rank is None else DistributedDataParallel(network)
    reduction = "sum" if extras else "mean"
    loss = LOSSES[name](contrast=CONTRASTS[kind](), reduction=reduction)
    for a, b in zip(x1, x2, strict=True):  # the second step finds a filled queue
        network.zero_grad()
        loss.zero_grad()
        z1, z2 = module(torch.cat([a[own], b[own]])).chunk(2)
        value = loss(
            z1,
            z2,
            labels=labels[own] if kind == "Supervised" else None,
            ids=ids[own] if extras else None,
            weights=None if weights is None else weights[own],
        )
        value.backward()
    state = {name: buffer.clone() for name, buffer in loss.contrast.state_dict().items()}
    own = torch.stack([torch.zeros(()), *(p.grad for p in loss.parameters())])  # the loss is outside of the wrapper
    return value.detach(), torch.cat([p.grad.flatten() for p in network.parameters()]), state, own


def refuses_gradients_of_gradients():
    z1, z2 = torch.randn(2, 4, WIDTH).requires_grad_().unbind()
    try:
        torch.autograd.grad(rince.RINCE()(z1, z2), z1, create_graph=True)
    except RuntimeError as error:
        assert "on one process only" in str(error)
    else:
        raise AssertionError("a gradient of a gradient across processes would be wrong")


def worker(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    refuses_gradients_of_gradients()
    torch.save([step(*case, rank=rank) for case in cases(world)], f"{folder}/{rank}.pt")
    dist.destroy_process_group()
