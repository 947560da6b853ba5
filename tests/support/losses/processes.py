"""The same training step on one process and on several, for tests/losses/test_ranks.py."""

import contextlib
import os
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rince
from rince.errors import UsageError
from rince.losses import ranks
from support.losses.loss_cases import contrasts

WIDTH = 12
RING = {
    "TwoView ring": lambda: rince.TwoView(ring=True),
    "CrossView ring": lambda: rince.CrossView(ring=True),
    "CrossView one way ring": lambda: rince.CrossView(symmetric=False, ring=True),
}
CONTRASTS = contrasts(WIDTH, 30) | RING


LOSSES = {
    "RINCE": lambda **options: rince.RINCE.paper(q=0.5, lam="balanced", temperature=0.2, **options),
    "GCE": lambda **options: rince.GCE(q=0.7, temperature=0.2, **options),
    "SCE": lambda **options: rince.SymmetricCrossEntropy(temperature=0.2, **options),
    "DCL": lambda **options: rince.DCL(temperature=0.2, **options),
    "Debiased": lambda **options: rince.Debiased(temperature=0.2, **options),
    "HardNegatives": lambda **options: rince.HardNegatives(temperature=0.2, **options),
    "MILNCE": lambda **options: rince.MILNCE(temperature=0.2, **options),
    "Sigmoid": lambda **options: rince.Sigmoid(bias=-3, **options),
}


def cases(world):
    """Name of the contrast, local batch sizes, whether ids and weights are given and losses summed, and the loss."""
    for kind in CONTRASTS if world < 4 else RING:
        if world == 2:
            yield kind, [6, 6], False, "RINCE"
            yield kind, [5, 2], False, "RINCE"
        yield kind, [4, 7, 3, 1][:world], True, "RINCE"
        yield kind, [0, 5, 3, 2][:world], kind == "Supervised", "RINCE"  # a process may have run out of data
        for name in list(LOSSES)[1:] if kind != "Supervised" else ("GCE", "SCE", "DCL"):
            if world == 2 or (kind.startswith("TwoView") and name == "MILNCE"):
                yield kind, [5, 2, 9, 4][:world], True, name
    if world == 2:  # large enough for tiles
        yield "TwoView", [150, 200], False, "RINCE"
        yield "CrossView", [400, 300], True, "RINCE"
        yield "CrossView ring", [600, 450], True, "RINCE"
        for name in ("HardNegatives", "MILNCE", "Sigmoid"):
            yield "TwoView", [150, 200], True, name


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
        torch.autograd.grad(rince.RINCE.paper()(z1, z2), z1, create_graph=True)
    except RuntimeError as error:
        assert "on one rank only" in str(error)
    else:
        raise AssertionError("a gradient of a gradient across processes would be wrong")


def differences(rank):
    """Calls in which the two processes differ, and what both of them (or one each) have to be told."""
    z1, z2, ids = torch.randn(4, WIDTH), torch.randn(4, WIDTH), torch.arange(4)
    odd = rank == 1

    def call(*given, loss=rince.RINCE, contrast=rince.TwoView, reduction="mean", **others):
        return lambda: loss(contrast=contrast(), reduction=reduction)(*given, **others)

    def queue(wide, training=True):
        loss = rince.RINCE.paper(contrast=rince.Queue(WIDTH, 8)).train(training)
        return lambda: loss(z1[:, :wide], z2[:, :wide])

    told = "{} must be the same on all ranks, got {} on rank 0 and {} on rank 1".format
    refused = "rank 1 rejected its inputs (see its error)"
    wide = WIDTH - odd
    precise = (z1.double(), z2.double()) if odd else (z1, z2)
    several = {"contrast": rince.Supervised, "labels": ids // 2}
    yield call(z1, z2, ids=ids if odd else None), told("ids", "none", "one per pair")
    yield call(z1[:, :wide], z2[:, :wide]), told("width of the embeddings", WIDTH, WIDTH - 1)
    yield call(*precise), told("precision of the scores", "torch.float32", "torch.float64")
    yield call(z1, z2, weights=None if odd else torch.ones(4)), told("weights", "one per pair", "none")
    yield call(z1, z2, reduction="sum" if odd else "mean"), told("reduction", "mean", "sum")
    settings = {"q": 0.5 + 0.25 * odd, "temperature": 0.5}
    yield call(z1, z2, loss=partial(rince.RINCE, **settings)), told("q", 0.5, 0.75)
    settings = {"temperature": torch.nn.Parameter(torch.tensor(0.05)) if odd else 0.05}
    yield call(z1, z2, loss=partial(rince.InfoNCE, **settings)), told("temperature", 0.05, "a learned one")
    yield call(z1, None if odd else z2, **several), told("number of views", 2, 1)
    yield queue(WIDTH, training=not odd), told("mode", "train", "eval")
    yield queue(wide), f"width {WIDTH}, got embeddings of width {WIDTH - 1}" if odd else refused
    yield call(z1, z2, contrast=rince.Supervised, labels=None if odd else ids), "needs labels" if odd else refused
    bad = torch.tensor([1.0, 1, 1, -1 if odd else 1])
    yield call(z1, z2, weights=bad), "not negative, got -1" if odd else refused
    yield call(z1.long() if odd else z1, z2), "must be floating point" if odd else refused
    own = {"contrast": "x" if odd else rince.TwoView()}
    yield lambda: rince.RINCE.paper()(z1, z2, **own), "contrast must be a rince contrast" if odd else refused
    yield call(z1, z2, loss=Breaks if odd else rince.RINCE), "of a kind of its own" if odd else refused


class Breaks(rince.RINCE):
    def check_embeddings(self, a):
        raise RuntimeError("of a kind of its own")


def other_settings(rank):
    """Losses in which the two processes differ, and what both of them have to be told."""
    odd = rank == 1

    told = "{} must be the same on all ranks, got {} on rank 0 and {} on rank 1".format
    temperature = torch.nn.Parameter(torch.tensor(0.06 if odd else 0.05))
    learned = (told("{}", "{}", "{}") + ": if it is learned").format
    kind = rince.InfoNCE if odd else rince.GCE
    yield kind(temperature=0.2), told("loss", "GCE", "InfoNCE")
    yield (rince.InfoNCE if odd else rince.DCL)(temperature=0.2), told("loss", "DCL", "InfoNCE")
    contrast = rince.Queue(WIDTH, 8) if odd else rince.TwoView()
    yield rince.InfoNCE(temperature=0.5, contrast=contrast), told("contrast", "TwoView", "Queue")
    yield (
        rince.InfoNCE(temperature=0.5, contrast=rince.CrossView(not odd)),
        told("symmetric of the contrast", 1, 0),
    )
    yield (
        rince.InfoNCE(temperature=0.5, contrast=rince.Queue(WIDTH, 8 + odd)),
        told("size of the contrast", 8, 9),
    )
    yield rince.RINCE.paper(lam=0.5 if odd else 0.01), told("lam", 0.01, 0.5)
    yield (
        rince.RINCE.paper(lam=rince.DensityRatio(1 + odd)),
        told("lam", "DensityRatio(r=1)", "DensityRatio(r=2)"),
    )
    yield rince.RINCE(scale="unit" if odd else "paper"), told("scale", "paper", "unit")
    yield rince.HardNegatives(beta=1.0 + odd), told("beta", 1, 2)
    objective = rince.objectives.dcl if odd else rince.objectives.info_nce
    yield rince.ContrastiveLoss(objective), told("objective", "info_nce", "dcl")
    yield rince.Sigmoid(bias=-10 + odd), learned("bias", -10, -9)
    yield rince.InfoNCE(temperature=temperature), learned("learned temperature", 0.05, 0.06)


class Own(rince.RINCE):
    """A loss that does the same everywhere, and knows where it is."""

    def __init__(self, rank):
        super().__init__()
        self.rank, self.log_to, self.beta = rank, object(), rank


def what_may_differ(rank):
    loss = rince.RINCE.paper()
    loss.name, loss.chose_contrast = f"on process {rank}", rank == 0
    temperature = torch.nn.Parameter(torch.tensor(0.05) * (1 + 2e-7 * rank))
    own = partial(lambda p, n, rank: n - p, rank=rank)
    return (
        loss,
        Own(rank) if rank else rince.RINCE(),
        rince.InfoNCE(temperature=temperature),
        rince.ContrastiveLoss(own),
    )


def tells_all_processes_what_differs(rank):
    z1, z2 = torch.randn(3, WIDTH), torch.randn(3, WIDTH)
    settings = ((partial(loss, z1, z2), message) for loss, message in other_settings(rank))
    for i, (call, message) in enumerate([*differences(rank), *settings]):
        try:
            call()
        except (UsageError, TypeError, RuntimeError) as error:
            assert message in str(error), (rank, i, message, str(error))
        else:
            raise AssertionError(f"{rank}: {message}")
        assert rince.RINCE.paper()(z1, z2).isfinite()  # and the group still works
    assert all(loss(z1, z2).isfinite() for loss in what_may_differ(rank))


class Nccl:
    """torch.distributed as the gather sees it on GPUs, with the one collective that gloo does by another."""

    scattered = 0

    def __getattr__(self, name):
        return getattr(dist, name)

    def get_backend(self):
        return "nccl"

    def reduce_scatter_tensor(self, own, parts):
        Nccl.scattered += 1
        total = parts.clone()
        dist.all_reduce(total)
        own.copy_(total.chunk(dist.get_world_size())[dist.get_rank()])


def exchanges_settings_once_per_change(rank):
    z1, z2 = torch.randn(2, 4 + rank, WIDTH)
    loss, sent, exchange = rince.GCE(contrast=rince.CrossView()), [], ranks._exchange
    expected = loss(z1, z2)
    os.environ["RINCE_EXCHANGE"] = "change"
    ranks._exchange = lambda values: sent.append(values) or exchange(values)
    try:
        for _ in range(3):
            assert loss(z1, z2) == expected
        assert len(sent) == 1
        loss(z1[:3], z2[:3])
        assert len(sent) == 2
        loss.q = 0.5
        loss(z1[:3], z2[:3])
        assert len(sent) == 3
        with contextlib.suppress(TypeError):
            loss([1.0], z2)  # other ranks do not wait for this error
        assert len(sent) == 3
    finally:
        ranks._exchange = exchange
        del os.environ["RINCE_EXCHANGE"]


NCCL = [("TwoView", [5, 2], True, "RINCE"), ("CrossView", [0, 5], False, "RINCE"), ("Supervised", [4, 7], True, "GCE")]


def worker(rank, folder):
    """All there is to do, by one process: in a world of two, then in one of three."""
    torch.set_num_threads(1)
    for world in (2, 3, 4):
        if rank >= world:
            continue
        meeting = f"file://{folder}/meeting{world}"
        dist.init_process_group(
            "gloo", init_method=meeting, rank=rank, world_size=world, timeout=timedelta(seconds=120)
        )
        steps = [step(*case, rank=rank) for case in cases(world)]
        if world == 2:
            refuses_gradients_of_gradients()
            exchanges_settings_once_per_change(rank)
            tells_all_processes_what_differs(rank)
            ranks.dist = Nccl()
            steps += [step(*case, rank=rank) for case in NCCL]
            ranks.dist = dist
            assert Nccl.scattered == 2 * len(NCCL)
        torch.save(steps, f"{folder}/{world}-{rank}.pt")
        dist.destroy_process_group()
