"""Retrieval: is something of the right kind among the nearest?"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from rince.errors import UsageError


def recall_at(
    query: Tensor, query_keys: Tensor, gallery: Tensor, gallery_keys: Tensor, ks: tuple[int, ...] = (1, 10)
) -> dict[int, float]:
    """The share of queries with an item of equal key (class, or partner) among the ``k`` nearest by cosine.

    Args:
        query: (n, width) embeddings.
        query_keys: (n,) the class or the id of the partner of each query.
        gallery: (m, width) embeddings that are searched.
        gallery_keys: (m,) the class or the id of each item of the gallery.
        ks: The ranks to report.

    Returns:
        Rank -> share from 0 to 1.

    Raises:
        UsageError: If a rank is below 1, or there are no queries or no gallery.

    Example:
        >>> partner = torch.arange(3)
        >>> rince.evaluate.recall_at(torch.eye(3), partner, torch.eye(3), partner, ks=(1,))
        {1: 1.0}
    """
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
