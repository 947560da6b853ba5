"""What flows from the data to the views."""

from typing import NamedTuple

from torch import Tensor


class ImageBatch(NamedTuple):
    """Images as bytes, with labels, indices, partners and weights.

    Attributes:
        images: (n, channels, height, width) bytes.
        labels: (n,) classes, -1 if unknown.
        ids: (n,) indices of the images.
        partners: The images of the second view: another image of the same label, a mismatched one, or ``None`` for the
            image itself.
        cropped: Whether images and partners have been cropped at random already.
        weights: The weight (trust) of each pair, from 0 to 1 (for several positives per anchor: of each label);
            ``None`` if all have the same.

    Example:
        >>> images = torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8)
        >>> batch = rince.views.ImageBatch(images, labels=torch.tensor([0, 1, -1, 0]), ids=torch.arange(4))
    """

    images: Tensor
    labels: Tensor
    ids: Tensor
    partners: Tensor | None = None
    cropped: bool = False
    weights: Tensor | None = None


class PairBatch(NamedTuple):
    """Pairs, one per row: clips and sounds, images and texts.

    Attributes:
        a: The items of the first side.
        b: Their partners.
        labels: (n,) classes, -1 if unknown.
        ids: (n,) indices of the pairs.
        cropped: Whether the pictures in ``a`` have been cropped at random already.
        weights: The weight (trust) of each pair, from 0 to 1; ``None`` if all pairs have the same.

    Example:
        >>> batch = rince.views.PairBatch(torch.randn(4, 40), torch.randn(4, 24), torch.full((4,), -1), torch.arange(4))
    """

    a: Tensor
    b: Tensor
    labels: Tensor
    ids: Tensor
    cropped: bool = False
    weights: Tensor | None = None


class ClipBatch(NamedTuple):
    """Clips as bytes; several clips of one video have the same number in ``ids``.

    Attributes:
        clips: (n, frames, height, width, 3) bytes.
        labels: (n,) classes, -1 if unknown.
        ids: (n,) indices of the videos.
        cropped: Whether the clips have been cropped at random already.

    Example:
        >>> clips = torch.randint(256, (2, 8, 16, 16, 3), dtype=torch.uint8)
        >>> batch = rince.views.ClipBatch(clips, labels=torch.tensor([0, 1]), ids=torch.arange(2))
    """

    clips: Tensor
    labels: Tensor
    ids: Tensor
    cropped: bool = False
