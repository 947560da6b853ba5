"""Partitions of two .npy files: ranges of rows, mapped into memory where they are scored."""

from pathlib import Path

from rince.audit.columns import Matrix, as_matrix, chunks, release
from rince.audit.input.arrays import BROKEN, mapped_npy
from rince.audit.partitions.partition import Blocks, Partition
from rince.errors import MissingFile, UsageError, WrongType

TARGET_NUMBERS = 64_000_000
MOST_ROWS = 1_000_000


class ArrayPartition(Partition):
    """Rows ``start`` to ``stop`` of two .npy files that every worker can reach."""

    def __init__(self, a: Path, b: Path, start: int, stop: int):
        self.a, self.b, self.start, self.stop = a, b, start, stop
        self.name = f"{a} with {b}, rows {start:,} to {stop:,}"

    @property
    def rows(self) -> int:
        return self.stop - self.start

    def blocks(self) -> Blocks:
        a, b = (_numbers(path)[self.start : self.stop] for path in (self.a, self.b))
        for rows in chunks(len(a), max(a.shape[1], b.shape[1])):
            yield a[rows], b[rows]
            release(a)
            release(b)


def _numbers(path: Path) -> Matrix:
    """The numbers of a file, mapped; one per pair is a column. Texts would have other numbers in every partition."""
    found = mapped_npy(path)
    if found.dtype.kind not in "fiub":
        raise WrongType(f"it must hold real numbers, got {found.dtype}")
    return found[:, None] if found.ndim == 1 else found


def array_partitions(a: str | Path, b: str | Path, rows: int | None = None) -> list[Partition]:
    """The pairs of two .npy files as partitions of consecutive rows.

    Args:
        a, b: The files; every worker must reach them under the same name.
        rows: The most rows of a partition; by default what takes 256 MB of memory, at most a million.

    Returns:
        Partitions for :func:`rince.audit.audit_partitions`.

    Raises:
        UsageError: The files hold no matrices, or of different numbers of rows.

    Example:
        >>> np.save("a.npy", np.eye(60, 4))
        >>> np.save("b.npy", np.eye(60, 8))
        >>> [part.rows for part in rince.audit.array_partitions("a.npy", "b.npy", rows=40)]
        [40, 20]
    """
    shapes = []
    for name, path in (("a", Path(a)), ("b", Path(b))):
        if not path.is_file():
            raise MissingFile(f"there is no file {path}")
        try:
            shapes.append(as_matrix(_numbers(path), name).shape)
        except BROKEN as error:  # WrongType is one of them
            raise UsageError(f"{path} cannot be read: {error}") from error
    (count, width), (other, other_width) = shapes
    if count != other:
        raise UsageError(f"a and b must have one row per pair: got {count:,} and {other:,} rows")
    step = rows or int(min(MOST_ROWS, max(1, TARGET_NUMBERS // (width + other_width))))
    paths = Path(a).absolute(), Path(b).absolute()
    return [ArrayPartition(*paths, start, min(count, start + step)) for start in range(0, count, step)]
