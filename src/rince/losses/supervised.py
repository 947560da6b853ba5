"""The contrast of supervised contrastive learning: several positives per anchor."""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint

from rince.errors import UsageError
from rince.losses.blocks import DENSE
from rince.losses.contrasts import Contrast, count_different, over_temperature
from rince.losses.inputs import check_pair, check_per_pair
from rince.losses.logsumexp import logsumexp
from rince.losses.objectives import ExtraReduction, Objective, Scores, refuse_extra
from rince.losses.ranks import gather


class Supervised(Contrast):
    """Views with the anchor's label are its positives; each is compared with everything but the anchor and itself.

    Called as ``loss(a, b, labels=y)`` with two views, or ``loss(a, labels=y)`` with one. The loss of an anchor is the
    mean over its positives of the objective: for InfoNCE that is SupCon with the sum outside the logarithm. Anchors
    without a positive are ignored. Anchors come in the order of the views. Views of the anchor's id stay out of
    the denominator unless they are the positive in question.

    The objective sees every pair of anchor and positive, so it is evaluated block by block and the blocks are computed
    again in the backward pass: memory grows with the batch, not with its square.

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> labels = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
        >>> rince.InfoNCE(contrast=rince.Supervised())(z1, z2, labels=labels).shape
        torch.Size([])
    """

    def losses(
        self,
        objective: Objective,
        a: Tensor,
        b: Tensor | None,
        temperature: float | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        if objective.one_positive:
            raise UsageError(
                "this objective would count the anchor's other positives in Supervised as negatives: "
                "use TwoView and give the labels as ids, loss(z1, z2, ids=labels)"
            )
        refuse_extra(objective.extra, "Supervised")
        batch = _Batch(a, b, temperature, labels, ids)

        def mean_over_positives(anchors: Tensor, views: Tensor, rows: slice) -> Tensor:
            scores, anchor = batch.pairs(anchors, views, rows)
            values, nothing = objective(scores), anchors.new_zeros(rows.stop - rows.start)
            if anchor.device.type == "cpu":  # where counting takes a third of the time of adding up
                number = torch.bincount(anchor, minlength=len(nothing))
            else:  # a GPU would have to wait for bincount
                number = nothing.index_add(0, anchor, torch.ones_like(values))
            return nothing.index_add(0, anchor, values) / number.clamp_min(1)

        blocks = batch.blocks()
        if not blocks:  # a rank without anchors still takes part in the backward pass of the others
            loss = batch.anchors.sum(1) + 0 * batch.views.sum()
        elif len(blocks) == 1:
            loss = mean_over_positives(batch.anchors, batch.views, blocks[0])
        else:
            again = partial(checkpoint, mean_over_positives, batch.anchors, batch.views, use_reentrant=False)
            loss = torch.cat([again(rows) for rows in blocks])
        return loss, batch.has_positive()

    def forward(
        self,
        a: Tensor,
        b: Tensor | None,
        temperature: float | Tensor,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
        extra: ExtraReduction | None = None,
    ) -> Scores:
        """The scores of every pair of anchor and positive, in the order of the anchors: as many as there are pairs."""
        refuse_extra(extra, "Supervised")
        batch = _Batch(a, b, temperature, labels, ids)
        parts = [batch.pairs(batch.anchors, batch.views, rows)[0] for rows in batch.blocks()]
        if not parts:
            return Scores(*(batch.anchors.new_empty(0) for _ in range(3)))
        return Scores(*(torch.cat(column) for column in zip(*(part[:3] for part in parts), strict=True)))


class _Batch:
    """Anchors of this rank (rows) and views of all ranks (columns), with their labels, ids and places."""

    def __init__(
        self, a: Tensor, b: Tensor | None, temperature: float | Tensor, labels: Tensor | None, ids: Tensor | None
    ):
        if labels is None:
            raise UsageError("Supervised needs labels: call loss(z1, z2, labels=y)")
        own = [a] if b is None else [a, b]
        check_pair(a, own[-1])
        n, views = a.shape[0], len(own)
        own = over_temperature(temperature, *own)
        self.anchors = torch.cat(own)
        labels, ids = check_per_pair("labels", labels, a), check_per_pair("ids", ids, a)
        gathered, ids, labels, _, start = gather(own, ids, labels)
        assert labels is not None
        self.views = torch.cat(gathered)
        own_rows = slice(start, start + n)
        self.labels, self.own_labels = labels.repeat(views), labels[own_rows].repeat(views)
        self.place = torch.arange(len(self.views), device=a.device)
        self.own_place = self.place.view(views, -1)[:, own_rows].flatten()
        self.ids = self.place if ids is None else ids.repeat(views)
        self.own_ids = self.own_place if ids is None else ids[own_rows].repeat(views)

    def blocks(self) -> list[slice]:
        height = max(1, 4 * DENSE // max(1, len(self.views)))
        n = len(self.anchors)
        return [slice(i, min(i + height, n)) for i in range(0, n, height)]

    def has_positive(self) -> Tensor:
        """Mask of the anchors with another view of their label."""
        return count_different(self.own_labels, self.labels) < len(self.labels) - 1

    def pairs(self, anchors: Tensor, views: Tensor, rows: slice) -> tuple[Scores, Tensor]:
        """The scores of every pair of anchor and positive in a block of anchors, and the anchor it belongs to."""
        scores = anchors[rows] @ views.T
        positives = (self.own_labels[rows, None] == self.labels) & (self.own_place[rows, None] != self.place)
        counts = self.own_ids[rows, None] != self.ids
        anchor, view = positives.nonzero(as_tuple=True)
        positive, counted = scores[anchor, view], counts[anchor, view]

        # log(total - exp(score)) loses everything where the score is most of the total. That can only be the highest
        # one, so its rest is summed directly; for all others the rest is at least half of the total.
        others = scores.masked_fill(~counts, -torch.inf)
        top = others.detach().argmax(1, keepdim=True)
        highest, rest_of_top = others.gather(1, top)[:, 0], logsumexp(others.scatter(1, top, -torch.inf), 1)
        nothing = torch.isneginf(highest.detach())
        highest = highest.masked_fill(nothing, 0)
        total = (highest + softplus(rest_of_top - highest))[anchor]
        is_top = counted & (view == top[anchor, 0])
        share = (positive - total).masked_fill(is_top | ~counted, -torch.inf).exp()
        negatives = torch.where(is_top, rest_of_top[anchor], total + torch.log1p(-share))
        number = (counts.sum(1)[anchor] - counted.to(torch.int64)).to(positive.dtype)
        return Scores(positive, negatives.masked_fill(nothing[anchor], -torch.inf), number), anchor
