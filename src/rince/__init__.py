"""Contrastive learning on pairs that may be wrong: robust losses, an audit, and weights for pairs."""

from typing import TYPE_CHECKING

from rince._moved import install as _keep_old_paths
from rince._support.lazy import lazy_names

if TYPE_CHECKING:  # imported on first use, so that `rince --help` does not pay for importing torch
    from rince import audit as audit
    from rince import compare as compare
    from rince import data as data
    from rince import encoders as encoders
    from rince import errors as errors
    from rince import evaluate as evaluate
    from rince import integrations as integrations
    from rince import losses as losses
    from rince import methods as methods
    from rince import noise as noise
    from rince import optimizers as optimizers
    from rince import pairs as pairs
    from rince import report as report
    from rince import train as train
    from rince import trust as trust
    from rince import views as views
    from rince.audit import audit_pairs
    from rince.encoders.files import load_encoder
    from rince.losses import (
        DCL,
        GCE,
        MILNCE,
        RINCE,
        ContrastiveLoss,
        CrossView,
        Debiased,
        DensityRatio,
        HardNegatives,
        InfoNCE,
        LearnedTemperature,
        Queue,
        Sigmoid,
        Supervised,
        SymmetricCrossEntropy,
        TwoView,
        cached,
    )
    from rince.losses import contrasts as contrast  # noqa: F401
    from rince.losses import objectives as objectives
    from rince.losses import schedules as schedules
    from rince.trust import estimate_weights

__version__ = "0.3.0"

__all__ = [  # noqa: RUF022 (in the order a reader meets them)
    "RINCE",
    "InfoNCE",
    "GCE",
    "SymmetricCrossEntropy",
    "DCL",
    "Debiased",
    "HardNegatives",
    "MILNCE",
    "Sigmoid",
    "ContrastiveLoss",
    "DensityRatio",
    "LearnedTemperature",
    "TwoView",
    "CrossView",
    "Queue",
    "Supervised",
    "cached",
    "load_encoder",
    "estimate_weights",
    "audit_pairs",
]

_keep_old_paths()
__getattr__, __dir__, HOMES = lazy_names(__name__, __file__)
