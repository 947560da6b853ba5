"""Training methods: LightningModules that put views, encoder and loss together."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.methods.barlow_twins import BarlowTwins
    from rince.methods.byol import BYOL
    from rince.methods.cross_modal import CrossModal
    from rince.methods.finetune import FineTune
    from rince.methods.graphcl import GraphCL
    from rince.methods.linear_evaluation import LinearEvaluation
    from rince.methods.method import Method
    from rince.methods.moco import MoCo
    from rince.methods.moco_v3 import MoCoV3
    from rince.methods.simclr import SimCLR
    from rince.methods.simsiam import SimSiam
    from rince.methods.supcon import SupCon
    from rince.methods.swav import SwAV

HOMES = {  # public name: the module that defines it
    "SimCLR": "simclr",
    "SupCon": "supcon",
    "MoCo": "moco",
    "MoCoV3": "moco_v3",
    "BYOL": "byol",
    "SimSiam": "simsiam",
    "BarlowTwins": "barlow_twins",
    "SwAV": "swav",
    "GraphCL": "graphcl",
    "CrossModal": "cross_modal",
    "FineTune": "finetune",
    "LinearEvaluation": "linear_evaluation",
    "Method": "method",
}

__all__ = [
    "BYOL",
    "BarlowTwins",
    "CrossModal",
    "FineTune",
    "GraphCL",
    "LinearEvaluation",
    "Method",
    "MoCo",
    "MoCoV3",
    "SimCLR",
    "SimSiam",
    "SupCon",
    "SwAV",
]

__getattr__, __dir__ = lazy_names(__name__, HOMES)
