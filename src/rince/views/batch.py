"""What flows from the data to the views."""

from typing import NamedTuple

from torch import Tensor


class ImageBatch(NamedTuple):
    """Images (n, channels, height, width) as bytes, and what is known of them.

    ``partners`` are the images of the second view: another image of the same label, a stranger, or ``None`` for the
    image itself. ``cropped`` says that both have been cropped at random already.
    """

    images: Tensor
    labels: Tensor
    ids: Tensor
    partners: Tensor | None = None
    cropped: bool = False
