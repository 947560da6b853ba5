"""The options of ``--trust``, without importing what carries them out."""

from dataclasses import dataclass
from typing import Literal


@dataclass
class TrustSettings:
    """Weights of the training pairs.

    Args:
        source: A table with one row per pair, such as audit/audit.csv or table.parquet:column; "auto" to estimate
            weights, from the inputs or a short warm-up of the model; "copies" to estimate them by copies of the model.
        features: With "auto": .npz file with the arrays a and b, features of both sides of every training pair, to
            estimate weights from. Default: the inputs themselves.
        folds: With "copies": number of copies, each of which scores the pairs that only the others learn from. Default:
            2, or 3 in runs of 20 epochs and more on fewer than 2,000 pairs.
        epochs: With "copies": epochs of each copy. Default: all copies together take as many steps as the run.
        loss: With "copies": "gce", the default, trains the copies with GCE at the temperature of the run if the run has
            InfoNCE or RINCE; "same" with the loss of the run.
    """

    source: str | None = None
    features: str | None = None
    folds: int | None = None
    epochs: int | None = None
    loss: Literal["gce", "same"] | None = None
