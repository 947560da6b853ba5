"""The contrast of MoCo v1 and v2: a queue of keys."""

import numbers
import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

from rince.errors import UsageError
from rince.losses.contrasts import Contrast, bound_of, check_extra, count_different, over_temperature, unit
from rince.losses.inputs import can_look, check_pair, check_per_pair, transformed
from rince.losses.logsumexp import negative_scores
from rince.losses.objectives import ExtraReduction, Objective, Scores
from rince.losses.ranks import agree, gather, processes

NO_ID = torch.iinfo(torch.int64).min


class Queue(Contrast):
    """MoCo's contrast: queries against their keys, with the ``size`` newest keys of earlier batches as negatives.

    Called as ``loss(query, key)``. Keys get no gradient. In training mode each call of the loss pushes the keys of all
    ranks, first in, first out; in evaluation mode, and by ``scores``, nothing is pushed. The queue starts empty and is
    part of the state dict. ``ids`` are stored with their keys: a key with the id of the query is not a negative. A key
    that is not finite is replaced by another key of its batch.

    A call in training mode changes the queue, so it must not run twice: keep the loss out of activation checkpointing
    and of ``torch.func`` transforms, or call it in evaluation mode and ``push`` the keys yourself.

    Args:
        dim: Width of the embeddings.
        size: Number of keys.

    Raises:
        UsageError: If dim or size is not an integer of at least 1.

    Example:
        >>> loss = rince.InfoNCE(contrast=rince.Queue(dim=16, size=4096))
        >>> query, key = torch.randn(2, 8, 16)
        >>> value = loss(query, key)
        >>> int(loss.contrast.pushed)
        8
    """

    _settings = ("dim", "size")
    keys: Tensor
    ids: Tensor
    pushed: Tensor
    _counted: tuple[Tensor, int, int] | None = None  # the buffer ``pushed``, its version, and its value
    _noted_key = False

    def __init__(self, dim: int, size: int):
        super().__init__()
        for name, value in (("dim", dim), ("size", size)):
            if not isinstance(value, numbers.Integral) or value < 1:
                raise UsageError(f"{name} of a queue must be an integer of at least 1, got {value!r}")
        self.dim, self.size = int(dim), int(size)
        self.register_buffer("keys", torch.zeros(size, dim))
        self.register_buffer("ids", torch.full((size,), NO_ID))
        self.register_buffer("pushed", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def reset(self) -> None:
        """Empty the queue."""
        self.keys = torch.zeros_like(self.keys)
        self.ids = torch.full_like(self.ids, NO_ID)
        self._set_count(0)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Queue":
        """As in every module; after ``to_empty``, which leaves buffers uninitialized, the queue is empty."""
        probe, was_meta = torch.arange(1009, 1017), self.pushed.is_meta
        super()._apply(fn, recurse)
        if not self.pushed.is_meta and (was_meta or not torch.equal(fn(probe.clone()).cpu(), probe)):
            self.reset()
        return self

    def forward(
        self,
        a: Tensor,
        b: Tensor | None,
        temperature: float | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
        extra: ExtraReduction | None = None,
    ) -> Scores:
        key, ids = self._check(a, b, ids)
        check_extra(extra, ids)
        query, key = over_temperature(temperature, a, key)
        positive = (query * key).sum(1)
        filled = min(self._count(), self.size)
        candidates = self.keys[:filled].to(query.dtype) * temperature**-0.5
        if ids is None:
            negatives = negative_scores(query, candidates, None, None, extra, bound=bound_of(temperature))
            return Scores(positive, negatives.lse, positive.new_full((a.shape[0],), filled), negatives.extra)
        stored = self.ids[:filled]
        number = count_different(ids, stored).to(positive.dtype)
        negatives = negative_scores(query, candidates, ids, stored, extra, bound=bound_of(temperature))
        bag = negatives.extra
        if extra is not None and extra.kind == "bag" and bag is not None:
            bag = positive + softplus(bag - positive, threshold=40)  # its own key is not in the queue yet
        return Scores(positive, negatives.lse, number, bag)

    def losses(
        self,
        objective: Objective,
        a: Tensor,
        b: Tensor | None,
        temperature: float | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        if self.training:
            # Private: the only way to detect that checkpointing runs a forward pass inside a backward pass.
            if not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1:
                raise UsageError(
                    "a loss with a Queue must not be inside activation checkpointing, which would push its keys twice: "
                    "checkpoint the encoder only"
                )
            if transformed():
                raise UsageError(
                    "a loss with a Queue in training mode changes its state, which transforms of torch.func cannot "
                    "do: call loss.eval(), and push(key) after the step"
                )
        sizes = None
        if processes() > 1:  # before anything is computed, also if nothing will be pushed
            key, ids = self._check(a, b, ids)
            sizes = agree([key], ids, mode="train" if self.training else "eval")
        result = super().losses(objective, a, b, temperature, labels, ids)
        if self.training:
            assert b is not None
            self._push(b, ids, sizes)
        return result

    def push(self, key: Tensor, ids: Tensor | None = None) -> None:
        """Replace the oldest keys by those of all ranks, in the order of the ranks.

        Args:
            key: (keys, dim) embeddings of this rank.
            ids: One integer per key, if queries have ids too.
        """
        self._push(key, ids)

    @torch.no_grad()
    def _push(self, key: Tensor, ids: Tensor | None, sizes: list[int] | None = None) -> None:
        key, ids = self._check(key, key, ids)
        (key,), all_ids, *_ = gather([unit(key)], ids, sizes=sizes)
        if key.shape[0] == 0:
            return
        key, finite = key[-self.size :], key[-self.size :].isfinite().all(1)
        self._note_key(finite)
        pushed = self._count() + key.shape[0]
        positions = torch.arange(pushed - key.shape[0], pushed, device=key.device) % self.size
        new = positions.new_full(positions.shape, NO_ID) if all_ids is None else all_ids[-self.size :]
        # Without reading values, which would synchronize a GPU: the first finite key, else the old one.
        index = torch.where(finite, torch.arange(len(key), device=key.device), finite.to(torch.int8).argmax())
        any_finite, key, new = finite.any(), key[index].to(self.keys.dtype), new[index]
        # Out of place: a graph may still need the old keys for its backward pass.
        self.keys = self.keys.index_copy(0, positions, torch.where(any_finite, key, self.keys[positions]))
        self.ids = self.ids.index_copy(0, positions, torch.where(any_finite, new, self.ids[positions]))
        self._set_count(pushed)

    def _note_key(self, finite: Tensor) -> None:
        if not self._noted_key and can_look(finite) and not finite.all():
            self._noted_key = True
            warnings.warn(
                f"{int((~finite).sum())} of {len(finite)} keys are not finite and stay out of the queue: "
                "look for the first NaN or infinity in the encoder of the keys"
            )

    def _count(self) -> int:
        """Number of keys pushed so far; read from its buffer only if that has changed."""
        if torch.compiler.is_compiling() or self.pushed.is_inference():
            return int(self.pushed)
        if self._counted is None or self._counted[0] is not self.pushed or self._counted[1] != self.pushed._version:
            self._counted = self.pushed, self.pushed._version, int(self.pushed)
        return self._counted[2]

    def _set_count(self, pushed: int) -> None:
        self.pushed = torch.full_like(self.pushed, pushed)
        if not torch.compiler.is_compiling() and not self.pushed.is_inference():
            self._counted = self.pushed, self.pushed._version, pushed

    def _check(self, query: Tensor, key: Tensor | None, ids: Tensor | None) -> tuple[Tensor, Tensor | None]:
        key = check_pair(query, key).detach()
        if query.shape[1] != self.dim:
            raise UsageError(f"this queue holds keys of width {self.dim}, got embeddings of width {query.shape[1]}")
        ids = check_per_pair("ids", ids, query)
        if ids is not None and ids.numel() and can_look(ids) and int(ids.min()) == NO_ID:
            raise UsageError(f"ids must be above {NO_ID}, which stands for a key without id")
        return key, ids

    def extra_repr(self) -> str:
        return f"dim={self.dim}, size={self.size}"
