"""The options of ``--trust``, without importing what carries them out."""

from dataclasses import dataclass


@dataclass
class TrustSettings:
    """How far each training pair is to be trusted.

    Args:
        source: A table with one row per pair, such as audit/audit.csv or table.parquet:column, or "auto" to find out.
        folds: With "auto": parts of the pairs, each scored by a model that trains on the others (2).
        epochs: With "auto": epochs of these models. By default they take as many steps together as the run itself.
    """

    source: str | None = None
    folds: int | None = None
    epochs: int | None = None
