"""Which loss serves best on which data, and what it costs where no pair is wrong."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.compare.losses import LossName, parse_loss
    from rince.compare.summary import Summary, summarise
    from rince.compare.tasks import Task, find_task

HOMES = {  # public name: the module that defines it
    "LossName": "losses",
    "parse_loss": "losses",
    "Task": "tasks",
    "find_task": "tasks",
    "Summary": "summary",
    "summarise": "summary",
}

__all__ = [
    "LossName",
    "Summary",
    "Task",
    "find_task",
    "parse_loss",
    "summarise",
]

__getattr__, __dir__ = lazy_names(__name__, HOMES)
