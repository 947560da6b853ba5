import pytest
import torch

from rince.encoders.video import R2Plus1D, TimeConvolution


def by_hand(c):
    """Weights and norms of stem and stages of widths c, 2c, 4c, 8c, added up layer by layer."""
    total = 3 * c * 3 * 7 * 7 + 2 * c
    before = c
    for after in (c, 2 * c, 4 * c, 8 * c):
        for source in (before, after):
            total += source * after * 3 * 3 + after * after * 3  # space, time
            total += after * after * 3 * 3 + after * after * 3
            total += 4 * 2 * after
            if source != after:
                total += source * after + 2 * after  # the shortcut and its norm
        before = after
    return total


@pytest.mark.parametrize("width", [8, 64])
def test_the_parameters_are_as_many_as_counted_by_hand(width):
    assert sum(p.numel() for p in R2Plus1D(width).parameters()) == by_hand(width)


def test_default_network_has_the_documented_parameters_and_features():
    assert by_hand(64) == 15_380_928 and "15,380,928" in str(R2Plus1D.__doc__)
    assert R2Plus1D().features == 512


@pytest.mark.parametrize("frames", [1, 8, 32])
def test_short_and_long_clips_become_as_many_features_as_it_says(frames):
    encoder = R2Plus1D(width=4, blocks=(1, 1, 1, 1)).eval()
    assert encoder(torch.rand(2, 3, frames, 32, 32)).shape == (2, encoder.features) == (2, 32)


def test_time_and_space_are_halved_by_the_stages_as_the_protocol_says():
    encoder = R2Plus1D(width=4).eval()
    x = encoder.stem(torch.rand(1, 3, 8, 112, 112))
    shapes = [tuple(x.shape[1:])]
    for stage in encoder.stages:
        x = stage(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes == [(4, 8, 28, 28), (4, 8, 28, 28), (8, 4, 14, 14), (16, 2, 7, 7), (32, 1, 4, 4)]


def test_frames_in_another_order_are_another_clip():
    torch.manual_seed(0)
    encoder, clip = R2Plus1D(width=4).eval(), torch.rand(1, 3, 8, 32, 32)
    assert not torch.allclose(encoder(clip), encoder(clip.flip(2)), atol=1e-4)


def test_weight_gradient_over_two_frames_is_right_in_bfloat16():
    """oneDNN leaves a part of it uninitialized."""
    torch.manual_seed(0)
    convolution = TimeConvolution(32, 32, (3, 1, 1), padding=(1, 0, 0), bias=False)
    for _ in range(10):
        clips, gradients = torch.randn(4, 32, 2, 4, 4), []
        for enabled in (False, True):
            convolution.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
                result = convolution(clips)
            result.float().square().mean().backward()
            gradients.append(convolution.weight.grad.clone())
        torch.testing.assert_close(gradients[1], gradients[0], rtol=0.05, atol=1e-3)


def test_norm_after_the_sum_leaves_the_shortcut_a_bare_convolution():
    torch.manual_seed(0)
    network = R2Plus1D(width=4, norm="after_sum")
    block = network.stages[1][0]
    assert isinstance(block.shortcut, torch.nn.Conv3d) and isinstance(block.branch[-1], torch.nn.Conv3d)
    clips = torch.randn(2, 3, 8, 32, 32)
    x = network.stages[0](network.stem(clips))
    summed = block.branch(x) + block.shortcut(x)
    mean, variance = summed.mean((0, 2, 3, 4), keepdim=True), summed.var((0, 2, 3, 4), keepdim=True, correction=0)
    torch.testing.assert_close(block(x), ((summed - mean) / (variance + 1e-5).sqrt()).relu(), rtol=1e-4, atol=1e-4)
    # One batch norm less in each of the three shortcuts.
    count = [sum(p.numel() for p in model.parameters()) for model in (R2Plus1D(width=4), network)]
    assert count[0] - count[1] == 2 * (8 + 16 + 32)
