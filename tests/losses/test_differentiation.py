"""Losses compiled, differentiated twice, and by torch.func."""

import pytest
import torch

import rince
from support.losses.loss_cases import CONTRASTS, batch


@pytest.mark.parametrize("kind", CONTRASTS)
def test_gradient_check_in_float64_with_a_learned_temperature(kind):
    z1, z2, labels, queue = (x.double() if x.is_floating_point() else x for x in batch(5))
    temperature = torch.nn.Parameter(torch.tensor(0.3, dtype=torch.float64))
    loss = rince.RINCE(q=0.5, lam=0.1, temperature=temperature, contrast=CONTRASTS[kind](), scale="unit")
    assert list(loss.parameters()) == [temperature]
    loss.eval()
    if kind == "Queue":
        loss.double()
        loss.contrast.push(queue)
        z2 = z2.detach()
    labels = labels if kind == "Supervised" else None
    assert torch.autograd.gradcheck(lambda a, b, _: loss(a, b, labels=labels), (z1, z2, temperature))


@pytest.mark.parametrize("kind, n", [(kind, 5) for kind in CONTRASTS] + [("TwoView", 300)])  # one tile, and several
def test_compiled_equals_eager_and_a_new_q_compiles_nothing_again(kind, n):
    z1, z2, labels, queue = batch(n)
    loss = rince.RINCE.paper(contrast=CONTRASTS[kind]())
    if kind == "Queue":
        loss.contrast.push(queue)
        loss.eval()
    labels = labels if kind == "Supervised" else None
    torch.compiler.reset()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=kind not in ("Queue", "Supervised"))
    with torch._dynamo.config.patch(error_on_recompile=True):
        for q in (0.5, 0.3, 0.9):
            loss.q = q
            eager, value = loss(z1, z2, labels=labels), compiled(z1, z2, labels=labels)
            assert value.item() == pytest.approx(eager.item(), rel=1e-6)
            expected, got = (torch.autograd.grad(v, z1)[0] for v in (eager, value))
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("kind", CONTRASTS)
@pytest.mark.parametrize("q", (0, 0.5))
def test_gradients_of_gradients_are_right(kind, q):
    z1, z2, labels, queue = (x.double() if x.is_floating_point() else x for x in batch(4, width=3))
    temperature = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
    contrast = rince.Queue(3, 40) if kind == "Queue" else CONTRASTS[kind]()
    loss = rince.RINCE(q=q, lam=0.1, temperature=temperature, contrast=contrast, scale="unit").double().eval()
    if kind == "Queue":
        contrast.push(queue[:6])
        z2 = z2.detach()  # keys have no gradient
    labels = torch.tensor([0, 1, 0, 1]) if kind == "Supervised" else None
    assert torch.autograd.gradgradcheck(lambda a, b, _: loss(a, b, labels=labels), (z1, z2, temperature))


@pytest.mark.parametrize("n", (5, 300))  # one tile, and several
@pytest.mark.parametrize("kind", CONTRASTS)
def test_create_graph_and_torch_func_give_the_same_gradient(kind, n):
    z1, z2, labels, queue = batch(n)
    loss = rince.RINCE.paper(contrast=CONTRASTS[kind]()).eval()
    if kind == "Queue":
        loss.contrast.push(queue)
    labels = labels if kind == "Supervised" else None

    def value(a):
        return loss(a, z2, labels=labels, ids=torch.arange(n) // 2, weights=torch.arange(n) % 3)

    (expected,) = torch.autograd.grad(value(z1), z1)
    (twice,) = torch.autograd.grad(value(z1), z1, create_graph=True)
    torch.testing.assert_close(twice, expected, rtol=1e-4, atol=1e-7)
    twice.square().sum().backward()
    assert z1.grad.isfinite().all() and z1.grad.norm() > 0
    torch.testing.assert_close(torch.func.grad(value)(z1.detach()), expected, rtol=1e-4, atol=1e-7)


def test_weights_get_no_gradient():
    z1, z2, *_ = batch(4)
    weights = torch.rand(4, requires_grad=True)
    rince.RINCE.paper()(z1, z2, weights=weights).backward()
    assert weights.grad is None
