"""CSV files whose cells spreadsheets do not run as formulas."""

import csv
import re
import unicodedata
from collections.abc import Iterable
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_NUMBER = re.compile(r"-?[\d.]+")


class CsvWriter:
    """``csv.writer`` that escapes texts that a spreadsheet could take for a formula. Used for every CSV file.

    Args:
        file: A text file opened with ``newline=""``.
        lineterminator: End of every line. Default: ``"\\r\\n"``, as in the ``csv`` module.
    """

    def __init__(self, file: IO[str], lineterminator: str = "\r\n"):
        self._writer = csv.writer(file, lineterminator=lineterminator)

    def writerow(self, cells: Iterable[Any]) -> None:
        self._writer.writerow([escaped(cell) if isinstance(cell, str) else cell for cell in cells])

    def writerows(self, rows: Iterable[Iterable[Any]]) -> None:
        for row in rows:
            self.writerow(row)


def number_texts(column: NDArray[np.floating]) -> list[str]:
    """Numbers with six digits; empty texts for NaN."""
    return ["" if value != value else f"{value:.6g}" for value in column.tolist()]


def escaped(text: str) -> str:
    """A cell with a quote in front if a spreadsheet could take it for a formula; :func:`unescaped` undoes it."""
    if text[:1].isascii() and text[:1].isalnum():  # nearly all cells
        return text
    return f"'{text}" if _is_formula(text) and not _NUMBER.fullmatch(text) else text


def unescaped(cell: str) -> str:
    """The text of a cell that :func:`escaped` wrote."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell) else cell


def _is_formula(text: str) -> bool:
    """Whether the first character after quotes and white space starts a formula, also in full width."""
    if text[:1].isascii() and text[:1].isalnum():  # most cells
        return False
    start = text.lstrip("'")
    if start[:1] in ("\t", "\r", "\n"):
        return True
    return unicodedata.normalize("NFKC", start.lstrip()[:1])[:1] in ("=", "+", "-", "@")
