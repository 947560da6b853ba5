import pytest
import torch
from torch import nn

from rince._support.step_seeds import generator
from rince.encoders.heads import mlp
from rince.encoders.images import MLP, ConvNet, PatchStem


@pytest.mark.parametrize("norm", ["batch", "group", "none"])
def test_the_convnet_says_how_many_features_it_gives(norm):
    encoder = ConvNet(channels=1, width=8, depth=2, norm=norm)
    assert encoder(torch.rand(3, 1, 8, 8)).shape == (3, encoder.features) == (3, 32)


def test_group_norm_makes_an_image_independent_of_its_batch():
    encoder, images = ConvNet(width=8, norm="group"), torch.rand(6, 3, 16, 16)
    torch.testing.assert_close(encoder(images)[:2], encoder(images[:2]))


def test_heads_have_norms_where_the_protocols_have_them():
    head = mlp([2048, 512, 128])
    assert [type(layer) for layer in head] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    assert head[0].bias is None and head[3].bias is not None
    last = mlp([8, 16, 4], last_norm=True)
    assert isinstance(last[-1], nn.BatchNorm1d) and not last[-1].affine and last[-2].bias is None


def test_patch_stem_is_centered_brightness_invariant_and_reproducible():
    images = torch.randint(40, 200, (700, 3, 12, 12), dtype=torch.uint8, generator=generator(0))
    stem, same = (PatchStem(features=16, patches=8, patch=4).fit(images, seed=1) for _ in range(2))
    features = stem(images)
    assert torch.equal(features, same(images))
    assert features.mean(0).abs().max() < 0.2 and 0.8 < features.square().mean() < 1.2
    torch.testing.assert_close(stem(images.float() / 255 + 0.1), stem(images.float() / 255), atol=2e-2, rtol=0)


def test_a_patch_stem_wants_enough_images():
    with pytest.raises(ValueError, match="more images"):
        PatchStem(features=16).fit(torch.zeros(10, 3, 12, 12, dtype=torch.uint8))


def test_an_mlp_may_end_ready_for_a_head():
    assert MLP([6, 5], relu_last=True)(torch.randn(9, 6)).min() >= 0
