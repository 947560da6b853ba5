"""Training methods: LightningModules that put views, encoder and loss together."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.methods.cross_modal import CrossModal
    from rince.methods.finetune import FineTune, LinearEvaluation
    from rince.methods.graphcl import GraphCL
    from rince.methods.method import Method
    from rince.methods.moco import MoCo, MoCoV3
    from rince.methods.simclr import SimCLR, SupCon

__all__ = [
    "CrossModal",
    "FineTune",
    "GraphCL",
    "LinearEvaluation",
    "Method",
    "MoCo",
    "MoCoV3",
    "SimCLR",
    "SupCon",
]

__getattr__, __dir__, HOMES = lazy_names(__name__, __file__)
