import pytest
import torch
import torch.multiprocessing as mp
from torch.nn.functional import normalize

import rince
from integrations.clip_processes import SETTINGS, worker
from integrations.real_peers import open_clip_losses
from rince.errors import UsageError
from rince.integrations.open_clip import ClipLoss, GCEClipLoss, RINCEClipLoss, SigLipLoss


def features(views, n):
    a, b = views(n)
    return a, b, normalize(a), normalize(b), torch.tensor(12.0).requires_grad_(), torch.tensor(-3.0).requires_grad_()


@pytest.mark.parametrize("n", (1, 2, 37, 700))
def test_clip_and_siglip_equal_open_clips(n, views, equal):
    theirs = open_clip_losses()
    for kind in ("ClipLoss", "SigLipLoss"):
        for output_dict in (False, True):
            _, _, image, text, scale, bias = features(views, n)
            given = (scale, bias) if kind == "SigLipLoss" else (scale,)
            losses = getattr(theirs, kind)(), {"ClipLoss": ClipLoss, "SigLipLoss": SigLipLoss}[kind]()
            found = [loss(image, text, *given, output_dict=output_dict) for loss in losses]
            if output_dict:
                assert all(list(values) == ["contrastive_loss"] for values in found)
                found = [values["contrastive_loss"] for values in found]
            equal(*found, image, text, *given)


def test_a_bias_changes_nothing_and_gets_a_gradient_of_zero(views):
    _, _, image, text, scale, bias = features(views, 9)
    value = ClipLoss()(image, text, scale, bias)
    assert value.item() == pytest.approx(ClipLoss()(image, text, scale).item())
    assert torch.autograd.grad(value, bias)[0] == 0


def test_rince_at_q_0_has_clips_gradient(views):
    _, _, image, text, scale, _ = features(views, 40)
    ours = torch.autograd.grad(RINCEClipLoss(q=0.0, temperature=None)(image, text, scale), (image, text, scale))
    clip = torch.autograd.grad(ClipLoss()(image, text, scale), (image, text, scale))
    for x, y in zip(ours, clip, strict=True):
        assert torch.allclose(x, y, atol=1e-6)
    loss = RINCEClipLoss(q=0.5)
    assert loss(image, text, scale) != RINCEClipLoss(q=0.1)(image, text, scale)
    loss.q = 0.1
    assert loss(image, text, scale) == RINCEClipLoss(q=0.1)(image, text, scale)


def test_robust_losses_have_a_fixed_temperature_and_weights(views):
    _, _, image, text, scale, _ = features(views, 40)
    weights = torch.rand(40)
    value = GCEClipLoss()(image, text, scale, weights=weights)
    expected = rince.GCE(temperature=0.2, contrast=rince.CrossView())(image, text, weights=weights)
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.autograd.grad(value, scale)[0] == 0
    learned = GCEClipLoss(temperature=None)(image, text, scale)
    assert torch.autograd.grad(learned, scale)[0] != 0


def test_two_processes_equal_open_clips_in_every_setting(tmp_path):
    open_clip_losses()
    mp.spawn(worker, (2, str(tmp_path)), nprocs=2)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        assert found.keys() == SETTINGS.keys()
        for name, (theirs, ours) in found.items():
            for true, got in zip(theirs, ours, strict=True):
                assert (true - got).norm() <= 1e-5 * true.norm() + 1e-9, name


def test_bad_input_is_named(views):
    _, _, image, text, scale, _ = features(views, 6)
    with pytest.raises(UsageError, match="use_horovod"):
        ClipLoss(use_horovod=True)
    with pytest.raises(ValueError, match="same shape"):
        ClipLoss()(image, text[:, :4], scale)
    with pytest.raises(ValueError, match="same shape"):
        SigLipLoss()(image, text[:5], scale, 0.0)
    with pytest.raises(ValueError, match=r"q must be in \[0, 1\], got 2"):
        RINCEClipLoss(q=2)
    for loss in (ClipLoss, RINCEClipLoss, SigLipLoss):
        with pytest.raises(UsageError, match=r"world_size is 2, .* runs 1"):
            loss(world_size=2)(image, text, scale)
