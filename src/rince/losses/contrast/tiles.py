"""The walk over the matrix of scores, tile by tile, and what is summed up of every tile."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import softplus

# Up to this many scores the matrix is one tile.
DENSE = 512 * 512

# exp(score - bound) keeps full float32 precision as long as no score lies further than this below the bound, and its
# inverse leaves room for large gradients.
SAFE = 60.0


class Tiles:
    """The walk over the tiles, the same forwards and backwards. ``columns=None`` means rows against themselves.

    Args:
        kind: What is reduced beside the log-sum-exp: ``""`` for nothing, else that of a ``Second``.
        beta: Of kind ``"tilted"``.
        shift: Of kind ``"softplus"``.
        diagonal: Whether column i is row i itself.
        bound: No score is larger, up to rounding, nor smaller than its negative; ``None`` if nobody knows.
        kept: The tile of the forward pass, where there was only one.
    """

    def __init__(
        self,
        rows: Tensor,
        columns: Tensor | None,
        row_keys: Tensor | None,
        column_keys: Tensor | None,
        kind: str = "",
        beta: float = 0.0,
        shift: Tensor | None = None,
        diagonal: bool = False,
        bound: float | None = None,
        kept: Tensor | None = None,
    ):
        self.symmetric = columns is None
        self.kind, self.beta, self.shift, self.diagonal = kind, beta, shift, diagonal or self.symmetric
        self.powers = powers(kind, beta)
        self.rows, self.columns = rows, rows if columns is None else columns
        self.row_keys, self.column_keys = row_keys, row_keys if columns is None else column_keys
        n, m = self.rows.shape[0], self.columns.shape[0]
        self.single = n * m <= DENSE
        self.side = max(n, m, 1) if self.single else _side(rows, min(n, m))
        self.row_ranges = [(i, min(i + self.side, n)) for i in range(0, n, self.side)]
        self.column_ranges = [(j, min(j + self.side, m)) for j in range(0, m, self.side)]
        self.kept = kept if self.single else None
        largest = min(n, self.side) * min(m, self.side)
        self.buffer = rows.new_empty(0 if self.kept is not None else largest)
        self.spare = [rows.new_empty(largest) for _ in range(SPARE[kind])]
        self.meets = self._meets()

        # Shifting by a bound on all scores lets both sides of a tile share one exponential. Where scores spread too
        # far for that (temperatures below 0.034) each side has to be shifted by what it holds; and also where looking
        # for a bound would make a GPU wait.
        if bound is None:
            bound = float(_longest(rows) * _longest(self.columns)) if rows.device.type == "cpu" else torch.inf
        self.shared = 2 * bound * max(power or 1 for power in self.powers) <= SAFE
        self.bound = bound if self.shared else 0.0
        self.tilted_apart = kind == "tilted" and not self.shared  # see ``tilted``

    def _meets(self) -> list[list[bool]]:
        """Which tiles can hold equal keys at all; the others need no mask."""
        if self.row_keys is None or self.column_keys is None:
            return [[False] * len(self.column_ranges)] * len(self.row_ranges)
        if self.single or self.row_keys.device.type != "cpu":  # a mask costs a GPU less than a look at the keys
            return [[True] * len(self.column_ranges)] * len(self.row_ranges)
        spans = _spans(self.column_keys, self.column_ranges)
        rows = spans if self.symmetric else _spans(self.row_keys, self.row_ranges)
        return [[low <= top and bottom <= high for bottom, top in spans] for low, high in rows]

    def __iter__(self) -> Iterator[tuple[slice, slice, Tensor, bool]]:
        """Rows, columns, their tile, and whether it lies off the diagonal of a symmetric matrix.

        The tile is what ``terms`` takes; the next one overwrites it.
        """
        for i, (row, row_end) in enumerate(self.row_ranges):
            for j, (column, column_end) in enumerate(self.column_ranges):
                if not (self.symmetric and j < i):
                    r, c = slice(row, row_end), slice(column, column_end)
                    yield r, c, self._tile(r, c, self.meets[i][j]), not (self.symmetric and i == j)

    def _tile(self, r: slice, c: slice, masked: bool) -> Tensor:
        """Scores under their bound; where nothing but their log-sum-exp is wanted, already their exponentials."""
        if self.kept is not None:
            return self.kept
        n, m = r.stop - r.start, c.stop - c.start
        scores = torch.mm(self.rows[r], self.columns[c].T, out=self.buffer[: n * m].view(n, m))
        if masked and self.kind != "bag":
            scores.masked_fill_(self._same(r, c), -torch.inf)
        if not self.shared:
            return scores
        scores.sub_(self.bound)
        return scores.exp_() if self.kind == "" else scores

    def _same(self, r: slice, c: slice) -> Tensor:
        assert self.row_keys is not None and self.column_keys is not None
        return self.row_keys[r, None] == self.column_keys[c]

    def terms(self, tile: Tensor, r: slice, c: slice, slopes: bool = False) -> Iterator[tuple[int, Tensor]]:
        """The matrices whose rows (and columns) are reduced, one after the other, each in a place the next may reuse.

        They are summed where exponentials are shared (and always for ``softplus``), else their log-sum-exp is taken.
        ``slopes`` gives the derivative instead where it is not the matrix itself.
        """
        if self.kind == "":
            yield 0, tile
            return
        first, *others = (part[: tile.numel()].view(tile.shape) for part in self.spare)
        if self.kind == "bag":
            yield from self._bag(tile, first, r, c)
            return
        yield 0, torch.exp(tile, out=first) if self.shared else tile
        if self.kind == "softplus":
            assert self.shift is not None
            score = torch.add(tile, self.shift + self.bound, out=first)
            yield 1, score.sigmoid_() if slopes else softplus(score, threshold=40)
        else:
            (weight,) = others
            yield 1, first if self.beta == 1 else torch.mul(tile, self.beta, out=weight).exp_()
            yield 2, first.mul_(first if self.beta == 1 else weight)

    def _bag(self, tile: Tensor, first: Tensor, r: slice, c: slice) -> Iterator[tuple[int, Tensor]]:
        value, nothing = (torch.exp(tile, out=first), 0.0) if self.shared else (tile, -torch.inf)
        i, j = r.start // self.side, c.start // self.side
        if not self.meets[i][j]:
            yield 0, value
            return
        same = self._same(r, c)
        yield 0, value.masked_fill(same, nothing)
        if self.diagonal and i == j:
            same.fill_diagonal_(False)
        yield 1, value.masked_fill_(~same, nothing) if self.shared else value.masked_fill(~same, nothing)


SPARE = {"": 0, "tilted": 2, "softplus": 1, "bag": 1}  # matrices of the size of a tile that ``terms`` works in


def powers(kind: str, beta: float) -> list[float | None]:
    """For every reduction of a kind: what scores are multiplied by in a log-sum-exp; ``None`` for a plain sum."""
    found: dict[str, list[float | None]] = {"tilted": [1.0, beta, 1 + beta], "softplus": [1.0, None], "bag": [1.0, 1.0]}
    return found.get(kind, [1.0])


def _longest(rows: Tensor) -> Tensor:
    return rows.norm(dim=1).amax() if len(rows) else rows.new_zeros(())


def _side(rows: Tensor, shorter: int) -> int:
    if rows.device.type != "cpu":
        return 4096
    return 256 if shorter <= 1024 else 512


def _spans(keys: Tensor, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Lowest and highest key of each range."""
    ends = torch.stack([torch.stack(keys[start:end].aminmax()) for start, end in ranges])
    return [(low, high) for low, high in ends.tolist()]
