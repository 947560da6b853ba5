"""Label noise: flips between similar classes, or to any other class."""

import hashlib
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rince._support.step_seeds import generator
from rince.errors import UsageError

# CIFAR-10: truck -> automobile, bird -> airplane, deer -> horse, cat <-> dog.
CIFAR10_PAIRS = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}


class NoisyLabels(NamedTuple):
    """Noisy labels.

    Attributes:
        labels: (n,) noisy labels.
        hit: (n,) mask of the changed labels.
    """

    labels: Tensor
    hit: Tensor

    def digest(self) -> str:
        """Hash of labels and mask."""
        content = self.labels.to(torch.int64).numpy().tobytes() + self.hit.to(torch.uint8).numpy().tobytes()
        return hashlib.sha256(content).hexdigest()

    def record(self) -> dict[str, Any]:
        """Arrays to save with a run."""
        return {"labels": self.labels.numpy(), "hit": self.hit.numpy(), "sha256": np.array(self.digest())}


class LabelFlips:
    """Flip labels of the classes in ``pairs`` with probability ``rate``.

    The paper's eta is twice this rate, see :class:`PaperFlips`. Labels below 0 (unknown) are not changed.

    Example:
        >>> rince.noise.LabelFlips(1.0, pairs={0: 1})(torch.tensor([0, 1, 2])).labels
        tensor([1, 1, 2])
    """

    def __init__(self, rate: float, seed: int = 0, pairs: dict[int, int] | None = None):
        """
        Args:
            rate: Probability of a flip for items of these classes.
            seed: Random seed.
            pairs: Class to flipped class. Default: the usual flips of CIFAR-10.

        Raises:
            UsageError: If the rate is not in [0, 1].
        """
        if not 0 <= rate <= 1:
            raise UsageError(f"rate of label flips must be in [0, 1], got {rate}")
        self.rate, self.seed = rate, seed
        self.pairs = dict(CIFAR10_PAIRS if pairs is None else pairs)

    def __call__(self, labels: Tensor) -> NoisyLabels:
        _check_labels(labels)
        largest = int(labels.max()) if len(labels) else 0
        num_classes = max(0, largest, *self.pairs, *self.pairs.values()) + 1
        target = torch.arange(num_classes)
        for old, new in self.pairs.items():
            target[old] = new
        flip = torch.rand(len(labels), generator=generator(self.seed, 3), dtype=torch.float64) < self.rate
        noisy = torch.where(flip & (labels >= 0), target[labels.clamp_min(0)], labels)
        return NoisyLabels(noisy, noisy != labels)


class PaperFlips(LabelFlips):
    """The paper's label noise: labels are flipped with probability ``eta / 2``.

    At eta = 1 half of the labels of the exchanged classes are wrong.

    Example:
        >>> rince.noise.PaperFlips(0.8).rate
        0.4
    """

    def __init__(self, eta: float, seed: int = 0, pairs: dict[int, int] | None = None):
        """
        Args:
            eta: The paper's noise rate, twice the probability of a flip.
            seed: Random seed.
            pairs: Class to flipped class. Default: the usual flips of CIFAR-10.

        Raises:
            UsageError: If eta is not in [0, 1].
        """
        if not 0 <= eta <= 1:
            raise UsageError(f"eta must be in [0, 1], got {eta}")
        super().__init__(eta / 2, seed, pairs)
        self.eta = eta


class UniformFlips(LabelFlips):
    """Symmetric label noise: a label becomes a uniformly random other class with probability ``rate``.

    Labels below 0 (unknown) are not changed.

    Example:
        >>> noisy = rince.noise.UniformFlips(1.0, classes=2)(torch.tensor([0, 1, 1, -1]))
        >>> noisy.labels, noisy.hit
        (tensor([ 1,  0,  0, -1]), tensor([ True,  True,  True, False]))
    """

    def __init__(self, rate: float, seed: int = 0, classes: int | None = None):
        """
        Args:
            rate: Probability of a wrong label.
            seed: Random seed.
            classes: Number of classes. Default: the largest label plus 1.

        Raises:
            UsageError: If the rate is not in [0, 1].
        """
        super().__init__(rate, seed, {})
        self.classes = classes

    def __call__(self, labels: Tensor) -> NoisyLabels:
        _check_labels(labels)
        largest = int(labels.max()) + 1 if len(labels) else 0
        classes = max(largest, 0) if self.classes is None else self.classes
        if largest > classes:
            raise UsageError(f"labels must be below {classes}, the number of classes, got {largest - 1}")
        if classes < 2:
            return NoisyLabels(labels.clone(), torch.zeros(len(labels), dtype=torch.bool))
        random = generator(self.seed, 3)
        flip = torch.rand(len(labels), generator=random, dtype=torch.float64) < self.rate
        other = (labels + torch.randint(1, classes, (len(labels),), generator=random)) % classes
        noisy = torch.where(flip & (labels >= 0), other, labels)
        return NoisyLabels(noisy, noisy != labels)


def _check_labels(labels: Tensor) -> None:
    if labels.is_floating_point() or labels.dim() != 1:
        raise UsageError(f"labels must be integers of shape (n,), got {labels.dtype} of shape {tuple(labels.shape)}")
