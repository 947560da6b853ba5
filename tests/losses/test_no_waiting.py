"""No loss looks at a value on a device other than the CPU, where it would have to wait for all work before it.

Tensors on torch's ``meta`` device have no values: whatever asks for one (``item``, ``float``, ``bool``, ``tolist``,
a result whose shape depends on values) raises. Everything else runs through the code that a GPU would take.
"""

import pytest
import torch

import rince
from rince.losses import logsumexp, ranks, ring
from support.losses.loss_cases import CONTRASTS, ONE_POSITIVE, PLAIN, WHOLE, WIDTH


def on_meta(*shape, dtype=torch.float32, **options):
    return torch.empty(shape, dtype=dtype, device="meta", **options)


def contrast_on_meta(kind):
    contrast = CONTRASTS[kind]().to("meta")
    if kind == "Queue":
        contrast._set_count(30)  # a queue that was moved is read once
    return contrast


def step(loss, n=6, **others):
    z1, z2 = on_meta(n, WIDTH, requires_grad=True), on_meta(n, WIDTH, requires_grad=True)
    value = loss(z1, z2, ids=on_meta(n, dtype=torch.int64), weights=on_meta(n), **others)
    value.backward()
    assert value.shape == () and z1.grad.shape == z1.shape


@pytest.mark.filterwarnings("ignore:RINCE with")
@pytest.mark.parametrize("kind", ONE_POSITIVE)
def test_forward_and_backward_look_at_no_value(kind):
    plain = [PLAIN[name] for name in ("DCL", "SCE", "q=0", "q=0.5", "GCE q=0.5")]
    for make, _ in [*plain, *WHOLE.values()]:
        step(make(0.1, contrast_on_meta(kind)).to("meta"))
    temperature = torch.nn.Parameter(torch.tensor(0.1))
    loss = rince.RINCE(q=0.5, lam="balanced", temperature=temperature, contrast=contrast_on_meta(kind), scale="unit")
    loss.temperature = torch.nn.Parameter(on_meta())
    step(loss)
    step(loss)  # after a push
    assert kind != "Queue" or loss.contrast._count() == 30 + 2 * 6


@pytest.mark.parametrize("bound", (None, 2.0, 100.0))  # unknown, low enough for one shift of all scores, and not
@pytest.mark.parametrize("kind", ("", "hard_negatives", "softplus", "bag"))
@pytest.mark.parametrize("n", (6, 5000))  # one block, and several
def test_the_walk_over_blocks_looks_at_no_value(n, kind, bound):
    rows, keys, shift = on_meta(n, WIDTH), on_meta(n, dtype=torch.int64), on_meta()
    for columns in (None, on_meta(n, WIDTH)):
        other_keys = None if columns is None else keys
        inputs = rows, columns, keys, other_keys, shift, kind, 0.5, True, True, bound, "highest"
        of_rows, of_columns, kept = logsumexp._forward_in_blocks(*inputs)
        d_rows, *_ = logsumexp._backward_in_blocks(of_rows, of_columns, of_rows, of_columns, kept, *inputs, True, True)
        assert d_rows.shape == rows.shape


class FakeGroup:
    """torch.distributed of two equal ranks with GPUs; notes collectives and the devices of their tensors."""

    class group:
        WORLD = object()

    is_available = is_initialized = staticmethod(lambda: True)
    get_rank = staticmethod(lambda: 0)
    get_world_size = staticmethod(lambda: 2)
    get_backend = staticmethod(lambda: "nccl")
    get_backend_config = staticmethod(lambda: "cuda:nccl")
    new_group = staticmethod(lambda backend: backend)
    isend, irecv = "isend", "irecv"

    def __init__(self):
        self.called = []

    def all_gather(self, parts, own, group=None):
        self.called.append(f"all_gather {own.device.type} {group or 'nccl'}")
        for part in parts:
            part.copy_(own)

    def all_reduce(self, tensor):
        self.called.append(f"all_reduce {tensor.device.type}")

    def reduce_scatter_tensor(self, own, parts):
        self.called.append(f"reduce_scatter {own.device.type}")
        own.copy_(parts[: len(own)])

    def P2POp(self, direction, tensor, rank):
        return direction, tensor

    def batch_isend_irecv(self, operations):
        self.called += [f"{direction} {tensor.device.type}" for direction, tensor in operations]
        return []


@pytest.fixture
def group(monkeypatch):
    fake = FakeGroup()
    for module in (ranks, ring):
        monkeypatch.setattr(module, "dist", fake)
    monkeypatch.setattr(ranks, "_worlds", [])
    return fake


AGREE = ["all_gather cpu gloo"]
GATHER = ["all_gather meta nccl", "all_gather meta nccl"]  # embeddings, ids
REDUCE = ["all_reduce meta"]  # of the weights


@pytest.mark.parametrize("kind", ("TwoView", "CrossView", "CrossView one way"))
def test_gpu_ranks_exchange_settings_on_cpus(kind, group):
    loss = rince.GCE(contrast=contrast_on_meta(kind))
    for _ in range(2):
        step(loss)
        assert group.called == [*AGREE, *GATHER, *REDUCE, "reduce_scatter meta"]
        group.called.clear()


def test_exchange_of_settings_once_per_change(group, monkeypatch):
    monkeypatch.setenv("RINCE_EXCHANGE", "change")
    temperature = rince.LearnedTemperature().to("meta")
    for loss in (rince.GCE(contrast=rince.CrossView()), rince.InfoNCE(temperature=temperature)):
        exchanges = []
        for n in (6, 6, 6, 7, 7):
            step(loss, n)
            exchanges.append(group.called.count(*AGREE))
        assert exchanges == [1, 1, 1, 2, 2]
        group.called.clear()


def test_ring_communication_count(group):
    step(rince.GCE(contrast=rince.TwoView(ring=True)))
    forward, backward = ["isend meta", "irecv meta"], 3 * ["isend meta", "irecv meta"]
    assert group.called == [*AGREE, GATHER[1], *forward, *REDUCE, *backward]


def test_supervised_asks_for_nothing_but_the_list_of_its_pairs():
    """How many there are depends on the labels, and memory has to be found for them."""
    loss = rince.RINCE.paper(contrast=rince.Supervised())
    with pytest.raises(NotImplementedError, match="nonzero"):
        step(loss, labels=on_meta(6, dtype=torch.int64))
    with torch.fx.experimental._config.patch(meta_nonzero_assume_all_nonzero=True):
        step(loss, labels=on_meta(6, dtype=torch.int64))
