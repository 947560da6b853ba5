"""Contrasts: from embeddings to the positive score and the log-sum-exp of the negatives of every anchor."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from rince.errors import UsageError
from rince.losses.blocks import PRECISIONS, Precision
from rince.losses.inputs import can_look, check_pair, check_per_pair
from rince.losses.logsumexp import joined, negative_scores, negative_scores_both, negative_scores_self, score_dtype
from rince.losses.objectives import ExtraReduction, Objective, Scores
from rince.losses.ranks import gather, processes
from rince.losses.ring import ring_negative_scores


class Contrast(nn.Module):
    """Base class of contrasts: how positives and negatives are formed.

    A subclass has a ``forward(a, b, temperature, labels, ids)`` that returns ``Scores``. To support objectives with an
    ``ExtraReduction``, it takes ``extra`` as its last argument. ``rince.losses.logsumexp`` has the reductions over
    negatives, ``rince.losses.ranks`` the embeddings of other ranks.

    Example:
        Negatives are the items of the other side. The whole matrix is stored, and nothing is gathered:

        >>> class Plain(rince.losses.Contrast):
        ...     def forward(self, a, b, temperature, labels=None, ids=None):
        ...         scores = nn.functional.normalize(a) @ nn.functional.normalize(b).T / temperature
        ...         others = scores.masked_fill(torch.eye(len(a), dtype=torch.bool), -torch.inf)
        ...         return rince.losses.Scores(scores.diag(), others.logsumexp(1), torch.full((len(a),), len(a) - 1.0))
        >>> a, b = torch.randn(2, 8, 4)
        >>> own = rince.InfoNCE(contrast=Plain())(a, b)
        >>> bool(torch.isclose(own, rince.InfoNCE(contrast=rince.CrossView(symmetric=False))(a, b)))
        True
    """

    _settings: ClassVar[tuple[str, ...]] = ()  # must be the same on all ranks

    def losses(
        self,
        objective: Objective,
        a: Tensor,
        b: Tensor | None,
        temperature: float | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Loss of every anchor of this rank, and a mask of the anchors that count (``None``: all)."""
        if objective.extra is None:
            return objective(self(a, b, temperature, labels, ids)), None
        return objective(self(a, b, temperature, labels, ids, objective.extra)), None


def check_extra(extra: ExtraReduction | None, ids: Tensor | None) -> None:
    """Raise an error for bags of positives without ids."""
    if extra is not None and extra.kind == "bag" and ids is None:
        raise UsageError("this objective takes bags of positives from ids, got none: call loss(z1, z2, ids=ids)")


def unit(z: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Rows of length one, in float32 or float64; a row of zeros stays zero and gets no gradient."""
    z = z.to(dtype or score_dtype(z))
    length = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    if is_moderate(length):
        return z / length
    # Divide by the largest element first: squares of very large or small values do not fit into float32.
    largest = z.detach().abs().amax(1, keepdim=True)
    largest = largest.masked_fill(largest < torch.finfo(z.dtype).tiny, torch.inf)
    return nn.functional.normalize(z / largest, dim=1)


def is_moderate(length: Tensor) -> bool:
    """Whether squares of rows of this length fit into float32, if that can be read without a host synchronization."""
    if not can_look(length) or not length.numel():
        return False
    low, high = length.detach().aminmax()
    return low.item() > 1e-12 and high.item() < 1e15


def over_temperature(temperature: float | Tensor, *embeddings: Tensor) -> list[Tensor]:
    """Unit rows over the square root of the temperature, so that their products are scores."""
    dtype = score_dtype(*embeddings)
    return [unit(z, dtype) * temperature**-0.5 for z in embeddings]


def scaled_pair(
    a: Tensor, b: Tensor | None, temperature: float | Tensor, ids: Tensor | None, extra: ExtraReduction | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Checked embeddings of both sides as unit rows over the square root of the temperature, and checked ids."""
    b = check_pair(a, b)
    ids = check_per_pair("ids", ids, a)
    check_extra(extra, ids)
    a, b = over_temperature(temperature, a, b)
    return a, b, ids


def bound_of(temperature: float | Tensor) -> float | None:
    """Upper bound of all scores; ``None`` for a learned temperature, whose value is on the device."""
    return None if isinstance(temperature, Tensor) else 1 / temperature


def count_different(keys: Tensor, others: Tensor) -> Tensor:
    """Number of ``others`` that differ from each key."""
    ordered = others.sort().values
    same = torch.searchsorted(ordered, keys, right=True) - torch.searchsorted(ordered, keys)
    return others.shape[0] - same


class TwoView(Contrast):
    """SimCLR's contrast: two views of N items are 2N anchors, each against the 2N - 2 views of the other items.

    Anchors come in the order of the views: first all of ``a``, then all of ``b``.

    Args:
        ring: On several ranks, pass candidates from rank to rank instead of gathering all of them on every rank.
            Default: False.
        precision: Precision of the products of embeddings (see ``CrossView``). Default: ``"highest"``.

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> rince.InfoNCE(contrast=rince.TwoView(), reduction="none")(z1, z2).shape
        torch.Size([16])
    """

    _settings = ("precision", "ring")

    def __init__(self, *, ring: bool = False, precision: Precision = "highest"):
        super().__init__()
        self.ring, self.precision = ring, _check_precision(precision)

    def forward(
        self,
        a: Tensor,
        b: Tensor | None,
        temperature: float | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
        extra: ExtraReduction | None = None,
    ) -> Scores:
        a, b, ids = scaled_pair(a, b, temperature, ids, extra)
        n, bound = a.shape[0], bound_of(temperature)
        positive = (a * b).sum(1).repeat(2)
        anchors = torch.cat([a, b])
        (a, b), all_ids, _, sizes, start = gather([a, b], ids, ring=self.ring)
        pairs = torch.arange(sum(sizes), device=a.device) if all_ids is None else all_ids
        keys, column_keys = pairs[start : start + n].repeat(2), pairs.repeat(2)
        if processes() == 1:
            negatives = negative_scores_self(anchors, keys, extra, bound, self.precision)
        elif self.ring:
            arguments = anchors, anchors, keys, pairs, sizes, 2
            negatives = ring_negative_scores(*arguments, extra, True, bound, self.precision)
        else:
            views = torch.cat([a, b])
            if extra is not None and extra.kind == "bag":  # anchors first: column i must be row i
                position = torch.arange(len(views), device=a.device) % a.shape[0] - start
                order = torch.argsort(((position < 0) | (position >= n)).to(torch.int8), stable=True)
                views, column_keys = views[order], column_keys[order]
            negatives = negative_scores(anchors, views, keys, column_keys, extra, True, bound, self.precision)
        count = positive.new_full((2 * n,), 2 * len(pairs) - 2) if ids is None else count_different(keys, column_keys)
        return Scores(positive, negatives.lse, count.to(positive.dtype), negatives.extra)

    def extra_repr(self) -> str:
        return _options(self)


class CrossView(Contrast):
    """Contrast of two modalities (CLIP): anchors in ``a``, candidates in ``b``, N - 1 negatives each.

    An anchor is never compared with items of its own side.

    Args:
        symmetric: Whether items of ``b`` are anchors too: 2N anchors as in CLIP, first those in ``a``, then those in
            ``b``. ``False``: one direction only, as in MoCo v3 and GraphCL. Default: True.
        ring: On several ranks, pass candidates from rank to rank instead of gathering all of them on every rank. Values
            and gradients are the same; memory is that of two batches. Default: False.
        precision: Precision of the products of embeddings: ``"highest"``, ``"tf32"`` or ``"bfloat16"``, added up in
            float32. The lower the temperature, the larger the error. Default: ``"highest"``.

    Raises:
        UsageError: If precision is unknown.

    Example:
        >>> images, texts = torch.randn(2, 8, 16)
        >>> rince.InfoNCE(contrast=rince.CrossView(), reduction="none")(images, texts).shape
        torch.Size([16])
    """

    _settings = ("precision", "ring", "symmetric")

    def __init__(self, symmetric: bool = True, *, ring: bool = False, precision: Precision = "highest"):
        super().__init__()
        self.symmetric, self.ring, self.precision = symmetric, ring, _check_precision(precision)

    def forward(
        self,
        a: Tensor,
        b: Tensor | None,
        temperature: float | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
        extra: ExtraReduction | None = None,
    ) -> Scores:
        own_a, own_b, ids = scaled_pair(a, b, temperature, ids, extra)
        n, bound = a.shape[0], bound_of(temperature)
        positive = (own_a * own_b).sum(1)
        sides = [own_b, own_a] if self.symmetric else [own_b]
        gathered, all_ids, _, sizes, start = gather(sides, ids, ring=self.ring)
        total = sum(sizes)
        column_keys = torch.arange(total, device=a.device) if all_ids is None else all_ids
        keys = column_keys[start : start + n]
        directions = list(zip((own_a, own_b), gathered, strict=False))
        if self.symmetric and processes() == 1:
            parts = [*negative_scores_both(own_a, own_b, keys, keys, extra, bound, self.precision)]
        elif self.ring and processes() > 1:
            ring = keys, column_keys, sizes, 1, extra, False, bound, self.precision
            parts = [ring_negative_scores(own, candidates, *ring) for own, candidates in directions]
        else:
            others = keys, column_keys, extra, False, bound, self.precision
            parts = [negative_scores(own, candidates, *others) for own, candidates in directions]
        negatives = joined(*parts)
        count = positive.new_full((n,), total - 1) if ids is None else count_different(keys, column_keys)
        number = count.to(positive.dtype).repeat(len(sides))
        return Scores(positive.repeat(len(sides)), negatives.lse, number, negatives.extra)

    def extra_repr(self) -> str:
        return ", ".join(filter(None, (f"symmetric={self.symmetric}", _options(self))))


def _check_precision(precision: Precision) -> Precision:
    if precision not in PRECISIONS:
        raise UsageError(f"precision must be one of {', '.join(map(repr, PRECISIONS))}, got {precision!r}")
    return precision


def _options(contrast: TwoView | CrossView) -> str:
    """Options that differ from their defaults."""
    ring = "ring=True" if contrast.ring else ""
    precision = f"precision={contrast.precision!r}" if contrast.precision != "highest" else ""
    return ", ".join(filter(None, (ring, precision)))
