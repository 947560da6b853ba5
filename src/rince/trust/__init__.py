"""Weights of pairs: estimated before training, from models that never saw the pair, or from a table; new partners."""

import warnings
from typing import TYPE_CHECKING, Any

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.trust.clean import clean_table
    from rince.trust.cross_fitted import judge_embeddings, judge_labels, weights_from_embeddings
    from rince.trust.repair import Partners, best_partners
    from rince.trust.stream import PairedFiles
    from rince.trust.streamed_pairs import StreamedPairs
    from rince.trust.table import KeepSample, read_weights, weights_by_id
    from rince.trust.weights import WarmUpWeights, WeightEstimate, estimate_weights, weights_of

RENAMED = {"pair_trust": "weights_from_embeddings", "trust_of": "weights_of", "read_trust": "read_weights"}

__all__ = [
    "KeepSample",
    "PairedFiles",
    "Partners",
    "StreamedPairs",
    "WarmUpWeights",
    "WeightEstimate",
    "best_partners",
    "clean_table",
    "estimate_weights",
    "judge_embeddings",
    "judge_labels",
    "read_weights",
    "weights_by_id",
    "weights_from_embeddings",
    "weights_of",
]

_find, __dir__, HOMES = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in RENAMED:
        warnings.warn(f"rince.trust.{name} is now rince.trust.{RENAMED[name]}", DeprecationWarning, stacklevel=2)
        return _find(RENAMED[name])
    return _find(name)
