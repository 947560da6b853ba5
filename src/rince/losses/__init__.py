"""Contrastive losses: a contrast (who is whose positive and negative) and an objective (the loss of an anchor)."""

from rince.losses import objectives, schedules
from rince.losses.bags import MILNCE
from rince.losses.cached import cached
from rince.losses.contrast import Contrast, CrossView, Objective, Queue, Scores, Second, Supervised, TwoView
from rince.losses.false_negatives import Debiased, HardNegatives
from rince.losses.info_nce import DCL, InfoNCE
from rince.losses.loss import ContrastiveLoss, Reduction
from rince.losses.rince import RINCE, DensityRatio, Scale
from rince.losses.robust import GCE, SymmetricCrossEntropy
from rince.losses.sigmoid import Sigmoid

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
    "HardNegatives",
    "InfoNCE",
    "Objective",
    "Queue",
    "Reduction",
    "Scale",
    "Scores",
    "Second",
    "Sigmoid",
    "Supervised",
    "SymmetricCrossEntropy",
    "TwoView",
    "cached",
    "objectives",
    "schedules",
]
