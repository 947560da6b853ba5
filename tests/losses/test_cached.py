"""Gradient caching against the same chunks encoded with a graph, and against the whole batch at once."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import rince
from rince.errors import UsageError
from rince.losses.cached import encode
from support import ranks
from support.losses.processes_cached import CASES, step, worker


def network(dropout=0.0, dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Dropout(dropout), nn.Linear(32, 8)).to(dtype)


def sides(n=50, dtype=torch.float32):
    g = torch.Generator().manual_seed(1)
    return torch.randn(n, 6, generator=g, dtype=dtype), torch.randn(n, 6, generator=g, dtype=dtype)


def loss_of_pairs():
    return rince.RINCE(q=0.5, lam="balanced", temperature=0.2, contrast=rince.CrossView(), scale="unit")


def in_chunks(encoder, x, chunk):
    """The slow way: every chunk keeps its graph."""
    return torch.cat([encoder(part) for part in x.split(chunk)])


def gradients(modules):
    every = [p for m in ([modules] if isinstance(modules, nn.Module) else modules) for p in m.parameters()]
    return torch.cat([p.grad.flatten() for p in every])


def far(got, true):
    return float((got - true).norm() / true.norm())


@pytest.mark.parametrize(("dtype", "bound"), ((torch.float32, 1e-6), (torch.float64, 1e-10)))
@pytest.mark.parametrize("chunk", (1, 7, 50, 64))
def test_gradient_equals_that_of_the_whole_batch(chunk, dtype, bound):
    model, (a, b) = network(dtype=dtype), sides(dtype=dtype)
    loss = loss_of_pairs()
    expected = loss(model(a), model(b))
    expected.backward()
    true = gradients(model)
    model.zero_grad()
    value = rince.cached(loss, model, (a, b), chunk=chunk)
    value.backward()
    # The loss, about 0.02, is a difference of terms of size 1, and chunks multiply by another kernel.
    assert abs(value.detach() - expected.detach()) <= bound / 10
    assert far(gradients(model), true) <= bound


@pytest.mark.parametrize(("dtype", "bound"), ((torch.float32, 1e-6), (torch.float64, 1e-10)))
def test_dropout_of_the_second_pass_is_that_of_the_first(dtype, bound):
    model, (a, b) = network(0.5, dtype), sides(dtype=dtype)
    loss = loss_of_pairs()
    torch.manual_seed(3)
    loss(in_chunks(model, a, 8), in_chunks(model, b, 8)).backward()
    true, drawn = gradients(model), torch.rand(3)
    model.zero_grad()
    torch.manual_seed(3)
    value = rince.cached(loss, model, (a, b), chunk=8)
    assert torch.equal(drawn, torch.rand(3)), "the first pass has to draw what an ordinary one draws"
    torch.manual_seed(4)
    before = torch.get_rng_state()
    value.backward()
    assert far(gradients(model), true) <= bound
    assert torch.equal(before, torch.get_rng_state()), "the second pass must leave no trace in the random numbers"


def test_losses_are_given_what_they_need():
    model, (a, b) = network(), sides()
    labels, weights = torch.arange(50) % 5, torch.rand(50)
    for loss, given in (
        (rince.RINCE.paper(q=0.5, contrast=rince.Supervised(), temperature=0.3), {"labels": labels}),
        (loss_of_pairs(), {"weights": weights, "ids": torch.arange(50) // 2}),
    ):
        expected = loss(model(a), model(b), **given)
        assert far(rince.cached(loss, model, (a, b), chunk=16, **given).detach(), expected.detach()) <= 1e-6


def test_accumulation_adds_up():
    model, loss = network(0.3), loss_of_pairs()
    batches = [sides(), [x.flip(0) for x in sides()]]
    torch.manual_seed(3)
    for a, b in batches:
        (loss(in_chunks(model, a, 8), in_chunks(model, b, 8)) / 2).backward()
    true = gradients(model)
    model.zero_grad()
    torch.manual_seed(3)
    for pair in batches:
        (rince.cached(loss, model, pair, chunk=8) / 2).backward()
    assert far(gradients(model), true) <= 1e-6


def test_two_calls_before_backward_keep_apart():
    model, loss = network(0.3), loss_of_pairs()
    first, second = sides(), [x.flip(0) for x in sides()]
    torch.manual_seed(3)
    loss(*(in_chunks(model, x, 8) for x in first)).backward()
    loss(*(in_chunks(model, x, 8) for x in second)).backward()
    true = gradients(model)
    model.zero_grad()
    torch.manual_seed(3)
    values = [rince.cached(loss, model, pair, chunk=8) for pair in (first, second)]
    sum(values).backward()
    assert far(gradients(model), true) <= 1e-6


@pytest.mark.parametrize("inside", (True, False), ids=("backward inside autocast", "backward outside"))
def test_autocast_is_that_of_the_first_pass(inside):
    model, (a, b) = network(), sides()
    loss = loss_of_pairs()
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        loss(in_chunks(model, a, 8), in_chunks(model, b, 8)).backward()
    true = gradients(model)
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        value = rince.cached(loss, model, (a, b), chunk=8)
        if inside:
            value.backward()
    if not inside:
        value.backward()
    assert true.dtype == torch.float32
    assert far(gradients(model), true) <= 1e-2  # sums of bfloat16 in another order
    model.zero_grad()
    loss(in_chunks(model, a, 8), in_chunks(model, b, 8)).backward()
    assert far(gradients(model), true) > 1e-4, "full precision would pass for autocast"


def test_running_statistics_move_once_and_spectral_norm_is_replayed():
    def build():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.utils.parametrizations.spectral_norm(nn.Linear(6, 16)), nn.BatchNorm1d(16), nn.Linear(16, 8)
        )

    (a, b), loss = sides(48), loss_of_pairs()
    slow, quick = build(), build()
    loss(in_chunks(slow, a, 8), in_chunks(slow, b, 8)).backward()
    rince.cached(loss, quick, (a, b), chunk=8).backward()
    assert far(gradients(quick), gradients(slow)) <= 1e-5
    for (name, x), y in zip(slow.named_buffers(), quick.buffers(), strict=True):
        assert torch.allclose(x.float(), y.float(), atol=1e-6), name


def test_gradient_uses_the_buffers_that_a_chunk_was_encoded_with():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.map = nn.Linear(6, 8)
            self.register_buffer("scale", torch.ones(8))

        def forward(self, x):
            y = self.map(x)
            self.scale = 0.9 * self.scale + y.detach().square().mean(0)
            return y.tanh() * self.scale

    (a, b), loss = sides(48), loss_of_pairs()
    slow, quick = Scaled(), Scaled()
    loss(in_chunks(slow, a, 8), in_chunks(slow, b, 8)).backward()
    rince.cached(loss, quick, (a, b), chunk=8).backward()
    assert far(gradients(quick), gradients(slow)) <= 1e-6
    assert torch.equal(quick.scale, slow.scale)


def test_input_changed_before_backward_is_an_error():
    model, (a, b) = network(), sides()
    value = rince.cached(loss_of_pairs(), model, (a, b), chunk=16)
    a.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_an_encoder_per_side_and_inputs_of_every_kind():
    class Tower(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(6, 8)

        def forward(self, x, factor=1.0, words=None):
            y = self.map(x) * factor
            return y if words is None else y + torch.tensor([[float(len(w))] for w in words])

        def encode_text(self, x):
            return self.map(x).tanh()

    torch.manual_seed(0)
    one, two = Tower(), Tower()
    (a, b), words, loss = sides(), [str(10**i) for i in range(50)], loss_of_pairs()
    loss(one(a, 2.0, words), two.encode_text(b)).backward()
    true = gradients([one, two])
    for inputs in ({"x": a, "factor": 2.0, "words": words}, (a, 2.0, words)):
        one.zero_grad(), two.zero_grad()
        rince.cached(loss, [one, two.encode_text], [inputs, b], chunk=16).backward()
        assert far(gradients([one, two]), true) <= 1e-6


def test_gradient_reaches_inputs_and_leaves_unused_parameters_alone():
    model, (a, b) = network(), sides()
    model.unused = nn.Parameter(torch.zeros(3))
    model.forward = lambda x: nn.Sequential.forward(nn.Sequential(*list(model)[:4]), x)
    stem = nn.Linear(6, 6)
    loss = loss_of_pairs()
    loss(model(stem(a)), model(b)).backward()
    true = gradients(stem)
    stem.zero_grad()
    rince.cached(loss, model, (stem(a), b), chunk=16).backward()
    assert far(gradients(stem), true) <= 1e-6
    assert model.unused.grad is None
    grad = torch.autograd.grad(rince.cached(loss, model, (a, b), chunk=16), model[0].weight)[0]
    assert grad.norm() > 0


def test_nothing_is_kept_where_no_gradient_is_wanted():
    model, (a, b) = network(), sides()
    with torch.no_grad():
        value = rince.cached(loss_of_pairs(), model, (a, b), chunk=16)
    assert not value.requires_grad
    for p in model.parameters():
        p.requires_grad_(False)
    assert not encode(model, a, 16).requires_grad


def test_second_derivatives_equal_those_of_the_whole_batch():
    model, (a, b), loss = network(dtype=torch.float64), sides(12, torch.float64), loss_of_pairs()

    def second(value):
        (first,) = torch.autograd.grad(value, model[0].weight, create_graph=True)
        return torch.autograd.grad(first.square().sum(), model[0].weight)[0]

    assert far(second(rince.cached(loss, model, (a, b), chunk=5)), second(loss(model(a), model(b)))) <= 1e-10


def test_bad_input_is_named():
    model, (a, b) = network(), sides()
    loss = loss_of_pairs()
    for chunk in (0, -1, 1.5, None):
        with pytest.raises(UsageError, match="chunk must be an integer of at least 1"):
            rince.cached(loss, model, (a, b), chunk=chunk)
    with pytest.raises(UsageError, match=r"encoder .*got 3 for 2"):
        rince.cached(loss, [model] * 3, (a, b), chunk=8)
    with pytest.raises(UsageError, match="a module or a method of one, got function"):
        rince.cached(loss, lambda x: x, (a, b), chunk=8)
    with pytest.raises(UsageError, match=r"per side .*got one Tensor"):
        rince.cached(loss, model, a, chunk=8)
    with pytest.raises(UsageError, match=r"one row per pair, got \[49, 50\] rows"):
        rince.cached(loss, model, ((a, b[:49]), b), chunk=8)
    with pytest.raises(UsageError, match="must hold a tensor or a list"):
        rince.cached(loss, model, ((1, 2), b), chunk=8)
    with pytest.raises(UsageError, match="must return one row per pair: expected 8"):
        rince.cached(loss, nn.Sequential(model, nn.Flatten(0)), (a, b), chunk=8)
    with pytest.raises(ValueError, match="same shape"):
        rince.cached(loss, [model, nn.Linear(6, 9)], (a, b), chunk=8)


def test_gradient_of_two_processes_equals_one(tmp_path):
    ranks.start(worker, 2, 2, str(tmp_path))
    got = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for case in CASES:
        true = step(case)
        for rank in range(2):
            assert far(got[rank][case][1], true[1]) <= 1e-10, case
        mean = (got[0][case][0] + got[1][case][0]) / 2
        assert far(mean, true[0]) <= 1e-10, case


MEMORY = """
import resource, sys, torch
from torch import nn
import rince
torch.set_num_threads(1)
n = int(sys.argv[1])
model = nn.Sequential(nn.Linear(16, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU(), nn.Linear(768, 8))
loss = rince.RINCE(q=0.5, lam="balanced", temperature=0.2, contrast=rince.CrossView(), scale="unit")
def run(n):
    rince.cached(loss, model, (torch.randn(n, 16), torch.randn(n, 16)), chunk=256).backward()
run(1024), run(1024)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run(n)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_memory_does_not_grow_with_the_batch_but_for_the_embeddings():
    n = 8192
    run = subprocess.run([sys.executable, "-c", MEMORY, str(n)], capture_output=True, text=True, check=True)
    activations = 2 * n * 4 * 768 * 4 / 2**20  # what a graph of the whole batch would hold: 192 MB
    assert float(run.stdout) <= 0.1 * activations
