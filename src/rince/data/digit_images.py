"""scikit-learn's digits: 1,797 images of 8 x 8 grey pixels that ship with a dependency."""

import torch
from torch import Tensor

from rince.data.images import Images
from rince.extras import require
from rince.noise.labels import LabelFlips
from rince.seeds import generator


class DigitImages(Images):
    """The first test images are set aside by a fixed shuffle: 1,397 for training, 400 for tests."""

    class_names = tuple("0123456789")

    def __init__(self, batch_size: int = 256, noise: LabelFlips | None = None, limit: int | None = None):
        super().__init__(batch_size, noise, limit)

    def read(self) -> dict[str, tuple[Tensor, Tensor]]:
        digits = require("sklearn.datasets", "train").load_digits()
        images = (torch.from_numpy(digits.images) * (255 / 16)).round().to(torch.uint8)[:, None]
        labels = torch.from_numpy(digits.target).long()
        order = torch.randperm(len(images), generator=generator(1797))
        train, test = order[400:], order[:400]
        return {"train": (images[train], labels[train]), "test": (images[test], labels[test])}
