import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

from rince._support import image_operations as op
from rince._support.step_seeds import Draws, generator


def planes(images):
    return (images.float() / 255).transpose(0, 1).contiguous()


@pytest.fixture(scope="module")
def photographs():
    """Real photographs, cut into 32 x 32 pieces."""
    from sklearn.datasets import load_sample_images

    pieces = [
        image[top : top + 32, left : left + 32]
        for image in load_sample_images().images
        for top in range(0, 384, 64)
        for left in range(0, 576, 96)
    ]
    return torch.from_numpy(np.stack(pieces)).permute(0, 3, 1, 2).contiguous()


def pillow(image):
    return Image.fromarray(image.permute(1, 2, 0).numpy())


def as_tensor(image):
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() / 255


def draws(n, seed=0):
    return Draws(generator(seed), n)


@pytest.mark.parametrize("target", [8, 16, 32, 48])
def test_crop_and_resize_agree_with_pillow(photographs, target):
    top, left, height, width = op.random_boxes(draws(len(photographs)), 32, 32, (0.08, 1.0), (3 / 4, 4 / 3))
    rows, columns = op.resize_weights(top, height, 32, target), op.resize_weights(left, width, 32, target)
    ours = op.resize(photographs, rows, columns).transpose(0, 1)
    for i, image in enumerate(photographs):
        box = (int(left[i]), int(top[i]), int(left[i] + width[i]), int(top[i] + height[i]))
        theirs = as_tensor(pillow(image).crop(box).resize((target, target), Image.Resampling.BILINEAR))
        assert (ours[i] - theirs).abs().max() < 1.6 / 255  # Pillow rounds to bytes after each of two passes


def test_a_flip_mirrors_exactly(photographs):
    n = len(photographs)
    zero, full = torch.zeros(n), torch.full((n,), 32.0)
    rows = op.resize_weights(zero, full, 32, 32)
    flipped = op.resize(photographs, rows, op.resize_weights(zero, full, 32, 32, torch.ones(n, dtype=torch.bool)))
    torch.testing.assert_close(flipped, planes(photographs).flip(3))


def plain_box(random, height, width, scale, ratio):
    for _ in range(10):
        area = height * width * random.uniform(*scale)
        aspect = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return random.integers(0, height - h + 1), random.integers(0, width - w + 1), h, w
    return 0, 0, height, width


def test_boxes_are_distributed_as_those_drawn_one_by_one():
    n, random = 20000, np.random.default_rng(0)
    ours = torch.stack(op.random_boxes(draws(n), 32, 32, (0.08, 1.0), (3 / 4, 4 / 3)), 1).numpy()
    theirs = np.array([plain_box(random, 32, 32, (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(n)])
    for column in range(4):  # two-sample Kolmogorov-Smirnov, far beyond the 0.1 % level
        counts = [np.cumsum(np.bincount(x[:, column].astype(int), minlength=33)) / n for x in (ours, theirs)]
        assert np.abs(counts[0] - counts[1]).max() < 1.95 * math.sqrt(2 / n)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.01, 1), st.integers(0, 10**6))
def test_boxes_lie_inside_the_image(height, width, least, seed):
    top, left, h, w = op.random_boxes(draws(16, seed), height, width, (least, 1.0), (3 / 4, 4 / 3))
    assert (top >= 0).all() and (left >= 0).all() and (h >= 1).all() and (w >= 1).all()
    assert (top + h <= height).all() and (left + w <= width).all()


@pytest.mark.parametrize(
    ("operation", "enhancer"), [(0, ImageEnhance.Brightness), (1, ImageEnhance.Contrast), (2, ImageEnhance.Color)]
)
def test_brightness_contrast_and_saturation_agree_with_pillow(photographs, operation, enhancer):
    factor = torch.linspace(0.6, 1.4, len(photographs))
    ours = op.blend(planes(photographs), factor, torch.full((len(photographs),), operation)).transpose(0, 1)
    for i, image in enumerate(photographs):
        theirs = as_tensor(enhancer(pillow(image)).enhance(float(factor[i])))
        assert (ours[i] - theirs).abs().max() < 2.1 / 255


def test_hue_agrees_with_the_standard_library(photographs):
    import colorsys

    shift = torch.linspace(-0.5, 0.5, len(photographs))
    ours = op.hue(planes(photographs), shift).transpose(0, 1)
    for i in range(0, len(photographs), 7):
        pixels = photographs[i].flatten(1)[:, ::37].T.double() / 255
        for place, (r, g, b) in enumerate(pixels.tolist()):
            h, s, v = colorsys.rgb_to_hsv(r, g, b)
            expected = torch.tensor(colorsys.hsv_to_rgb((h + float(shift[i])) % 1.0, s, v))
            torch.testing.assert_close(ours[i].flatten(1)[:, 37 * place], expected, atol=2e-5, rtol=0)


def test_jitter_applies_each_operation_once_in_the_given_order(photographs):
    images = photographs[:24]
    factors, shift = torch.rand(24, 3) * 0.8 + 0.6, torch.rand(24) * 0.2 - 0.1
    order = torch.rand(24, 4).argsort(1)
    ours = op.jitter(planes(images), factors, shift, order)
    for i in range(24):
        x = planes(images[i : i + 1])
        for operation in order[i].tolist():
            if operation == 3:
                x = op.hue(x, shift[i : i + 1])
            else:
                x = op.blend(x, factors[i, operation : operation + 1], torch.tensor([operation]))
        torch.testing.assert_close(ours[:, i : i + 1], x)


@pytest.mark.parametrize("taps", [3, 5, 23])
def test_blur_agrees_with_a_plain_convolution(photographs, taps):
    from scipy.ndimage import correlate1d

    sigma = torch.linspace(0.1, 2.0, 12)
    ours = op.blur(planes(photographs[:12]), sigma, taps)
    offsets = np.arange(taps) - taps // 2
    for i in range(12):
        kernel = np.exp(-0.5 * (offsets / float(sigma[i])) ** 2)
        expected = photographs[i].double().numpy() / 255
        for axis in (1, 2):
            expected = correlate1d(expected, kernel / kernel.sum(), axis, mode="mirror")
        np.testing.assert_allclose(ours[:, i].numpy(), expected, atol=2e-6)


def test_gray_agrees_with_pillow(photographs):
    ours = op.gray(planes(photographs))
    theirs = torch.stack([torch.from_numpy(np.asarray(pillow(x).convert("L")).copy()) for x in photographs])
    assert (ours - theirs.float() / 255).abs().max() < 1 / 255


def test_solarize_agrees_with_pillow(photographs):
    from PIL import ImageOps

    theirs = torch.stack([as_tensor(ImageOps.solarize(pillow(x), 128)) for x in photographs])
    torch.testing.assert_close(op.solarize(planes(photographs)).transpose(0, 1), theirs)
