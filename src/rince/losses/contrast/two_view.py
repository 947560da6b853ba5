"""SimCLR's contrast."""

import torch
from torch import Tensor

from rince.losses.contrast.agreement import processes
from rince.losses.contrast.contrast import Contrast, bound_of, count_different, scaled_pair
from rince.losses.contrast.gather import gather
from rince.losses.contrast.kernel import negative_scores, negative_scores_self
from rince.losses.contrast.scores import Scores, Second


class TwoView(Contrast):
    """SimCLR's contrast: two views of N items are 2N anchors, each against the 2N - 2 views of the other items.

    Anchors come in the order of the views: first all of ``a``, then all of ``b``.

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> rince.InfoNCE(contrast=rince.TwoView(), reduction="none")(z1, z2).shape
        torch.Size([16])
    """

    def forward(
        self,
        a: Tensor,
        b: Tensor | None,
        temperature: float | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
        second: Second | None = None,
    ) -> Scores:
        a, b, ids = scaled_pair(a, b, temperature, ids, second)
        n, bound = a.shape[0], bound_of(temperature)
        positive = (a * b).sum(1).repeat(2)
        anchors = torch.cat([a, b])
        (a, b), all_ids, _, start = gather([a, b], ids)
        everyone = torch.arange(a.shape[0], device=a.device) if all_ids is None else all_ids
        keys, everyone = everyone[start : start + n].repeat(2), everyone.repeat(2)
        if processes() == 1:
            negatives = negative_scores_self(anchors, keys, second, bound)
        else:
            views = torch.cat([a, b])
            if second is not None and second.kind == "bag":  # an anchor is told from its partners by its place
                place = torch.arange(len(views), device=a.device) % a.shape[0] - start
                order = torch.argsort(((place < 0) | (place >= n)).to(torch.int8), stable=True)
                views, everyone = views[order], everyone[order]
            negatives = negative_scores(anchors, views, keys, everyone, second, diagonal=True, bound=bound)
        count = positive.new_full((2 * n,), 2 * a.shape[0] - 2) if ids is None else count_different(keys, everyone)
        return Scores(positive, negatives.lse, count.to(positive.dtype), negatives.second)
