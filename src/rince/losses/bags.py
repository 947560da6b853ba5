"""MIL-NCE: several candidates for an anchor's positive, of which at least one is right."""

from torch import Tensor

from rince.losses import objectives
from rince.losses.contrast import Contrast, Objective, Second
from rince.losses.loss import ContrastiveLoss, Reduction


class MILNCE(ContrastiveLoss):
    """-log(bag / (bag + neg)): one of several possible positives has to be right, which one is left open.

    MIL-NCE of Miech et al. (2020); bag is the sum of exp(score) over all candidates with the anchor's id. Take it where
    a positive is known up to its neighbourhood only: a clip and the sentences said around it. Rows that belong together
    share an id, ``loss(clips, sentences, ids=ids)``: one row per pair of clip and sentence. The best of a bag gets most
    of the pull, so the others may be wrong. Without bags (ids that are all different) it is ``InfoNCE``. Each direction
    of ``CrossView`` has a denominator of its own here; the published code shares one. Has no meaning on ``Supervised``:
    give the labels as ids.

    Args:
        temperature: what cosines are divided by: a positive number, or a parameter to learn it.
        contrast: who is whose positive and negative; ``TwoView()`` if nothing is said.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one loss per anchor.

    Raises:
        UsageError: when called without ids.

    Example:
        >>> clips, sentences = torch.randn(2, 8, 16)
        >>> ids = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
        >>> rince.MILNCE(0.1, rince.CrossView())(clips, sentences, ids=ids).shape
        torch.Size([])
    """

    def __init__(
        self, temperature: float | Tensor = 0.1, contrast: Contrast | None = None, reduction: Reduction = "mean"
    ):
        function = Objective(objectives.mil_nce, Second("bag"), one_positive=True)
        super().__init__(function, temperature, contrast, reduction)
