"""Contrastive learning that survives bad pairs."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rince.contrast import CrossView, Queue, Supervised, TwoView
    from rince.export import load_encoder
    from rince.losses import RINCE, ContrastiveLoss, DensityRatio, InfoNCE

__version__ = "0.1.0"

# Names are resolved on first use, so that `rince --help` does not pay for importing torch.
_HOME = {
    "RINCE": "rince.losses",
    "InfoNCE": "rince.losses",
    "ContrastiveLoss": "rince.losses",
    "DensityRatio": "rince.losses",
    "TwoView": "rince.contrast",
    "CrossView": "rince.contrast",
    "Queue": "rince.contrast",
    "Supervised": "rince.contrast",
    "load_encoder": "rince.export",
}
_ROOMS = (
    *("audit", "contrast", "data", "encoders", "evaluate", "export", "losses", "methods", "noise", "objectives"),
    *("optimisers", "report", "reproduce", "schedules", "seeds", "train", "views"),
)

__all__ = [  # noqa: RUF022 (in the order a reader meets them)
    "RINCE",
    "InfoNCE",
    "ContrastiveLoss",
    "DensityRatio",
    "TwoView",
    "CrossView",
    "Queue",
    "Supervised",
    "load_encoder",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return importlib.import_module(f"rince.{name}")
    raise AttributeError(f"module 'rince' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_ROOMS])
