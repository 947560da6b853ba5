"""Features of images in memory, from a method in evaluation mode."""

from typing import Any

import torch
from torch import Tensor

from rince._support.progress import track
from rince.evaluate.features import Space
from rince.views.views import ImageBatch


@torch.no_grad()
def features_of(method: Any, images: Tensor, space: Space = "encoder", batch_size: int = 500) -> Tensor:
    """(n, width): features of the encoder, or embeddings behind the projection head."""
    was_training = method.training
    method.eval()
    outputs = []
    for part in track(images.split(batch_size), "features", total=-(-len(images) // batch_size)):
        zeros = torch.zeros(len(part), dtype=torch.long, device=method.device)
        features = method.embed(ImageBatch(part.to(method.device), zeros, zeros))
        outputs.append((method.project(features) if space == "projection" else features).float().cpu())
    method.train(was_training)
    return torch.cat(outputs)


@torch.no_grad()
def both_spaces(method: Any, images: Tensor) -> dict[Space, Tensor]:
    """``features_of`` in both spaces, with one pass through the encoder."""
    features = features_of(method, images)
    was_training = method.training
    method.eval()
    projected = torch.cat([method.project(part.to(method.device)).float().cpu() for part in features.split(500)])
    method.train(was_training)
    return {"encoder": features, "projection": projected}
