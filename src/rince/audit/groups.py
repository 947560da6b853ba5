"""The noise rate of every group of pairs, such as the sources they were crawled from, suspicious ones first."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.rate import upper_share
from rince.errors import UsageError
from rince.pairs.matrix import one_dimensional

if TYPE_CHECKING:
    from rince.audit.result import Audit, Findings

LEVELS = 1000
GRID = 1001
DROP = 1.92  # of the log-likelihood, half of chi-square's 95 % point: the ends of a likelihood interval
UNUSUAL = 4.0  # standard errors by which a group must lie behind the others to be called unusual
NAMELESS = "(none)"


class GroupRate(NamedTuple):
    """Noise rate of a group of pairs.

    Attributes:
        name: The group.
        pairs: Number of judged pairs.
        flagged: Number of flagged pairs.
        rate: Estimated share of wrong pairs; None where the audit cannot tell.
        interval: Its 95 % interval; from 0 where the audit cannot tell.
        behind: Number of standard errors by which the pairs score worse than those of the other groups.

    Example:
        >>> rate = rince.audit.GroupRate("crawler", pairs=380, flagged=0, rate=0.01, interval=(0.0, 0.03), behind=0.2)
        >>> rate.unusual
        False
    """

    name: str
    pairs: int
    flagged: int
    rate: float | None
    interval: tuple[float, float]
    behind: float

    @property
    def unusual(self) -> bool:
        """Whether the pairs score clearly worse than those of the other groups."""
        return self.behind > UNUSUAL

    def record(self) -> dict[str, Any]:
        """Entry of ``audit.json`` and the page."""
        return {**self._asdict(), "interval": list(self.interval), "unusual": self.unusual}


def group_rates(result: "Audit", groups: Any, fdr: float = 0.1) -> list[GroupRate]:
    """The noise rate by group, groups whose rate is surely high first.

    The rate differs by group, the score distributions of right and wrong pairs do not: the rate is the one
    under which the p-values of the group are likeliest, with a likelihood interval.

    Args:
        result: The audit.
        groups: One value per pair; a missing one counts to the group ``(none)``.
        fdr: As in ``result.flag``.

    Returns:
        One entry per group.

    Raises:
        UsageError: The number of values differs from the number of pairs.

    Example:
        >>> random = np.random.default_rng(0)
        >>> scores = np.concatenate([random.normal(5, 1, 400), random.normal(0, 1, 100)])
        >>> result = rince.audit.judge(scores, random.normal(0, 1, 100_000))
        >>> source = ["crawler"] * 380 + ["broken crawler"] * 120
        >>> rince.audit.group_rates(result, source)[0].name
        'broken crawler'
    """
    names = group_texts(groups)
    if len(names) != len(result):
        raise UsageError(f"groups must have one value per pair: expected {len(result):,}, got {len(names):,}")
    flags = np.zeros(len(result), dtype=bool)
    flags[result.flag(fdr)] = True
    return rates_of(tallied(names, result.p_values, result.p_wrong, flags), result)


class Tally(NamedTuple):
    """Counts by group of some pairs; tallies of parts add up.

    Attributes:
        names: The groups.
        size: Number of judged pairs of each.
        flagged: Number of flagged pairs of each.
        upper: Number of pairs in the upper half of the p-values, which holds half of the wrong ones.
        p: Sum of the p-values of each.
        squares: Sum of the squares of all p-values.
        level: Group and probability to be wrong, in steps of 1/1000, as one number.
        level_count: Number of pairs at each level.
    """

    names: list[str]
    size: NDArray[np.int64]
    flagged: NDArray[np.int64]
    upper: NDArray[np.int64]
    p: NDArray[np.float64]
    squares: float
    level: NDArray[np.int64]
    level_count: NDArray[np.int64]


def tallied(
    names: list[str], p_values: NDArray[np.float32], p_wrong: NDArray[np.float32], flags: NDArray[np.bool_]
) -> Tally:
    """The tally of some pairs; a pair whose ``p_wrong`` is NaN was not judged."""
    numbers: dict[str, int] = {}
    code = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
    judged, groups = ~np.isnan(p_wrong), len(numbers)
    flagged = np.bincount(code[flags], minlength=groups)
    code, p = code[judged], p_values[judged].astype(np.float64)
    level = code * (LEVELS + 1) + np.rint(p_wrong[judged] * LEVELS).astype(np.int64)
    return Tally(
        list(numbers),
        np.bincount(code, minlength=groups),
        flagged,
        np.bincount(code[p > 0.5], minlength=groups),
        np.bincount(code, weights=p, minlength=groups).astype(np.float64),
        float((p**2).sum()),
        *np.unique(level, return_counts=True),
    )


def added_up(tallies: list[Tally]) -> Tally:
    """Sum of several tallies."""
    numbers: dict[str, int] = {}
    codes = [np.array([numbers.setdefault(name, len(numbers)) for name in part.names], np.int64) for part in tallies]

    def total(field: str) -> NDArray[Any]:
        values = [getattr(part, field) for part in tallies]
        out = np.zeros(len(numbers), dtype=values[0].dtype)
        for code, part in zip(codes, values, strict=True):
            out[code] += part
        return out

    levels = [
        code[part.level // (LEVELS + 1)] * (LEVELS + 1) + part.level % (LEVELS + 1)
        for code, part in zip(codes, tallies, strict=True)
    ]
    level, inverse = np.unique(np.concatenate(levels), return_inverse=True)
    count = np.bincount(inverse, np.concatenate([part.level_count for part in tallies]), minlength=len(level))
    squares = sum(part.squares for part in tallies)
    size, flagged, upper, p = (total(field) for field in ("size", "flagged", "upper", "p"))
    return Tally(list(numbers), size, flagged, upper, p, squares, level, count.astype(np.int64))


def rates_of(tally: Tally, result: "Findings") -> list[GroupRate]:
    """The rates of tallied groups, groups whose rate is surely high first."""
    rates, lows, highs = _estimated(result, tally)
    behind = _behind(tally)
    groups = [
        GroupRate(name, int(tally.size[k]), int(tally.flagged[k]), rates[k], (lows[k], highs[k]), float(behind[k]))
        for k, name in enumerate(tally.names)
    ]
    return sorted(groups, key=lambda group: (-group.interval[0], -group.behind, group.name))


def group_texts(groups: Any) -> list[str]:
    """The name of every pair's group."""
    values = one_dimensional(groups).tolist()
    return [NAMELESS if value is None or str(value) in ("", "nan", "<NA>") else str(value) for value in values]


def _estimated(result: "Findings", tally: Tally) -> tuple[list[float | None], list[float], list[float]]:
    size = tally.size
    if not result.noise_found:
        high = [
            min(1.0, 2 * upper_share(float(k), int(n))) if n else 1.0 for k, n in zip(tally.upper, size, strict=True)
        ]
        return [None] * len(size), [0.0] * len(size), high
    grid, likely = np.linspace(0, 1, GRID), _log_likelihood(result.noise_rate)
    likelihood = np.zeros((len(size), GRID))
    group, level = np.divmod(tally.level, LEVELS + 1)
    for start in range(0, len(level), 2000):  # a row of the likelihood is 8 KB
        block = slice(start, start + 2000)
        np.add.at(likelihood, group[block], tally.level_count[block, None] * likely[level[block]])
    best = likelihood.argmax(1)
    inside = likelihood >= likelihood.max(1, keepdims=True) - DROP
    low, high_ends = grid[inside.argmax(1)], grid[GRID - 1 - inside[:, ::-1].argmax(1)]
    return grid[best].tolist(), low.tolist(), high_ends.tolist()


def _log_likelihood(rate: float) -> NDArray[np.float64]:
    """(level, rate of a group) -> log-likelihood of a pair of this level, up to a constant.

    A pair whose probability to be wrong is p, at an overall rate of r, is ((1 - p) / p) * (r / (1 - r)) times likelier
    if it is right than if it is wrong.
    """
    level = np.clip(np.arange(LEVELS + 1) / LEVELS, 0.5 / LEVELS, 1 - 0.5 / LEVELS)
    overall = min(max(rate, 1e-3), 1 - 1e-3)
    ratio = (1 - level) / level * overall / (1 - overall)
    grid = np.linspace(0, 1, GRID)
    return np.log(grid[None, :] + (1 - grid[None, :]) * ratio[:, None])


def _behind(tally: Tally) -> NDArray[np.float64]:
    """Number of standard errors by which the mean p-value of a group lies above that of all others."""
    pairs, total = tally.size.sum(), tally.p.sum()
    rest = pairs - tally.size
    deviation = np.sqrt(max(0.0, tally.squares / max(1, pairs) - (total / max(1, pairs)) ** 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = tally.p / tally.size - (total - tally.p) / rest
        error = deviation * np.sqrt(1 / tally.size + 1 / rest)
        return np.nan_to_num(difference / error, nan=0.0, posinf=0.0, neginf=0.0)
