"""Contrastive learning on pairs that may be wrong: robust losses, an audit, and weights for pairs."""

import importlib
from typing import TYPE_CHECKING, Any

from rince._moved import install as _keep_old_paths

if TYPE_CHECKING:
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
    from rince.losses import objectives as objectives
    from rince.losses import schedules as schedules
    from rince.trust import estimate_weights

__version__ = "0.3.0"

# Names are resolved on first use, so that `rince --help` does not pay for importing torch.
_HOME = {
    "RINCE": "rince.losses",
    "InfoNCE": "rince.losses",
    "GCE": "rince.losses",
    "SymmetricCrossEntropy": "rince.losses",
    "DCL": "rince.losses",
    "Debiased": "rince.losses",
    "HardNegatives": "rince.losses",
    "MILNCE": "rince.losses",
    "Sigmoid": "rince.losses",
    "ContrastiveLoss": "rince.losses",
    "DensityRatio": "rince.losses",
    "LearnedTemperature": "rince.losses",
    "TwoView": "rince.losses",
    "CrossView": "rince.losses",
    "Queue": "rince.losses",
    "Supervised": "rince.losses",
    "cached": "rince.losses",
    "load_encoder": "rince.encoders.files",
    "estimate_weights": "rince.trust",
    "audit_pairs": "rince.audit",
}
_PACKAGES = (
    *(
        "audit",
        "compare",
        "contrast",
        "data",
        "encoders",
        "errors",
        "evaluate",
        "losses",
        "methods",
        "noise",
        "objectives",
    ),
    *("integrations", "optimizers", "pairs", "report", "schedules", "train", "trust", "views"),
)

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


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _PACKAGES:
        return importlib.import_module(f"rince.{name}")
    raise AttributeError(f"module 'rince' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_PACKAGES])
