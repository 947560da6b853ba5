"""scikit-learn's digits: 1,797 images of 8 x 8 grey pixels that ship with a dependency."""

import torch
from torch import Tensor

from rince._support.optional_imports import require
from rince._support.step_seeds import generator
from rince.data.images.in_memory import Images


class DigitImages(Images):
    """Scikit-learn's 8 x 8 digits; a fixed shuffle sets tests aside: 1,397 images for training, 400 for tests.

    Example:
        >>> data = rince.data.DigitImages(batch_size=128)
        >>> images, labels = data.split("train")
        >>> images.shape, images.dtype
        (torch.Size([1397, 1, 8, 8]), torch.uint8)
    """

    class_names = tuple("0123456789")

    def read(self) -> dict[str, tuple[Tensor, Tensor]]:
        digits = require("sklearn.datasets", "train").load_digits()
        images = (torch.from_numpy(digits.images) * (255 / 16)).round().to(torch.uint8)[:, None]
        labels = torch.from_numpy(digits.target).long()
        order = torch.randperm(len(images), generator=generator(1797))
        train, test = order[400:], order[:400]
        return {"train": (images[train], labels[train]), "test": (images[test], labels[test])}
