"""The options of ``--trust``, without importing what carries them out."""

from dataclasses import dataclass
from typing import Literal


@dataclass
class TrustSettings:
    """How far each training pair is to be trusted.

    Args:
        source: A table with one row per pair, such as audit/audit.csv or table.parquet:column, or "auto" to find out.
        folds: With "auto": parts of the pairs, each scored by a model that trains on the others (3, or 2
            in runs of fewer than 20 epochs).
        epochs: With "auto": epochs of these models. By default they take as many steps together as the run itself.
        loss: With "auto": "gce", the default, trains these models with GCE, its q growing to 1, at the temperature of
            the run where that has InfoNCE or RINCE; "same" with the loss of the run.
    """

    source: str | None = None
    folds: int | None = None
    epochs: int | None = None
    loss: Literal["gce", "same"] | None = None
