"""Reductions over negatives in plain operations, with the whole matrix of scores in memory."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from rince.losses.contrast.tiles import powers


def logsumexp(scores: Tensor, dim: int) -> Tensor:
    """torch's, but with a zero gradient instead of NaN where nothing is left to sum."""
    top = scores.detach().amax(dim, keepdim=True).clamp_min(torch.finfo(scores.dtype).min)
    total = (scores - top).exp().sum(dim)
    nothing = total == 0
    return (total.masked_fill(nothing, 1).log() + top.squeeze(dim)).masked_fill(nothing, -torch.inf)


def dense_reductions(
    rows: Tensor,
    columns: Tensor | None,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    shift: Tensor | None,
    kind: str,
    beta: float,
    diagonal: bool,
    both: bool,
) -> tuple[Tensor, Tensor]:
    """The same in plain operations, with the whole matrix: can be differentiated as often as one likes."""
    scores = rows @ (rows if columns is None else columns).T
    others = row_keys if columns is None else column_keys
    negatives, bag = scores, torch.full_like(scores, -torch.inf)
    if row_keys is not None and others is not None:
        same = row_keys[:, None] == others
        negatives = scores.masked_fill(same, -torch.inf)
        if diagonal or columns is None:
            same = same & ~torch.eye(*scores.shape, dtype=torch.bool, device=rows.device)
        bag = scores.masked_fill(~same, -torch.inf)

    def over(dim: int) -> Tensor:
        found = [logsumexp(negatives, dim)]
        if kind == "tilted":
            found += [logsumexp(negatives * power, dim) for power in (beta, 1 + beta)]
        elif kind == "softplus":
            assert shift is not None
            found.append(softplus(negatives + shift, threshold=40).sum(dim))
        elif kind == "bag":
            found.append(logsumexp(bag, dim))
        return torch.stack(found)

    return over(1), over(0) if both and columns is not None else rows.new_empty(len(powers(kind, beta)), 0)
