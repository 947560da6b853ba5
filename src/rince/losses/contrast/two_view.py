"""SimCLR's contrast."""

import torch
from torch import Tensor

from rince.losses.contrast.contrast import (
    Contrast,
    Scores,
    check_pair,
    check_per_pair,
    count_strangers,
    over_temperature,
)
from rince.losses.contrast.gather import gather, processes
from rince.losses.contrast.kernel import negative_scores, negative_scores_self


class TwoView(Contrast):
    """Two views of N items are 2N anchors, each against the 2N - 2 views of the other items.

    Anchors come in the order of the views: first all of ``a``, then all of ``b``.
    """

    def forward(
        self,
        a: Tensor,
        b: Tensor | None,
        temperature: float | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> Scores:
        b = check_pair(a, b)
        ids = check_per_pair("ids", ids, a)
        n = a.shape[0]
        a, b = over_temperature(temperature, a, b)
        positive = (a * b).sum(1).repeat(2)
        anchors = torch.cat([a, b])
        (a, b), known, start = gather([a, b], [] if ids is None else [ids])
        everyone = known[0] if known else torch.arange(a.shape[0], device=a.device)
        keys, everyone = everyone[start : start + n].repeat(2), everyone.repeat(2)
        if processes() == 1:
            negatives = negative_scores_self(anchors, keys)
        else:
            negatives = negative_scores(anchors, torch.cat([a, b]), keys, everyone)
        count = positive.new_full((2 * n,), 2 * a.shape[0] - 2) if ids is None else count_strangers(keys, everyone)
        return Scores(positive, negatives, count.to(positive.dtype))
