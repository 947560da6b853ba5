"""What flows from the data to the views."""

from typing import NamedTuple

from torch import Tensor


class ImageBatch(NamedTuple):
    """Images (n, channels, height, width) as bytes, and what is known of them.

    ``partners`` are the images of the second view: another image of the same label, a stranger, or ``None`` for the
    image itself. ``cropped`` says that both have been cropped at random already. ``weights`` say how far each pair is
    to be trusted, from 0 to 1 (for several positives per anchor: how far each label is); ``None`` for all alike.
    """

    images: Tensor
    labels: Tensor
    ids: Tensor
    partners: Tensor | None = None
    cropped: bool = False
    weights: Tensor | None = None


class PairBatch(NamedTuple):
    """Two kinds of things that belong together, row by row: clips and sounds, images and texts.

    ``labels`` are -1 where nobody knows them. ``cropped`` says that the pictures in ``a`` have been cropped at random
    already. ``weights`` say how far each pair is to be trusted, from 0 to 1; ``None`` for all alike.
    """

    a: Tensor
    b: Tensor
    labels: Tensor
    ids: Tensor
    cropped: bool = False
    weights: Tensor | None = None


class ClipBatch(NamedTuple):
    """Clips (n, frames, height, width, 3) as bytes; several clips of one video have the same number in ``ids``."""

    clips: Tensor
    labels: Tensor
    ids: Tensor
    cropped: bool = False
