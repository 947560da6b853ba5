"""Held-out tables: every CSV file of a folder, alternate columns against the rest."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments.evidence.audit_benchmark.pairings import Matrix, Pairing, interleaved

RATES = (0.0, 0.1, 0.3, 0.5)
FEWEST_COLUMNS, FEWEST_VALUES = 6, 6


def csv_tables(folder: Path) -> Iterator[Pairing]:
    """A pairing per file that has at least 60 rows and six columns of numbers."""
    for path in sorted(folder.glob("*.csv")):
        if numbers(path) is not None:
            yield Pairing(
                path.stem, lambda path=path: interleaved(numbers(path)), True, f"table {path.stem}", rates=RATES
            )  # type: ignore[misc]


def numbers(path: Path) -> Matrix | None:
    """Numeric columns of a file with at least six distinct values."""
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        _, *rows = csv.reader(file)
    columns = []
    for column in list(zip(*rows, strict=False))[1:]:  # the first is the number or the name of the row
        try:
            values = np.array(column, dtype=np.float64)
        except ValueError:
            continue
        if np.isfinite(values).all() and len(np.unique(values)) >= FEWEST_VALUES:
            columns.append(values.astype(np.float32))
    return np.stack(columns, axis=1) if len(rows) >= 60 and len(columns) >= FEWEST_COLUMNS else None
