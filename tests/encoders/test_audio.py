import pytest
import torch
from torch import nn

from rince.encoders.video import AudioConvNet


def test_nine_convolutions_with_the_widths_and_strides_of_the_protocol():
    encoder = AudioConvNet()
    layers = [m for m in encoder.modules() if isinstance(m, nn.Conv2d)]
    assert [m.out_channels for m in layers] == [64, 64, 64, 128, 128, 256, 256, 512, 512]
    assert [m.stride[0] for m in layers] == [2, 2, 1, 2, 1, 2, 1, 1, 1]
    assert [m.kernel_size[0] for m in layers] == [7] + [3] * 8
    norms = [m for m in encoder.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == sum(isinstance(m, nn.ReLU) for m in encoder.modules()) == 9
    # 49 c + 2 c, then 18 c^2 + 4 c, then 13.5 c^2 + 4 c for every wider block
    by_hand = 51 * 64 + 18 * 64**2 + 4 * 64 + sum(27 * c * c // 2 + 4 * c for c in (128, 256, 512))
    assert sum(p.numel() for p in encoder.parameters()) == by_hand == 4_725_696


@pytest.mark.parametrize("shape", [(200, 257), (37, 65), (5, 9)])
def test_spectrograms_of_any_size_become_features(shape):
    encoder = AudioConvNet(width=4).eval()
    assert encoder(torch.rand(3, 1, *shape)).shape == (3, encoder.features) == (3, 32)


def test_group_norm_makes_a_sound_independent_of_its_batch():
    encoder, sounds = AudioConvNet(width=8, norm="group"), torch.rand(6, 1, 30, 33)
    torch.testing.assert_close(encoder(sounds)[:2], encoder(sounds[:2]))
