"""Retrieval: is something of the right kind among the nearest?"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from rince.errors import UsageError


def recall_at(
    query: Tensor, query_keys: Tensor, gallery: Tensor, gallery_keys: Tensor, ks: tuple[int, ...] = (1, 10)
) -> dict[int, float]:
    """The share of queries with an item of equal key (class, or partner) among the ``k`` nearest by cosine."""
    if not ks or min(ks) < 1:
        raise UsageError(f"ranks must be at least 1, got {ks}")
    if not len(query) or not len(gallery):
        raise UsageError(f"retrieval needs queries and a gallery, got {len(query)} and {len(gallery)} items")
    query, gallery = normalize(query.float(), dim=1), normalize(gallery.float(), dim=1)
    depth = min(max(ks), len(gallery))
    found = []
    for part, keys in zip(query.split(1024), query_keys.split(1024), strict=True):
        nearest = (part @ gallery.T).topk(depth, dim=1).indices
        found.append(gallery_keys[nearest] == keys[:, None])
    hits = torch.cat(found)
    return {k: float(hits[:, :k].any(1).double().mean()) for k in ks}
