"""Features of a data set from a method in evaluation mode, and votes of several clips per video."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from rince._support.progress import track
from rince.errors import UsageError
from rince.views.views import ImageBatch

Space = Literal["encoder", "projection"]


@torch.no_grad()
def labeled_features(method: Any, batches: Iterable[Any], space: Space = "encoder") -> tuple[Tensor, Tensor]:
    """Features and labels of all labeled items of a loader.

    Args:
        method: A training method such as ``rince.methods.SimCLR``.
        batches: Batches with labels, such as ``data.labeled_batches("test")``.
        space: ``"encoder"`` for the features of the encoder, ``"projection"`` for the output of the projection head.

    Returns:
        Features (n, width) and labels (n,).

    Example:
        >>> from rince.methods import SimCLR
        >>> data = rince.data.DigitImages(batch_size=256)
        >>> data.setup()
        >>> views = rince.views.SimCLRViews(size=8, mean=[0.3], std=[0.4])
        >>> method = SimCLR(rince.encoders.ConvNet(1, width=4), rince.RINCE(), views, torch.optim.Adam)
        >>> features, labels = rince.evaluate.labeled_features(method, data.labeled_batches("test"))
        >>> features.shape[1], len(features) == len(labels)
        (16, True)
    """
    was_training = method.training
    method.eval()
    parts = []
    for batch in track(batches, "features"):
        on_device = type(batch)(*(x.to(method.device) if isinstance(x, Tensor) else x for x in batch))
        features = method.embed(on_device)
        features = method.project(features) if space == "projection" else features
        mask = batch.labels.cpu() >= 0
        parts.append((features.float().cpu()[mask], batch.labels.cpu()[mask]))
    method.train(was_training)
    if not parts:
        raise UsageError("the split to evaluate is empty")
    features, labels = zip(*parts, strict=True)
    return torch.cat(features), torch.cat(labels)


def inputs_of(batches: Iterable[ImageBatch]) -> tuple[Tensor, Tensor]:
    """Flattened pixels and labels of all labeled images."""
    images, labels = zip(*((batch.images.flatten(1).float(), batch.labels) for batch in batches), strict=True)
    mask = torch.cat(labels) >= 0
    return torch.cat(images)[mask], torch.cat(labels)[mask]


class Votes(NamedTuple):
    """Mean scores of items, sorted by id.

    Attributes:
        ids: (items,) ids.
        scores: (items, classes) mean scores.
        labels: (items,) classes.

    Example:
        >>> scores = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
        >>> rince.evaluate.vote(torch.tensor([0, 0, 1]), scores, torch.tensor([0, 0, 1])).accuracy
        1.0
    """

    ids: Tensor
    scores: Tensor
    labels: Tensor

    @property
    def accuracy(self) -> float:
        """Accuracy in [0, 1]."""
        return float((self.scores.argmax(1) == self.labels).double().mean())


def vote(ids: Tensor, scores: Tensor, labels: Tensor) -> Votes:
    """Average the scores of several views per item, such as ten clips of a video.

    Args:
        ids: (views,) ids of the items.
        scores: (views, classes) scores.
        labels: (views,) classes of the items.

    Returns:
        Mean scores and labels of the items.

    Raises:
        UsageError: If the views are empty, or an item has two labels.

    Example:
        >>> scores = torch.tensor([[0.9, 0.1], [0.4, 0.6]])
        >>> rince.evaluate.vote(torch.tensor([7, 7]), scores, torch.tensor([0, 0])).scores
        tensor([[0.6500, 0.3500]], dtype=torch.float64)
    """
    if not len(ids):
        raise UsageError("the test split is empty")
    items, index, count = ids.unique(return_inverse=True, return_counts=True)
    total = scores.new_zeros(len(items), scores.shape[1]).double().index_add_(0, index, scores.double())
    label = labels.new_zeros(len(items)).index_copy_(0, index, labels)
    clash = label[index] != labels
    if clash.any():
        raise UsageError(f"item {int(ids[clash][0])} has two labels")
    return Votes(items, total / count[:, None], label)
