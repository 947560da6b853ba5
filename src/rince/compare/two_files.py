"""Two columns of the user's own, of numbers or of texts, to compare losses on."""

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince._support.fingerprints import of_tensors
from rince.audit.columns import as_matrix
from rince.audit.input.arrays import check_different, matrix
from rince.audit.input.raw import raw_column
from rince.audit.input.source import Source, source
from rince.compare.tasks import TwoTowers
from rince.compare.towers import Columns
from rince.compare.words import word_numbers
from rince.errors import UsageError

FEWEST = 1000


class TwoFiles(TwoTowers):
    """Features are standardised and go through an MLP; texts are means of word vectors learned from scratch."""

    def __init__(self, a: str, b: str) -> None:
        about = "two columns of numbers or texts, as rince audit takes them"
        super().__init__("columns", about=about, noise="added mismatched pairs")
        self.a, self.b = a, b

    def check(self) -> None:
        check_different(source(self.a, raw=True), source(self.b, raw=True))
        self.columns()

    def fingerprint(self) -> str:
        return of_tensors(self.columns()[:2])

    def columns(self) -> Columns:
        return _of_files(self.a, self.b)


@functools.cache
def _of_files(a: str, b: str) -> Columns:
    first, second = (_column(source(text, raw=True)) for text in (a, b))
    if len(first) != len(second):
        raise UsageError(f"{a} and {b} must have one row per pair, got {len(first)} and {len(second)} rows")
    if len(first) < FEWEST:
        raise UsageError(f"a comparison needs {FEWEST:,} pairs or more to mean anything, got {len(first)}")
    for text, x in ((a, first), (b, second)):
        if (x == x[0]).all():
            raise UsageError(f"all rows of {text} are the same: there is nothing to tell pairs apart by")
    return Columns(first, second)


def _column(where: Source) -> Tensor:
    found = raw_column(where)
    if found is None:
        with tempfile.TemporaryDirectory() as scratch:
            return _standardised(matrix(where, Path(scratch)), str(where))
    if found.kind != "texts":
        raise UsageError(f"{where} holds {found.kind}: encode them first, and give the numbers")
    if missing := sum(text is None for text in found.items):
        raise UsageError(f"{where} has no text in {missing:,} rows: leave such pairs out")
    return word_numbers([str(text) for text in found.items])


def _standardised(given: NDArray[Any], name: str) -> Tensor:
    with np.errstate(over="ignore"):  # what is too large is told below
        x = np.array(as_matrix(given, name), dtype=np.float32)
    if not np.isfinite(x).all():
        rows = int((~np.isfinite(x)).any(1).sum())
        raise UsageError(f"{name} has NaN, infinite or too large values in {rows:,} rows: leave such pairs out")
    with np.errstate(over="ignore", invalid="ignore"):
        standard = (x - x.mean(0)) / np.maximum(x.std(0), 1e-6 * np.abs(x).max(0, initial=0) + 1e-30)
    return torch.from_numpy(np.nan_to_num(standard))
