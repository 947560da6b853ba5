"""Contrastive losses: a contrast (who is whose positive and negative) and an objective (the loss of an anchor)."""

from rince.losses import objectives, schedules
from rince.losses.cached import cached
from rince.losses.contrast import Contrast, CrossView, Queue, Scores, Supervised, TwoView
from rince.losses.loss import RINCE, ContrastiveLoss, DensityRatio, InfoNCE, Reduction, Scale

__all__ = [
    "RINCE",
    "Contrast",
    "ContrastiveLoss",
    "CrossView",
    "DensityRatio",
    "InfoNCE",
    "Queue",
    "Reduction",
    "Scale",
    "Scores",
    "Supervised",
    "TwoView",
    "cached",
    "objectives",
    "schedules",
]
