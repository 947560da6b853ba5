"""Contrastive losses: a contrast (how positives and negatives are formed) and an objective (the loss of an anchor)."""

import warnings
from typing import TYPE_CHECKING, Any

from rince.losses import objectives, schedules
from rince.losses.cached import cached
from rince.losses.contrasts import Contrast, CrossView, TwoView
from rince.losses.gce import GCE, SymmetricCrossEntropy
from rince.losses.info_nce import DCL, MILNCE, Debiased, HardNegatives, InfoNCE
from rince.losses.loss import ContrastiveLoss, Reduction, named_loss
from rince.losses.objectives import ExtraReduction, Objective, Scores
from rince.losses.queue import Queue
from rince.losses.rince import RINCE, DensityRatio, Scale
from rince.losses.sigmoid import Sigmoid
from rince.losses.supervised import Supervised
from rince.losses.temperature import LearnedTemperature

__all__ = [
    "DCL",
    "GCE",
    "MILNCE",
    "RINCE",
    "Contrast",
    "ContrastiveLoss",
    "CrossView",
    "Debiased",
    "DensityRatio",
    "ExtraReduction",
    "HardNegatives",
    "InfoNCE",
    "LearnedTemperature",
    "Objective",
    "Queue",
    "Reduction",
    "Scale",
    "Scores",
    "Sigmoid",
    "Supervised",
    "SymmetricCrossEntropy",
    "TwoView",
    "cached",
    "named_loss",
    "objectives",
    "schedules",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "Second":
            warnings.warn(
                "Second is now ExtraReduction, the old name will be removed in 0.4", DeprecationWarning, stacklevel=2
            )
            return ExtraReduction
        raise AttributeError(f"module 'rince.losses' has no attribute {name!r}")
