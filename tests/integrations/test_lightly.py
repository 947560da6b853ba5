import pytest
import torch

import rince
from integrations.real_peers import lightly_losses
from rince.errors import UsageError
from rince.integrations.lightly import DCLLoss, DCLWLoss, NTXentLoss, RINCELoss, SupConLoss


@pytest.mark.parametrize("n", (2, 37, 600))
@pytest.mark.parametrize("temperature", (0.05, 0.5, 1.0))
def test_ntxent_and_dcl_equal_lightlys(n, temperature, views, equal):
    theirs_ntx, theirs_dcl = lightly_losses()
    for theirs, ours in (
        (theirs_ntx.NTXentLoss(temperature), NTXentLoss(temperature)),
        (theirs_dcl.DCLLoss(temperature), DCLLoss(temperature)),
        (theirs_dcl.DCLWLoss(temperature, 0.4), DCLWLoss(temperature, 0.4)),
    ):
        a, b = views(n)
        equal(theirs(a, b), ours(a, b), a, b)
        a, b = (z.detach().double().requires_grad_() for z in (a, b))
        equal(theirs(a, b), ours(a, b), a, b, bound=1e-12)


@pytest.mark.parametrize("n", (2, 3))
def test_small_losses_are_more_precise_than_lightlys(n, views):
    """At t 0.05 a right pair among few has a loss near 0, which theirs gets as the difference of two large numbers."""
    theirs_ntx, _ = lightly_losses()
    worst = {"theirs": 0.0, "ours": 0.0}
    for seed in range(40):
        a, b = views(n, seed=seed)
        losses = {"true": theirs_ntx.NTXentLoss(0.05), "theirs": theirs_ntx.NTXentLoss(0.05), "ours": NTXentLoss(0.05)}
        found = {}
        for name, loss in losses.items():
            x, y = (z.detach().to(torch.float64 if name == "true" else torch.float32).requires_grad_() for z in (a, b))
            value = loss(x, y)
            found[name] = torch.cat(
                [value.detach().view(1), *(g.flatten() for g in torch.autograd.grad(value, (x, y)))]
            )
        for name in worst:
            worst[name] = max(worst[name], float((found[name] - found["true"]).norm() / found["true"].norm()))
    assert worst["ours"] <= 1e-5 < worst["theirs"]


def test_weight_functions_are_called_as_there(views, equal):
    _, theirs = lightly_losses()

    def weights(out0, out1):
        return (out0 - 2 * out1).pow(2).sum(1)

    a, b = views(20)
    equal(theirs.DCLLoss(0.2, weights)(a, b), DCLLoss(0.2, weights)(a, b), a, b)


def test_a_full_memory_bank_gives_lightlys_numbers(views, equal):
    theirs_ntx, _ = lightly_losses()
    theirs, ours = theirs_ntx.NTXentLoss(0.2, (32, 8)), NTXentLoss(0.2, (32, 8))
    for seed in range(3):  # 2 x 16 keys fill both
        a, b = views(16, seed=seed)
        b = b.detach()
        expected, value = theirs(a, b), ours(a, b)
    equal(expected, value, a)
    before = ours.contrastive.contrast.pushed.clone()
    ours(a.detach(), b)
    assert torch.equal(before, ours.contrastive.contrast.pushed), "a batch without gradient must not be remembered"


def test_memory_bank_width_from_first_batch_or_state_dict(views, equal):
    given, found = NTXentLoss(0.2, (32, 8)), NTXentLoss(0.2, 32)
    for seed in range(3):
        a, b = views(16, seed=seed)
        values = given(a, b), found(a, b)
    equal(*values, a)
    new = NTXentLoss(0.2, memory_bank_size=32)
    new.load_state_dict(found.state_dict())
    equal(found(a, b), new(a, b), a)


def test_supcon_is_the_mean_over_positives(views, equal):
    a, b = views(24)
    labels = torch.arange(24) % 5
    plain = rince.InfoNCE(temperature=0.2, contrast=rince.Supervised())(a, b, labels=labels)
    equal(plain * 0.2, SupConLoss(0.2)(a, b, labels.float()), a, b)
    equal(NTXentLoss(0.2)(a, b), SupConLoss(0.2, rescale=False)(a, b), a, b)
    robust = SupConLoss(objective=rince.RINCE(q=0.5, temperature=0.3), rescale=False)
    equal(
        rince.RINCE(q=0.5, temperature=0.3, contrast=rince.Supervised())(a, b, labels=labels), robust(a, b, labels), a
    )


def test_rince_is_rince_and_q_0_is_ntxent(views, equal):
    a, b = views(30)
    equal(rince.RINCE(q=0.4, temperature=0.3, scale="unit")(a, b), RINCELoss(0.3, q=0.4)(a, b), a, b)
    loss = RINCELoss(0.3, q=0.4)
    loss.q = 0
    ga, gb = (torch.autograd.grad(f(a, b), a)[0] for f in (loss, NTXentLoss(0.3)))
    assert torch.allclose(ga, gb, atol=1e-6)


def test_bad_input_is_named(views):
    with pytest.raises(UsageError, match=r"\(number, width\), got \(4, 8, 2\)"):
        NTXentLoss(memory_bank_size=(4, 8, 2))
    with pytest.raises(ValueError, match="temperature must be positive, got 0"):
        NTXentLoss(0.0)
    a, _ = views(4)
    with pytest.raises(ValueError, match="same shape"):
        RINCELoss()(a, a[:, :5])
    with pytest.raises(ValueError, match="width 8"):
        RINCELoss(memory_bank_size=(4, 8))(a[:, :5], a[:, :5])
    for loss in (NTXentLoss(), RINCELoss(), DCLLoss(), DCLWLoss()):
        with pytest.raises(UsageError, match=f"{type(loss).__name__} .* use SupConLoss"):
            loss(a, a, torch.arange(4))
