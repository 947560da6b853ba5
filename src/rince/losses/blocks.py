"""The matrix of scores in blocks, and the terms that are summed in each block."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

# Up to this many scores the matrix is one block.
DENSE = 512 * 512

# exp(score - bound) keeps full float32 precision as long as no score lies further than this below the bound, and its
# inverse leaves headroom for large gradients.
SAFE = 60.0

Precision = Literal["highest", "tf32", "bfloat16"]
PRECISIONS = ("highest", "tf32", "bfloat16")
_DROPPED_BITS = {"tf32": 13, "bfloat16": 16}  # of the 24 bits of a float32 significand
_MIXED_PRODUCTS = tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) >= (2, 8)  # mm(out_dtype=)


def rounded(x: Tensor, precision: str) -> Tensor:
    """float32 numbers with the significand of a ``Precision``, to nearest; float64 numbers as they are."""
    if precision == "highest" or x.dtype != torch.float32:
        return x
    split = x * (2.0 ** _DROPPED_BITS[precision] + 1)  # Veltkamp's splitting, in plain operations
    return split - (split - x)


def product(a: Tensor, b: Tensor, precision: str, out: Tensor | None = None) -> Tensor:
    """a @ b of rounded factors, added up in float32: on tensor cores of a GPU, emulated elsewhere."""
    if precision == "highest" or a.dtype != torch.float32:
        return torch.mm(a, b, out=out)
    if a.device.type == "cuda" and precision == "bfloat16" and _MIXED_PRODUCTS:
        result = torch.mm(a.bfloat16(), b.bfloat16(), out_dtype=torch.float32)
        return result if out is None else out.copy_(result)
    a, b = rounded(a, precision), rounded(b, precision)
    if a.device.type != "cuda":
        return torch.mm(a, b, out=out)
    with _tensor_cores():  # their numbers have all bits of the rounded ones
        return torch.mm(a, b, out=out)


@contextmanager
def _tensor_cores() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class Blocks:
    """Iteration over the blocks, the same in the forward and the backward pass.

    Args:
        rows: (n, d) matrix.
        columns: (m, d) matrix; ``None`` for rows against themselves.
        row_keys: n integers; entries with equal keys of row and column are left out.
        column_keys: m integers.
        kind: Kind of the ``ExtraReduction``, ``""`` for none.
        beta: Weight exponent of ``"hard_negatives"``.
        shift: Shift of ``"softplus"``.
        diagonal: Whether column i is row i itself.
        bound: Upper bound of the absolute scores, up to rounding; ``None`` if unknown.
        precision: Precision of the products.
        kept: The block of the forward pass, if there was only one.
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
        precision: str = "highest",
        kept: Tensor | None = None,
    ):
        self.symmetric = columns is None
        self.kind, self.beta, self.shift, self.diagonal = kind, beta, shift, diagonal or self.symmetric
        self.precision = precision
        self.powers = powers(kind, beta)
        self.rows, self.columns = rows, rows if columns is None else columns
        self.row_keys, self.column_keys = row_keys, row_keys if columns is None else column_keys
        n, m = self.rows.shape[0], self.columns.shape[0]
        self.single = n * m <= DENSE
        self.side = max(n, m, 1) if self.single else _side(rows, min(n, m))
        self.row_ranges = [(i, min(i + self.side, n)) for i in range(0, n, self.side)]
        self.column_ranges = [(j, min(j + self.side, m)) for j in range(0, m, self.side)]
        self.kept = kept if self.single and kept is not None and kept.numel() else None
        largest = min(n, self.side) * min(m, self.side)
        self.buffer = rows.new_empty(0 if self.kept is not None else largest)
        self.spare = [rows.new_empty(largest) for _ in range(SPARE[kind])]
        self.may_share_keys = self._may_share_keys()

        # Shifted by a bound of all scores, both sides of a block share one exponential. If scores spread too far for
        # that (temperatures below 0.034), each side is shifted by its own maximum; likewise on a GPU without a bound.
        if bound is None:
            bound = float(_longest(rows) * _longest(self.columns)) if rows.device.type == "cpu" else torch.inf
        self.shared = 2 * bound * max(power or 1 for power in self.powers) <= SAFE
        self.bound = bound if self.shared else 0.0
        self.hard_apart = kind == "hard_negatives" and not self.shared  # see ``add_hard_negatives``

    def _may_share_keys(self) -> list[list[bool]]:
        """Blocks that can hold equal keys; the others need no mask."""
        if self.row_keys is None or self.column_keys is None:
            return [[False] * len(self.column_ranges)] * len(self.row_ranges)
        if self.single or self.row_keys.device.type != "cpu":  # on a GPU a mask is cheaper than a synchronization
            return [[True] * len(self.column_ranges)] * len(self.row_ranges)
        spans = _spans(self.column_keys, self.column_ranges)
        rows = spans if self.symmetric else _spans(self.row_keys, self.row_ranges)
        return [[low <= top and bottom <= high for bottom, top in spans] for low, high in rows]

    def __iter__(self) -> Iterator[tuple[slice, slice, Tensor, bool]]:
        """Rows, columns, their block (overwritten by the next one), and whether it is off a symmetric diagonal."""
        for i, (row, row_end) in enumerate(self.row_ranges):
            for j, (column, column_end) in enumerate(self.column_ranges):
                if not (self.symmetric and j < i):
                    r, c = slice(row, row_end), slice(column, column_end)
                    yield r, c, self._block(r, c, self.may_share_keys[i][j]), not (self.symmetric and i == j)

    def _block(self, r: slice, c: slice, masked: bool) -> Tensor:
        """Scores minus their bound; exponentials of these if only the log-sum-exp is needed."""
        if self.kept is not None:
            return self.kept
        n, m = r.stop - r.start, c.stop - c.start
        scores = product(self.rows[r], self.columns[c].T, self.precision, self.buffer[: n * m].view(n, m))
        if masked and self.kind != "bag":
            scores.masked_fill_(self._same(r, c), -torch.inf)
        if not self.shared:
            return scores
        scores.sub_(self.bound)
        return scores.exp_() if self.kind == "" else scores

    def _same(self, r: slice, c: slice) -> Tensor:
        assert self.row_keys is not None and self.column_keys is not None
        return self.row_keys[r, None] == self.column_keys[c]

    def terms(self, block: Tensor, r: slice, c: slice, slopes: bool = False) -> Iterator[tuple[int, Tensor]]:
        """Index and matrix of every reduction, one after the other; the next may overwrite the last.

        Rows (and columns) are summed if exponentials are shared (always for ``softplus``), else reduced by
        log-sum-exp. ``slopes``: the derivative where it is not the matrix itself.
        """
        if self.kind == "":
            yield 0, block
            return
        first, *others = (part[: block.numel()].view(block.shape) for part in self.spare)
        if self.kind == "bag":
            yield from self._bag(block, first, r, c)
            return
        yield 0, torch.exp(block, out=first) if self.shared else block
        if self.kind == "softplus":
            assert self.shift is not None
            score = torch.add(block, self.shift + self.bound, out=first)
            yield 1, score.sigmoid_() if slopes else softplus(score, threshold=40)
        else:
            (weight,) = others
            yield 1, first if self.beta == 1 else torch.mul(block, self.beta, out=weight).exp_()
            yield 2, first.mul_(first if self.beta == 1 else weight)

    def _bag(self, block: Tensor, first: Tensor, r: slice, c: slice) -> Iterator[tuple[int, Tensor]]:
        value, empty = (torch.exp(block, out=first), 0.0) if self.shared else (block, -torch.inf)
        i, j = r.start // self.side, c.start // self.side
        if not self.may_share_keys[i][j]:
            yield 0, value
            return
        same = self._same(r, c)
        yield 0, value.masked_fill(same, empty)
        if self.diagonal and i == j:
            same.fill_diagonal_(False)
        yield 1, value.masked_fill_(~same, empty) if self.shared else value.masked_fill(~same, empty)


SPARE = {"": 0, "hard_negatives": 2, "softplus": 1, "bag": 1}  # buffers of the size of a block that ``terms`` needs


def powers(kind: str, beta: float) -> list[float | None]:
    """Factor of the scores in the log-sum-exp of every reduction of a kind; ``None`` for a plain sum."""
    factors: dict[str, list[float | None]] = {
        "hard_negatives": [1.0, beta, 1 + beta],
        "softplus": [1.0, None],
        "bag": [1.0, 1.0],
    }
    return factors.get(kind, [1.0])


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


# Three log-sum-exps at once, of s, beta s and (1 + beta) s, where both sides of a block have a shift of their own: each
# side computes one exponential of its distances (two unless beta is 1 or 2), and the third is a product.

# exp of this is negligible beside 1 in float32, even for millions of scores. Below it, exp and products are 3 to 30
# times slower (denormal results).
MIN_EXPONENT = -43.0


def add_hard_negatives(blocks: Blocks, block: Tensor, totals: Tensor, where: slice, dim: int) -> None:
    """Add the scores of a block to the (3, size) totals of one side."""
    top = block.amax(dim, keepdim=True).clamp_min_(torch.finfo(block.dtype).min)  # -inf in empty rows
    first, weight = _exponentials(blocks, block, top)
    sums = [first.sum(dim)]
    sums += [sums[0] if weight is first else weight.sum(dim)]
    sums += [first.mul_(weight).sum(dim)]
    empty = (top == torch.finfo(block.dtype).min).squeeze(dim)
    for total, new, power in zip(totals, sums, blocks.powers, strict=True):
        log = new.to(totals.dtype).log().add_(top.squeeze(dim), alpha=power or 1.0)
        total[where] = torch.logaddexp(total[where], log.masked_fill_(empty, -torch.inf))


class HardNegativeGradient:
    """Gradient of the scores of a block; for a score s and one of its sides
    ``p * exp(s - shift) + q * exp(beta * (s - shift)) + r * exp((1 + beta) * (s - shift))``.

    The shift is the third log-sum-exp over 1 + beta, a little above the highest score, which keeps all factors in the
    range of float32.
    """

    def __init__(self, blocks: Blocks, of_rows: tuple[Tensor, Tensor], of_columns: tuple[Tensor, Tensor] | None):
        self.blocks = blocks
        self.rows = self._factors(*of_rows)
        self.columns = None if of_columns is None else self._factors(*of_columns)

    def _factors(self, gradients: Tensor, values: Tensor) -> list[Tensor]:
        beta, dtype = self.blocks.beta, self.blocks.rows.dtype
        empty = torch.isneginf(values[0])  # no gradient without negatives
        shift = (values[2] / (1 + beta)).masked_fill(empty, 0.0).to(dtype)
        factors = [shift]
        for gradient, value, power in zip(gradients, values, (1.0, beta, 1 + beta), strict=True):
            log = (power * shift.to(value.dtype) - value).masked_fill(empty, -torch.inf)
            factors.append((gradient * log.exp() * power).to(dtype))
        return factors

    def weights(self, block: Tensor, r: slice, c: slice, buffers: list[Tensor]) -> tuple[Tensor, None]:
        """Gradient of every score, in the first buffer."""
        weights = self._of_side([x[r, None] for x in self.rows], block, buffers[0])
        if self.columns is not None:
            weights += self._of_side([x[c] for x in self.columns], block, buffers[1])
        return weights, None

    def _of_side(self, factors: list[Tensor], block: Tensor, buffer: Tensor) -> Tensor:
        shift, p, q, r = factors
        first, weight = _exponentials(self.blocks, block, shift)
        if weight is first:
            return torch.mul(first, r, out=buffer).add_(p + q).mul_(first)
        return torch.mul(weight, r, out=buffer).add_(p).mul_(first).add_(weight.mul_(q))


def _exponentials(blocks: Blocks, block: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """exp(s - shift) and exp(beta * (s - shift)), in spare buffers."""
    first, weight = (part[: block.numel()].view(block.shape) for part in blocks.spare)
    torch.sub(block, shift, out=first)
    lowest = -torch.inf if block.dtype == torch.float64 else MIN_EXPONENT
    if blocks.beta == 1:
        return first.clamp_min_(lowest).exp_(), first
    if blocks.beta == 2:
        first.clamp_min_(lowest).exp_()
        return first, torch.mul(first, first, out=weight)
    torch.mul(first, blocks.beta, out=weight).clamp_min_(lowest).exp_()
    return first.clamp_min_(lowest).exp_(), weight
