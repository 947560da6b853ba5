"""The two columns of an audit: checks, reading in chunks, hashes of values."""

import hashlib
import mmap
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince._support.fingerprints import row_codes as row_codes
from rince.errors import UsageError, WrongType

Matrix = NDArray[Any]
Keys = list[NDArray[np.int64]]
"""Hashes by which rows count as the same item: one array per criterion (ids, equal rows)."""

CHUNK_NUMBERS = (
    4_000_000  # 16 MB of float32 per chunk and column: large enough to be fast, small enough to fit in memory
)
MIN_PAIRS = 50
MAX_CLASSES = 100
MIN_PER_CLASS = 10  # pairs of a class on average
SHOWN = 5  # rows that an error names


def as_matrix(x: Any, name: str) -> Matrix:
    """A (pairs, width) array of real numbers; tensors become arrays, memory maps stay on disk.

    A column with one value per pair has one feature; texts are labels, each with its own number.
    """
    if is_tensor(x):
        x = as_array(x)
    elif not isinstance(x, np.ndarray):
        raise WrongType(f"{name} must be a numpy array or a tensor of shape (pairs, width), got {type(x).__name__}")
    if x.ndim == 1:
        x = _labels(x, name) if x.dtype.kind in "USO" else x[:, None]
    if x.ndim != 2:
        raise UsageError(f"{name} must have the shape (pairs, width), got {x.shape}")
    if x.dtype.kind not in "fiub":
        raise WrongType(f"{name} must hold real numbers, got {x.dtype}")
    if not x.shape[1]:
        raise UsageError(f"{name} has no columns")
    return x


def is_tensor(x: Any) -> bool:
    """Whether an object is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def as_array(x: Any) -> NDArray[Any]:
    """The values of a tensor; half precision becomes float32."""
    x = x.detach().cpu()
    return (x.float() if x.is_floating_point() and x.element_size() == 2 else x).numpy()


def _labels(x: NDArray[Any], name: str) -> NDArray[np.float32]:
    values = x.tolist()
    invalid = next((value for value in values if not isinstance(value, str | bytes | None)), None)
    if invalid is not None:
        raise WrongType(f"{name} must hold real numbers, or texts as labels, got {type(invalid).__name__}")
    numbers = label_numbers([values])
    if numbers is None:
        raise UsageError(
            f"{name} must hold real numbers, got texts, of which there are too many different ones for labels (at most "
            f"{MAX_CLASSES}): turn them into features"
        )
    return numbers


def label_numbers(batches: Iterable[Iterable[Any]], max_labels: int = MAX_CLASSES) -> NDArray[np.float32] | None:
    """(pairs, 1) numbers of text labels, NaN for missing labels; None if the texts are not labels.

    Texts are not labels if more than ``max_labels`` are distinct, or if they average fewer than 10 pairs each.

    Labels are numbered in sorted order, so the same labels have the same numbers in any row order.
    """
    index: dict[str, int] = {}
    blocks = []
    for batch in batches:
        texts = ["" if value is None else str(value).strip() for value in batch]
        numbers = [index.setdefault(text, len(index)) for text in texts]
        if len(index) > max_labels + 1:  # one may be the empty text
            return None
        blocks.append(np.array(numbers, dtype=np.int64))
    labels = sorted(text for text in index if text)
    if not labels or len(labels) > min(max_labels, sum(map(len, blocks)) // MIN_PER_CLASS):
        return None
    rank = {text: number for number, text in enumerate(labels)}
    table = np.array([rank.get(text, np.nan) for text in index], dtype=np.float32)
    return table[np.concatenate(blocks)][:, None]


def check_columns(a: Matrix, b: Matrix) -> None:
    if len(a) != len(b):
        raise UsageError(f"a and b must have one row per pair: got {len(a):,} and {len(b):,} rows")
    if len(a) < MIN_PAIRS:
        raise UsageError(f"an audit needs at least {MIN_PAIRS} pairs, got {len(a)}")


def codes(values: Any, name: str, n: int, start: int = 0) -> NDArray[np.int64]:
    """One integer hash per pair, equal for equal values; a missing value (None, NaN, an empty text) equals no other.

    A value has the same code in any row, so codes of separate shards are comparable. Texts are coded one by one:
    a numpy text array would make all of them as wide as the longest. ``start`` is the number of the first pair.
    """
    array = one_dimensional(values)
    if array.shape != (n,):
        raise UsageError(f"{name} must have one value per pair: expected ({n},), got {array.shape}")
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype.kind in "mM":
        return _with_missing(array.view(np.int64).copy(), np.isnat(array), start)
    if array.dtype.kind == "f":
        return _with_missing((array.astype(np.float64) + 0.0).view(np.int64), np.isnan(array), start)
    hashes, missing = np.empty(n, dtype=np.int64), np.zeros(n, dtype=bool)
    for row, cell in enumerate(array.tolist()):
        text = cell if isinstance(cell, str) else str(cell)
        missing[row] = not text.strip() if isinstance(cell, str) else text in MISSING
        hashes[row] = text_code(text)
    return _with_missing(hashes, missing, start)


def text_code(text: str) -> int:
    """A 64-bit code of a text: an integer is its own code, so that 7 and "7" are the same id."""
    if len(text) < 19 and text.isascii() and text.isdigit() and (text[0] != "0" or text == "0"):
        return int(text)
    code = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(code, "little", signed=True)


MISSING = {"", "None", "nan", "<NA>", "NaT", "b''"}
"""Missing values of other types than text, as text."""


def one_dimensional(values: Any) -> NDArray[Any]:
    """Values as an array; lists with texts or gaps as object arrays, since numpy would convert all values to texts."""
    if is_tensor(values):
        return as_array(values)
    if isinstance(values, (list, tuple)):
        plain = bool(values) and all(type(value) in (int, float, bool) for value in values)
        return np.array(values) if plain else np.array(values, dtype=object)
    return np.asarray(values)


def _with_missing(hashes: NDArray[np.int64], missing: NDArray[np.bool_], start: int) -> NDArray[np.int64]:
    """Hashes in which every missing value is replaced by a hash of its row number."""
    rows = np.flatnonzero(missing).astype(np.uint64) + np.uint64(start)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the mixer of SplitMix64
        rows = (rows + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(factor)
        rows ^= rows >> np.uint64(shift)
    hashes[missing] = rows.view(np.int64)
    return hashes


def chunk_rows(width: int) -> int:
    return max(256, CHUNK_NUMBERS // max(1, width))


def chunks(n: int, width: int) -> Iterator[slice]:
    step = chunk_rows(width)
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def read(x: Matrix, rows: slice | NDArray[np.int64], into: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """Rows as a new float32 array, or written to the first rows of ``into``."""
    check_whole(x)
    if into is None:
        return np.array(x[rows], dtype=np.float32)
    part = x[rows]
    np.copyto(into[: len(part)], part, casting="unsafe")
    return into[: len(part)]


def check_whole(x: Matrix) -> None:
    """Raise if a mapped file has become shorter: reading beyond its end would kill the process."""
    base = _mapped(x)
    if base is None:
        return
    mapped: Any = base._mmap  # type: ignore[attr-defined]
    first = base.offset - base.offset % mmap.ALLOCATIONGRANULARITY
    if mapped.size() < first + len(mapped):
        raise UsageError(f"{base.filename} has become shorter while it was read: try again when it is complete")


def release(x: Matrix) -> None:
    """Release pages of a memory map that were read."""
    base = _mapped(x)
    # In mode "c" the pages may hold changes that are not in the file.
    if base is not None and base.mode in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
        base._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def _mapped(x: Matrix) -> "np.memmap[Any, Any] | None":
    """The memory map behind an array, or None."""
    base: Any = x
    while isinstance(base, np.ndarray) and not isinstance(getattr(base, "_mmap", None), mmap.mmap):
        base = base.base
    return base if isinstance(base, np.memmap) else None


class RowCheck:
    """Unusable rows of a column, reported in one error.

    Args:
        name: Name of the column.
        zero_is_bad: Whether rows of zeros are unusable.
    """

    def __init__(self, name: str, zero_is_bad: bool):
        self.name, self.zero_is_bad = name, zero_is_bad
        self.broken: list[int] = []
        self.zero: list[int] = []
        self.first: NDArray[np.float32] | None = None
        self.constant = True

    def see(self, x: NDArray[np.float32], start: int) -> None:
        """Check the next rows; ``start`` is the number of the first of them."""
        # A row sum is finite only if all values are: one pass, and an exact test of the rows that fail.
        with np.errstate(over="ignore", invalid="ignore"):
            suspicious = ~np.isfinite(x.sum(1))
        if suspicious.any():
            rows = np.flatnonzero(suspicious)
            self.broken += (rows[~np.isfinite(x[rows]).all(1)] + start).tolist()
        if self.zero_is_bad:
            # Rows whose first number is not 0 need no further check.
            rows = np.flatnonzero(x[:, 0] == 0)
            self.zero += (rows[~x[rows].any(1)] + start).tolist()
        if self.first is None:
            self.first = x[0].copy()
        if self.constant:
            self.constant = bool((x[-1] == self.first).all() and (x == self.first).all())

    def add(self, following: "RowCheck") -> None:
        """Add the rows of the next part of the column."""
        self.broken += following.broken
        self.zero += following.zero
        if following.first is not None:
            self.first = following.first if self.first is None else self.first
            self.constant &= following.constant and np.array_equal(self.first, following.first)

    def refuse_unusable(self) -> None:
        """Raise for unusable rows, and for a column whose rows are all equal."""
        if self.broken:
            raise UsageError(
                f"{self.name} has NaN or infinite values in {named_rows(self.broken)} (a missing value counts as NaN): "
                "fix them, or pass skip_invalid=True (--skip-invalid)"
            )
        if self.zero:
            raise UsageError(
                f"{self.name} is all zeros in {named_rows(self.zero)}, so it has no direction: leave such pairs out "
                "with skip_invalid=True (--skip-invalid)"
            )
        if self.constant:
            raise UsageError(f"all rows of {self.name} are the same, so pairs cannot be told apart")


def named_rows(rows: list[int]) -> str:
    """Number of rows, and the first row numbers, as text."""
    numbers = ", ".join(map(str, rows[:SHOWN])) + (", ..." if len(rows) > SHOWN else "")
    return f"row {numbers}" if len(rows) == 1 else f"{len(rows):,} rows ({numbers})"


def cosines_(x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.float32]:
    """The cosine of every row of ``x`` with the same row of ``y``, of any scale; both are overwritten.

    In place, because allocating hundreds of large arrays fragments the memory.
    """
    with np.errstate(invalid="ignore"):  # rows of zeros and infinite rows are rejected elsewhere
        for z in (x, y):
            z /= np.maximum(np.maximum(z.max(1), -z.min(1)), np.finfo(z.dtype).tiny)[:, None]
        lengths = np.sqrt(np.einsum("ij,ij->i", x, x) * np.einsum("ij,ij->i", y, y))
        return np.asarray(np.einsum("ij,ij->i", x, y) / lengths)


def unit_rows(x: NDArray[Any]) -> NDArray[np.float32]:
    """Rows divided by their norms, as float32."""
    x = x.astype(np.float32, copy=False)
    return np.asarray(x / np.maximum(np.sqrt(np.einsum("ij,ij->i", x, x)), 1e-12)[:, None])
