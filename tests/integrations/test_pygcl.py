import pytest
import torch

import rince
from integrations.real_peers import pygcl
from rince.errors import UsageError
from rince.integrations import pygcl as ours


@pytest.mark.parametrize("intraview", (False, True))
@pytest.mark.parametrize("mode", ("L2L", "G2G"))
def test_infonce_equals_theirs_in_both_branches(mode, intraview, views, equal):
    losses, models = pygcl()
    a, b = views(33)
    given = {"h1": a, "h2": b} if mode == "L2L" else {"g1": a, "g2": b}
    values = [
        models.DualBranchContrast(loss(0.3), mode, intraview_negs=intraview)(**given)
        for loss in (losses.InfoNCE, ours.InfoNCE)
    ]
    equal(*values, a, b)


def test_several_positives_equal_theirs(views, equal):
    losses, models = pygcl()
    a, b = views(12)
    extra = (torch.arange(12)[:, None] // 3 == torch.arange(12) // 3).float()
    values = [
        models.DualBranchContrast(loss(0.3), "L2L")(h1=a, h2=b, extra_pos_mask=extra)
        for loss in (losses.InfoNCE, ours.InfoNCE)
    ]
    equal(*values, a, b)


def test_masks_of_single_pairs_are_cross_view(views, equal):
    a, b = views(20)
    own = torch.eye(20)
    for loss, plain in (
        (ours.RINCE(0.2, 0.4), rince.RINCE(q=0.4, temperature=0.2)),
        (ours.GCE(0.2, 0.4), rince.GCE(q=0.4, temperature=0.2)),
    ):
        value = (loss(anchor=a, sample=b, pos_mask=own) + loss(anchor=b, sample=a, pos_mask=own, neg_mask=1 - own)) / 2
        plain.contrast = rince.CrossView()
        equal(plain(a, b), value, a, b)
    loss = ours.RINCE(q=0.1)
    loss.q = 0.6
    assert loss.contrastive.q == 0.6


def test_bad_input_is_named(views):
    a, _ = views(5)
    with pytest.raises(UsageError, match="pos_mask is required"):
        ours.RINCE()(anchor=a, sample=a)
    with pytest.raises(UsageError, match="same width, got 8 and 3"):
        ours.RINCE()(anchor=a, sample=a[:, :3], pos_mask=torch.eye(5))
    with pytest.raises(UsageError, match=r"pos_mask must have .* \(5, 5\), got \(3, 3\)"):
        ours.RINCE()(anchor=a, sample=a, pos_mask=torch.eye(3))
    with pytest.raises(UsageError, match=r"neg_mask must have .* \(5, 5\), got \(5, 4\)"):
        ours.RINCE()(anchor=a, sample=a, pos_mask=torch.eye(5), neg_mask=torch.ones(5, 4))


def test_masks_may_be_of_any_type(views):
    a, b = views(5)
    own = torch.eye(5)
    for mask in (own.bool(), own.long(), own.double()):
        assert ours.RINCE()(a, b, pos_mask=mask) == ours.RINCE()(a, b, pos_mask=own, neg_mask=1 - own)
