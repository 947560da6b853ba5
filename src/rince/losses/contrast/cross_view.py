"""The contrast of two modalities, and of MoCo v3 and GraphCL."""

import torch
from torch import Tensor

from rince.losses.contrast.agreement import processes
from rince.losses.contrast.contrast import Contrast, bound_of, count_different, scaled_pair
from rince.losses.contrast.gather import gather
from rince.losses.contrast.kernel import joined, negative_scores, negative_scores_both
from rince.losses.contrast.scores import Scores, Second


class CrossView(Contrast):
    """The contrast of two modalities: anchors in ``a``, candidates in ``b``, N - 1 negatives each.

    An anchor is never compared with items of its own side.

    Args:
        symmetric: Add the way back, so that there are 2N anchors as in CLIP, first those in ``a``, then those in ``b``.
            Without it there is one direction only, as in MoCo v3 and GraphCL.

    Example:
        >>> images, texts = torch.randn(2, 8, 16)
        >>> rince.InfoNCE(contrast=rince.CrossView(), reduction="none")(images, texts).shape
        torch.Size([16])
    """

    _settings = ("symmetric",)

    def __init__(self, symmetric: bool = True):
        super().__init__()
        self.symmetric = symmetric

    def forward(
        self,
        a: Tensor,
        b: Tensor | None,
        temperature: float | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
        second: Second | None = None,
    ) -> Scores:
        own_a, own_b, ids = scaled_pair(a, b, temperature, ids, second)
        n, bound = a.shape[0], bound_of(temperature)
        positive = (own_a * own_b).sum(1)
        sides = [own_b, own_a] if self.symmetric else [own_b]
        everything, all_ids, _, start = gather(sides, ids)
        total = everything[0].shape[0]
        everyone = torch.arange(total, device=a.device) if all_ids is None else all_ids
        keys = everyone[start : start + n]
        if not self.symmetric:
            negatives = negative_scores(own_a, everything[0], keys, everyone, second, bound=bound)
        elif processes() == 1:
            negatives = joined(*negative_scores_both(own_a, own_b, keys, keys, second, bound))
        else:
            directions = zip((own_a, own_b), everything, strict=True)
            negatives = joined(
                *(negative_scores(own, others, keys, everyone, second, bound=bound) for own, others in directions)
            )
        count = positive.new_full((n,), total - 1) if ids is None else count_different(keys, everyone)
        number = count.to(positive.dtype).repeat(len(sides))
        return Scores(positive.repeat(len(sides)), negatives.lse, number, negatives.second)

    def extra_repr(self) -> str:
        return f"symmetric={self.symmetric}"
