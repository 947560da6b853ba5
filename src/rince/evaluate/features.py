"""Features of a whole data set from a method in evaluation mode."""

from typing import Any, Literal

import torch
from torch import Tensor

from rince.progress import track
from rince.views.batch import ImageBatch

Space = Literal["encoder", "projection"]


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
