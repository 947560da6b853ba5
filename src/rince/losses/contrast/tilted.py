"""Three log-sum-exps at once, of scores, of beta times them and of their sum, where both sides of a tile have a shift
of their own: each side takes one exponential of its distances (two where beta is not 1), and the third is a product."""

import torch
from torch import Tensor

from rince.losses.contrast.tiles import Tiles

# In float32 exp of this is nothing beside 1, even for millions of scores. Below it exp becomes 3 to 30 times slower, as
# its results leave the range that a processor is quick in; so would a product of two.
NOTHING = -43.0


def add_tile(tiles: Tiles, tile: Tensor, totals: Tensor, where: slice, dim: int) -> None:
    """Add the scores of a tile to the (3, number) totals of one side."""
    top = tile.amax(dim, keepdim=True).clamp_min_(torch.finfo(tile.dtype).min)  # -inf where nothing is left
    first, weight = _exponentials(tiles, tile, top)
    sums = [first.sum(dim)]
    sums += [sums[0] if weight is first else weight.sum(dim)]
    sums += [first.mul_(weight).sum(dim)]
    empty = (top == torch.finfo(tile.dtype).min).squeeze(dim)
    for total, found, power in zip(totals, sums, tiles.powers, strict=True):
        log = found.to(totals.dtype).log().add_(top.squeeze(dim), alpha=power or 1.0)
        total[where] = torch.logaddexp(total[where], log.masked_fill_(empty, -torch.inf))


class Pulls:
    """What the gradients of the three do to the scores of a tile: for a score s and one of its sides it is
    ``p * exp(s - shift) + q * exp(beta * (s - shift)) + r * exp((1 + beta) * (s - shift))``.

    The shift is the third log-sum-exp over 1 + beta, a little above the highest score, so that no factor leaves the
    range of float32.
    """

    def __init__(self, tiles: Tiles, of_rows: tuple[Tensor, Tensor], of_columns: tuple[Tensor, Tensor] | None):
        self.tiles = tiles
        self.rows = self._factors(*of_rows)
        self.columns = None if of_columns is None else self._factors(*of_columns)

    def _factors(self, gradients: Tensor, values: Tensor) -> list[Tensor]:
        beta, dtype = self.tiles.beta, self.tiles.rows.dtype
        nothing = torch.isneginf(values[0])  # an anchor without negatives pulls on nothing
        shift = (values[2] / (1 + beta)).masked_fill(nothing, 0.0).to(dtype)
        found = [shift]
        for gradient, value, power in zip(gradients, values, (1.0, beta, 1 + beta), strict=True):
            log = (power * shift.to(value.dtype) - value).masked_fill(nothing, -torch.inf)
            found.append((gradient * log.exp() * power).to(dtype))
        return found

    def weights(self, tile: Tensor, r: slice, c: slice, places: list[Tensor]) -> tuple[Tensor, None]:
        """The gradient of every score, in the first of the places."""
        found = self._of_side([x[r, None] for x in self.rows], tile, places[0])
        if self.columns is not None:
            found += self._of_side([x[c] for x in self.columns], tile, places[1])
        return found, None

    def _of_side(self, factors: list[Tensor], tile: Tensor, place: Tensor) -> Tensor:
        shift, p, q, r = factors
        first, weight = _exponentials(self.tiles, tile, shift)
        if weight is first:
            return torch.mul(first, r, out=place).add_(p + q).mul_(first)
        return torch.mul(weight, r, out=place).add_(p).mul_(first).add_(weight.mul_(q))


def _exponentials(tiles: Tiles, tile: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """exp(s - shift) and exp(beta * (s - shift)), in the places that the tiles have to spare."""
    first, weight = (part[: tile.numel()].view(tile.shape) for part in tiles.spare)
    torch.sub(tile, shift, out=first)
    lowest = -torch.inf if tile.dtype == torch.float64 else NOTHING
    if tiles.beta == 1:
        return first.clamp_min_(lowest).exp_(), first
    if tiles.beta == 2:
        first.clamp_min_(lowest).exp_()
        return first, torch.mul(first, first, out=weight)
    torch.mul(first, tiles.beta, out=weight).clamp_min_(lowest).exp_()
    return first.clamp_min_(lowest).exp_(), weight
