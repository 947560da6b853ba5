"""The noise rate of every group of pairs, such as the sources they were crawled from, suspicious ones first."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.columns import one_dimensional
from rince.audit.estimate.binomial import at_most
from rince.errors import UsageError

if TYPE_CHECKING:
    from rince.audit.result import Audit

LEVELS = 1000
GRID = 1001
DROP = 1.92  # of the log-likelihood, half of chi-square's 95 % point: the ends of a likelihood interval
UNUSUAL = 4.0  # standard errors by which a group must lie behind the others to be called unusual
NAMELESS = "(none)"


class GroupRate(NamedTuple):
    """A group and how many of its pairs are wrong.

    Attributes:
        name: The group.
        pairs: How many pairs of it were judged.
        flagged: How many of them are flagged.
        rate: The estimated share of wrong pairs; None where the audit cannot tell.
        interval: Its 95 % interval; from 0 where the audit cannot tell.
        behind: How many standard errors the pairs score worse than those of the other groups.

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


def group_rates(result: "Audit", groups: Any, fdr: float = 0.1) -> list[GroupRate]:
    """The noise rate by group, groups whose rate is surely high first.

    Every group has a rate of its own, while what right and wrong pairs score is the same in all: the rate is the one
    under which the p-values of the group are likeliest, with a likelihood interval.

    Args:
        result: The audit.
        groups: One value per pair; a missing one counts to the group ``(none)``.
        fdr: As for ``result.flag``.

    Returns:
        One entry per group.

    Raises:
        UsageError: If there is not one value per pair.

    Example:
        >>> random = np.random.default_rng(0)
        >>> scores = np.concatenate([random.normal(5, 1, 400), random.normal(0, 1, 100)])
        >>> found = rince.audit.judge(scores, random.normal(0, 1, 100_000))
        >>> source = ["crawler"] * 380 + ["broken crawler"] * 120
        >>> rince.audit.group_rates(found, source)[0].name
        'broken crawler'
    """
    names = group_texts(groups)
    if len(names) != len(result):
        raise UsageError(f"groups must have one value per pair: expected {len(result):,}, got {len(names):,}")
    numbers: dict[str, int] = {}
    code = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
    judged = ~np.isnan(result.p_wrong)
    flagged = np.bincount(code[result.flag(fdr)], minlength=len(numbers))
    code, p = code[judged], result.p_values[judged].astype(np.float64)
    size = np.bincount(code, minlength=len(numbers))
    rates, lows, highs = _estimated(result, code, result.p_wrong[judged], p, size)
    behind = _behind(code, p, size)
    found = [
        GroupRate(name, int(size[k]), int(flagged[k]), rates[k], (lows[k], highs[k]), float(behind[k]))
        for name, k in numbers.items()
    ]
    return sorted(found, key=lambda one: (-one.interval[0], -one.behind, one.name))


def group_texts(groups: Any) -> list[str]:
    """The name of every pair's group."""
    values = one_dimensional(groups).tolist()
    return [NAMELESS if value is None or str(value) in ("", "nan", "<NA>") else str(value) for value in values]


def _estimated(
    result: "Audit",
    code: NDArray[np.int64],
    chance: NDArray[np.float32],
    p: NDArray[np.float64],
    size: NDArray[np.int64],
) -> tuple[list[float | None], list[float], list[float]]:
    if not result.noise_found:
        high = [
            min(1.0, 2 * at_most(float(k), int(n))) if n else 1.0
            for k, n in zip(_upper(code, p, size), size, strict=True)
        ]
        return [None] * len(size), [0.0] * len(size), high
    counts = level_counts(code, chance, len(size))
    grid, likelihood = np.linspace(0, 1, GRID), counts @ _log_likelihood(result.noise_rate)
    best = likelihood.argmax(1)
    inside = likelihood >= likelihood.max(1, keepdims=True) - DROP
    low, high = grid[inside.argmax(1)], grid[GRID - 1 - inside[:, ::-1].argmax(1)]
    return grid[best].tolist(), low.tolist(), high.tolist()


def level_counts(code: NDArray[np.int64], chance: NDArray[np.float32], groups: int) -> NDArray[np.int64]:
    """How many pairs of each group have each probability to be wrong, in steps of 1/1000; counts of parts add up."""
    level = np.rint(chance * LEVELS).astype(np.int64)
    return np.bincount(code * (LEVELS + 1) + level, minlength=groups * (LEVELS + 1)).reshape(groups, LEVELS + 1)


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


def _upper(code: NDArray[np.int64], p: NDArray[np.float64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pairs in the upper half of the p-values, where half of the wrong ones lie."""
    return np.bincount(code[p > 0.5], minlength=len(size))


def _behind(code: NDArray[np.int64], p: NDArray[np.float64], size: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many standard errors the mean p-value of a group lies above that of all others."""
    inside = np.bincount(code, weights=p, minlength=len(size))
    rest = len(p) - size
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = inside / size - (p.sum() - inside) / rest
        error = p.std() * np.sqrt(1 / size + 1 / rest)
        return np.nan_to_num(difference / error, nan=0.0, posinf=0.0, neginf=0.0)
