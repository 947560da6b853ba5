"""Compare losses on noisy and clean pairs."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.compare.losses import LossName, parse_loss
    from rince.compare.report import Summary, summarize
    from rince.compare.tasks import Task

__all__ = [
    "LossName",
    "Summary",
    "Task",
    "parse_loss",
    "summarize",
]

__getattr__, __dir__, HOMES = lazy_names(__name__, __file__)
