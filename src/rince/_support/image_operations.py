"""Image operations on batches, with separate random numbers for every image.

Images are planes: (channels, n, height, width) floats in [0, 1]. Each color is contiguous in memory, which makes color
operations several times faster than on (n, channels, height, width).
"""

import math

import torch
from torch import Tensor

from rince._support.step_seeds import Draws
from rince.errors import UsageError

GRAY = (0.299, 0.587, 0.114)


def check_crop(crop: tuple[float, float], ratio: tuple[float, float]) -> None:
    """Reject areas and aspect ratios of random crops that are not ranges."""
    if not 0 < crop[0] <= crop[1] <= 1:
        raise UsageError(f"crop must be a smallest and a largest area in (0, 1], got {tuple(crop)}")
    if not 0 < ratio[0] <= ratio[1]:
        raise UsageError(f"ratio must be a smallest and a largest ratio above 0, got {tuple(ratio)}")


def random_boxes(
    draw: Draws, height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Top, left, height and width (n,) of random crops in whole pixels.

    Area and log aspect ratio are uniform; the first of ten tries that fits is used, or the largest central crop of an
    allowed ratio if none fits.
    """
    tries = draw.uniform(shape=(10, 2))
    area = (scale[0] + (scale[1] - scale[0]) * tries[..., 0]) * height * width
    low, high = math.log(ratio[0]), math.log(ratio[1])
    aspect = torch.exp(low + (high - low) * tries[..., 1])
    w, h = (area * aspect).sqrt().round(), (area / aspect).sqrt().round()
    fits = (w >= 1) & (w <= width) & (h >= 1) & (h <= height)
    first = fits.float().argmax(1, keepdim=True)
    has_fit = fits.any(1)
    ratio_of_image = min(max(width / height, ratio[0]), ratio[1])
    max_w, max_h = min(width, round(height * ratio_of_image)), min(height, round(width / ratio_of_image))
    w = torch.where(has_fit, w.gather(1, first).squeeze(1), float(max_w))
    h = torch.where(has_fit, h.gather(1, first).squeeze(1), float(max_h))
    position = draw.uniform(shape=(2,))
    top = torch.where(has_fit, (position[:, 0] * (height - h + 1)).floor(), (height - h) // 2)
    left = torch.where(has_fit, (position[:, 1] * (width - w + 1)).floor(), (width - w) // 2)
    return top, left, h, w


def resize_weights(start: Tensor, length: Tensor, source: int, target: int, flip: Tensor | None = None) -> Tensor:
    """(n,), (n,) -> (n, target, source): linear interpolation of ``length`` pixels from ``start`` on.

    Shrinking averages over all pixels that fall into one, as Pillow's bilinear filter does.
    """
    scale = (length / target)[:, None]
    center = (torch.arange(target, device=start.device) + 0.5) * scale
    if flip is not None:
        center = torch.where(flip[:, None], length[:, None] - center, center)
    support = scale.clamp_min(1)
    pixel = torch.arange(source, device=start.device) + 0.5 - start[:, None]
    weights = ((center / support)[:, :, None] - (pixel / support)[:, None, :]).abs_()
    weights = weights.neg_().add_(1).clamp_(min=0)
    weights.mul_(((pixel > 0) & (pixel < length[:, None]))[:, None, :])
    return weights.div_(weights.sum(2, keepdim=True))


def resize(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Bytes or floats (n, channels, height, width) to planes (channels, n, size, size) by two matrix products."""
    n, channels, height, width = images.shape
    x = images.permute(0, 2, 1, 3).to(rows.dtype, memory_format=torch.contiguous_format)
    if images.dtype == torch.uint8:
        rows = rows * (1 / 255)
    x = torch.bmm(rows, x.reshape(n, height, channels * width))
    x = torch.bmm(x.view(n, -1, width), columns.transpose(1, 2))
    return x.view(n, rows.shape[1], channels, columns.shape[1]).permute(2, 0, 1, 3).contiguous()


def gray(x: Tensor) -> Tensor:
    """Luma (n, height, width) of color planes; the plane itself for a single channel."""
    if x.shape[0] == 1:
        return x[0]
    return (x[0] * GRAY[0]).add_(x[1], alpha=GRAY[1]).add_(x[2], alpha=GRAY[2])


def jitter(x: Tensor, factors: Tensor, shift: Tensor, order: Tensor) -> Tensor:
    """Brightness, contrast, saturation (factors, (n, 3)) and hue (shift, (n,)), in the order of each image."""
    for turn in range(order.shape[1]):
        operation = order[:, turn]
        is_hue = operation == 3
        indices = is_hue.nonzero().squeeze(1) if x.shape[0] == 3 else is_hue.new_zeros(0, dtype=torch.long)
        hued = hue(x[:, indices], shift[indices]) if len(indices) else None
        factor = factors.gather(1, operation.clamp(max=2)[:, None]).squeeze(1).masked_fill(is_hue, 1)
        blend(x, factor, operation)
        if hued is not None:
            x[:, indices] = hued
    return x


def blend(x: Tensor, factor: Tensor, operation: Tensor) -> Tensor:
    """factor * x + (1 - factor) * background, in place: black (0), the mean gray (1) or the gray image (2)."""
    luma = gray(x)
    towards = 1 - factor
    flat = (towards * (operation == 1) * luma.mean((1, 2)))[:, None, None]
    background = flat + luma * (towards * (operation == 2))[:, None, None]
    return x.mul_(factor[:, None, None]).add_(background).clamp_(0, 1)


def hue(x: Tensor, shift: Tensor) -> Tensor:
    """Color planes (3, n, height, width) with the hue turned by ``shift`` (n,), between -1 and 1 turns."""
    red, green, blue = x
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    scale = 1 / chroma.clamp_min(1e-8)
    # The hue in sixths of a turn, counted from the largest color.
    angle = torch.where(
        value == red,
        (green - blue) * scale,
        torch.where(value == green, (blue - red) * scale + 2, (red - green) * scale + 4),
    )
    angle = (angle + 6 * shift[:, None, None]).remainder_(6)
    planes = []
    for offset in (5, 3, 1):  # each color falls off with the distance of its own hue, on a circle of six sixths
        distance = ((angle + (offset - 5)).abs_() - 3).abs_()
        planes.append(torch.addcmul(value, chroma, (2 - distance).clamp_(0, 1), value=-1))
    return torch.stack(planes)


def blur(x: Tensor, sigma: Tensor, taps: int) -> Tensor:
    """Gaussian blur with ``taps`` weights in each direction, one sigma per image, and reflected borders."""
    weights = torch.exp(-0.5 * (torch.arange(taps // 2 + 1, device=x.device) / sigma[:, None]) ** 2)
    weights = weights / (weights[:, :1] + 2 * weights[:, 1:].sum(1, keepdim=True))
    if taps == 3 and min(x.shape[-2:]) > 1:
        middle, side = weights[:, 0, None, None], weights[:, 1, None, None]
        for dim in (-1, -2):
            x = _blur_three(x, middle, side, dim)
        return x
    rows, columns = (_blur_matrix(weights, size) for size in x.shape[-2:])
    return rows @ x @ columns.transpose(1, 2)


def _blur_three(x: Tensor, middle: Tensor, side: Tensor, dim: int) -> Tensor:
    last = x.shape[dim] - 1
    pairs = torch.empty_like(x)
    torch.add(x.narrow(dim, 0, last - 1), x.narrow(dim, 2, last - 1), out=pairs.narrow(dim, 1, last - 1))
    pairs.select(dim, 0).copy_(x.select(dim, 1)).mul_(2)
    pairs.select(dim, last).copy_(x.select(dim, last - 1)).mul_(2)
    return pairs.mul_(side).addcmul_(x, middle.expand_as(x))


def _blur_matrix(weights: Tensor, size: int) -> Tensor:
    """(n, reach + 1) weights to (n, size, size) matrices with reflected borders."""
    matrix = weights.new_zeros(len(weights), size, size)
    index = torch.arange(size, device=weights.device)
    for offset in range(1 - weights.shape[1], weights.shape[1]):
        source = index + offset
        period = max(2 * size - 2, 1)
        source = source.remainder(period)
        source = torch.where(source >= size, period - source, source)
        matrix[:, index, source] += weights[:, abs(offset), None]
    return matrix


def solarize(x: Tensor, threshold: float = 0.5) -> Tensor:
    """Invert pixels brighter than the threshold."""
    return torch.where(x >= threshold, 1 - x, x)
