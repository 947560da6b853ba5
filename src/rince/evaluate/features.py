"""Features of a whole data set from a method in evaluation mode."""

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor

from rince._support.progress import track
from rince.errors import UsageError
from rince.views.batch import ImageBatch

Space = Literal["encoder", "projection"]


@torch.no_grad()
def labelled_features(method: Any, batches: Iterable[Any], space: Space = "encoder") -> tuple[Tensor, Tensor]:
    """Features and labels of all items of a loader; items without a label are left out.

    Args:
        method: A training method such as ``rince.methods.SimCLR``.
        batches: Batches with labels, as ``data.labelled_batches("test")`` gives them.
        space: ``"encoder"`` for the encoder's features, ``"projection"`` for the output of the projection head.

    Returns:
        Features (n, width) and labels (n,).

    Example:
        >>> from rince.methods import SimCLR
        >>> data = rince.data.DigitImages(batch_size=256)
        >>> data.setup()
        >>> views = rince.views.SimCLRViews(size=8, mean=[0.3], std=[0.4])
        >>> method = SimCLR(rince.encoders.ConvNet(1, width=4), rince.RINCE(), views, torch.optim.Adam)
        >>> features, labels = rince.evaluate.labelled_features(method, data.labelled_batches("test"))
        >>> features.shape[1], len(features) == len(labels)
        (16, True)
    """
    was_training = method.training
    method.eval()
    found = []
    for batch in track(batches, "features"):
        on_device = type(batch)(*(x.to(method.device) if isinstance(x, Tensor) else x for x in batch))
        features = method.embed(on_device)
        features = method.project(features) if space == "projection" else features
        known = batch.labels.cpu() >= 0
        found.append((features.float().cpu()[known], batch.labels.cpu()[known]))
    method.train(was_training)
    if not found:
        raise UsageError("there is nothing to evaluate")
    features, labels = zip(*found, strict=True)
    return torch.cat(features), torch.cat(labels)


def inputs_of(batches: Iterable[ImageBatch]) -> tuple[Tensor, Tensor]:
    """The images themselves as rows of numbers, and their labels; images without a label are left out."""
    images, labels = zip(*((batch.images.flatten(1).float(), batch.labels) for batch in batches), strict=True)
    known = torch.cat(labels) >= 0
    return torch.cat(images)[known], torch.cat(labels)[known]


@torch.no_grad()
def features_of(method: Any, images: Tensor, space: Space = "encoder", batch_size: int = 500) -> Tensor:
    """(n, width): features of the encoder, or embeddings behind the projection head."""
    was_training = method.training
    method.eval()
    found = []
    for part in track(images.split(batch_size), "features", total=-(-len(images) // batch_size)):
        zeros = torch.zeros(len(part), dtype=torch.long, device=method.device)
        features = method.embed(ImageBatch(part.to(method.device), zeros, zeros))
        found.append((method.project(features) if space == "projection" else features).float().cpu())
    method.train(was_training)
    return torch.cat(found)


@torch.no_grad()
def both_spaces(method: Any, images: Tensor) -> dict[Space, Tensor]:
    """What ``features_of`` gives in either space, with one pass through the encoder."""
    features = features_of(method, images)
    was_training = method.training
    method.eval()
    projected = torch.cat([method.project(part.to(method.device)).float().cpu() for part in features.split(500)])
    method.train(was_training)
    return {"encoder": features, "projection": projected}
