"""The contrast of MoCo v1 and v2."""

import numbers

import torch
from torch import Tensor
from torch.nn.functional import softplus

from rince.errors import UsageError
from rince.losses.contrast.contrast import (
    Contrast,
    check_pair,
    check_per_pair,
    check_second,
    count_strangers,
    over_temperature,
    unit,
)
from rince.losses.contrast.gather import gather
from rince.losses.contrast.kernel import negative_scores
from rince.losses.contrast.scores import Objective, Scores, Second

NO_ID = torch.iinfo(torch.int64).min


class Queue(Contrast):
    """Queries against their keys, with the ``size`` newest keys of earlier batches as negatives.

    Called as ``loss(query, key)``. Keys carry no gradient. In training mode each call of the loss pushes the keys of
    all processes, first in, first out; in evaluation mode, and by ``scores``, nothing is pushed. The queue starts empty
    and is part of the state dict. ``ids`` are remembered with their keys: a key of the query's id is no negative.
    """

    keys: Tensor
    ids: Tensor
    pushed: Tensor

    def __init__(self, dim: int, size: int):
        super().__init__()
        for name, value in (("dim", dim), ("size", size)):
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
                raise UsageError(f"{name} of a queue must be a whole number of at least 1, got {value!r}")
        self.dim, self.size = int(dim), int(size)
        self.register_buffer("keys", torch.zeros(size, dim))
        self.register_buffer("ids", torch.full((size,), NO_ID))
        self.register_buffer("pushed", torch.zeros((), dtype=torch.int64))

    def forward(
        self,
        a: Tensor,
        b: Tensor | None,
        temperature: float | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
        second: Second | None = None,
    ) -> Scores:
        key, ids = self._check(a, b, ids)
        check_second(second, ids)
        query, key = over_temperature(temperature, a, key)
        positive = (query * key).sum(1)
        filled = min(int(self.pushed), self.size)
        candidates = self.keys[:filled].to(query.dtype) * temperature**-0.5
        if ids is None:
            negatives = negative_scores(query, candidates, None, None, second)
            return Scores(positive, negatives.lse, positive.new_full((a.shape[0],), filled), negatives.second)
        seen = self.ids[:filled]
        number = count_strangers(ids, seen).to(positive.dtype)
        negatives = negative_scores(query, candidates, ids, seen, second)
        found = negatives.second
        if second is not None and second.kind == "bag" and found is not None:
            found = positive + softplus(found - positive, threshold=40)  # its own key is not in the queue yet
        return Scores(positive, negatives.lse, number, found)

    def losses(
        self,
        objective: Objective,
        a: Tensor,
        b: Tensor | None,
        temperature: float | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        result = super().losses(objective, a, b, temperature, labels, ids)
        if self.training:
            assert b is not None
            self.push(b, ids)
        return result

    @torch.no_grad()
    def push(self, key: Tensor, ids: Tensor | None = None) -> None:
        """Put the keys of all processes into the queue, in the order of their ranks, over the oldest."""
        key, ids = self._check(key, key, ids)
        (key,), known, _ = gather([unit(key)], [] if ids is None else [ids])
        pushed = int(self.pushed) + key.shape[0]
        key = key[-self.size :]
        places = torch.arange(pushed - key.shape[0], pushed, device=key.device) % self.size
        # Out of place, so that a graph that still wants the old keys for its backward pass finds them.
        self.keys = self.keys.index_copy(0, places, key.to(self.keys.dtype))
        new = known[0][-self.size :] if known else places.new_full(places.shape, NO_ID)
        self.ids = self.ids.index_copy(0, places, new)
        self.pushed = torch.full_like(self.pushed, pushed)

    def _check(self, query: Tensor, key: Tensor | None, ids: Tensor | None) -> tuple[Tensor, Tensor | None]:
        key = check_pair(query, key).detach()
        if query.shape[1] != self.dim:
            raise UsageError(f"this queue holds keys of width {self.dim}, got embeddings of width {query.shape[1]}")
        return key, check_per_pair("ids", ids, query)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, size={self.size}"
