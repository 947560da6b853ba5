"""How far each pair is to be trusted: from a table, or from models that never saw it; clean data, and new partners."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.trust.cross_fitted import judge_embeddings, pair_trust
    from rince.trust.labels import judge_labels
    from rince.trust.repair import Partners, best_partners
    from rince.trust.table import read_trust
    from rince.trust.weights import trust_of

HOMES = {  # public name: the module that defines it
    "pair_trust": "cross_fitted",
    "judge_embeddings": "cross_fitted",
    "judge_labels": "labels",
    "best_partners": "repair",
    "Partners": "repair",
    "read_trust": "table",
    "trust_of": "weights",
}

__all__ = [
    "Partners",
    "best_partners",
    "judge_embeddings",
    "judge_labels",
    "pair_trust",
    "read_trust",
    "trust_of",
]

__getattr__, __dir__ = lazy_names(__name__, HOMES)
