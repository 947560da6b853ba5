"""What can be said of GPUs without one: shapes on fake devices, compiled graphs, and nccl's branch.

That nothing waits for a GPU is tested in test_no_waiting.py.
"""

import contextlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode

import rince.errors
from rince.losses import ranks
from support.losses.loss_cases import CONTRASTS, WIDTH, batch

DEVICES = ["meta"] if torch.version.cuda is None else ["meta", "cuda"]  # builds without CUDA have no fakes of it either
STATIC = ("TwoView", "CrossView", "CrossView one way")  # the others have shapes that depend on values


def rows(n, device):
    return [torch.randn(n, WIDTH, device=device, requires_grad=True) for _ in range(2)]


@pytest.fixture(params=DEVICES)
def gpu(request):
    """A device like a GPU, whose tensors have no content: to look at a value is an error."""
    with contextlib.nullcontext() if request.param == "meta" else FakeTensorMode():
        yield request.param


@pytest.mark.parametrize("reduction", ("mean", "none"))
@pytest.mark.parametrize("n", (7, 600))  # one tile, and several
@pytest.mark.parametrize("kind", STATIC)
def test_losses_and_gradients_stay_on_the_device_of_the_embeddings(kind, n, reduction, gpu):
    z1, z2 = rows(n, gpu)
    ids, weights = torch.arange(n, device=gpu) // 2, torch.rand(n, device=gpu)
    loss = rince.RINCE.paper(q=0.5, lam="balanced", temperature=0.2, contrast=CONTRASTS[kind](), reduction=reduction)
    value = loss(z1, z2, ids=ids, weights=weights)
    anchors = n if kind == "CrossView one way" else 2 * n
    assert value.shape == (() if reduction == "mean" else (anchors,))
    assert value.device.type == gpu and value.dtype == torch.float32
    if gpu == "cuda" and not torch.cuda.is_available():
        return  # torch's backward pass wants a real one, for fake tensors too
    value.sum().backward()
    assert z1.grad.shape == z2.grad.shape == (n, WIDTH) and z1.grad.device.type == gpu


@pytest.mark.skipif("cuda" not in DEVICES, reason="this build of torch does not know CUDA")
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_autocast_of_a_gpu_does_not_reach_the_scores(dtype, monkeypatch):
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)  # as with a GPU
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    with FakeTensorMode(), torch.autocast("cuda", dtype=dtype):
        weight = torch.eye(WIDTH, device="cuda", requires_grad=True)
        a, b = (z @ weight for z in rows(7, "cuda"))
        assert a.dtype == dtype
        assert rince.RINCE.paper()(a, b).dtype == torch.float32


def test_embeddings_on_two_devices_are_refused_in_a_sentence():
    with pytest.raises(rince.errors.UsageError, match="must be on one device, got meta and cpu"):
        rince.RINCE.paper()(torch.randn(4, WIDTH, device="meta"), torch.randn(4, WIDTH))


@pytest.mark.parametrize("kind", STATIC)
def test_compiled_graphs_ask_for_no_values(kind):
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

    from torch._dynamo.backends.common import aot_autograd

    for n in (5, 600):  # plain operations, and blocks in an operator of its own
        graphs.clear()
        z1, z2, *_ = batch(n)
        loss = rince.RINCE.paper(contrast=CONTRASTS[kind]())
        torch.compiler.reset()
        torch.compile(loss, backend=aot_autograd(fw_compiler=keep, bw_compiler=keep), fullgraph=True)(z1, z2).backward()
        called = {str(node.target) for graph in graphs for node in graph.graph.nodes if node.op == "call_function"}
        small = kind != "TwoView" or n == 5
        assert len(graphs) == 2 and any("rince.logsumexp" in name for name in called) == (not small)
        called.discard("<built-in function getitem>")  # of the operator's outputs
        assert not {name for name in called if "item" in name or "local_scalar" in name or "nonzero" in name}


@given(sizes=st.lists(st.integers(0, 5), min_size=2, max_size=4).filter(any), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_nccl_branch_sums_candidate_gradients(sizes, seed):
    gradients = torch.randn(len(sizes), sum(sizes), 3, generator=torch.Generator().manual_seed(seed)).double()
    sent: dict[int, torch.Tensor] = {}

    def backward(rank, reduce_scatter):
        class Context:
            pass

        Context.sizes = sizes
        with pytest.MonkeyPatch.context() as patch, torch.no_grad():
            patch.setattr(ranks.dist, "get_rank", lambda: rank)
            patch.setattr(ranks.dist, "get_backend", lambda: "nccl")
            patch.setattr(ranks.dist, "reduce_scatter_tensor", reduce_scatter)
            return ranks._Gather.backward(Context, gradients[rank])[0]

    for rank in range(len(sizes)):  # nccl sees the parts of all at once; here they are collected first
        backward(rank, lambda own, parts, rank=rank: sent.update({rank: parts.clone()}))
    for rank in range(len(sizes)):
        summed = torch.stack([sent[r] for r in sent]).sum(0).chunk(len(sizes))[rank]
        got = backward(rank, lambda own, parts, summed=summed: own.copy_(summed))
        expected = gradients.sum(0).split(sizes)[rank]
        assert got.shape == expected.shape
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
