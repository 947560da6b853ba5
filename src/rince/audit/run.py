"""The audit: from two columns that should belong together, or from scores, to what is wrong with them."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from rince.audit.columns import as_matrix, check_columns, codes
from rince.audit.estimate.accidents import without_accidents
from rince.audit.estimate.probability import at_p_values
from rince.audit.estimate.rate import Rate, noise_rate, null_cells, p_values
from rince.audit.mismatched import Scored, as_scored, cosine_scores
from rince.audit.result import Audit
from rince.audit.unusable import kept, kept_rows, unusable_rows, with_gaps

if TYPE_CHECKING:
    from rince.audit.fit.towers import Recipe

USELESS = 0.9
"""With room for more wrong pairs than this, the scores say nothing about pairs, or nearly all are wrong."""
FEW_ENOUGH = 0.1
"""With room for at most this share of wrong pairs, and none found, there may be said to be none."""
SMALLEST = 0.001  # a share of wrong pairs below this is not worth the name


def audit(
    a: NDArray[Any] | Tensor,
    b: NDArray[Any] | Tensor,
    *,
    fit: bool = False,
    ids: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    seed: int = 0,
    recipe: "Recipe | None" = None,
    progress: bool | None = None,
    drop_bad: bool = False,
) -> Audit:
    """Find the wrong pairs among the rows of ``a`` and ``b``.

    Args:
        a, b: (pairs, width) arrays or tensors; a memory map is read in chunks. Embeddings of one space, unless ``fit``.
        fit: take any two feature matrices, of any widths, and train small towers on them (seconds to minutes on a CPU).
            Every pair is scored by towers that never saw it.
        ids, groups: one value per pair. Pairs of equal id or group are the same thing, or nearly, and are never taken
            for mismatched pairs; a missing value (None, NaN, an empty text) equals no other. Equal rows need none.
        seed: the same seed gives the same audit.
        recipe: how towers are fitted.
        progress: show a bar; by default on a terminal.
        drop_bad: leave out pairs with NaN or infinite values and, unless ``fit``, with rows of nothing but zeros. They
            stay in the results as NaN, so that indices mean the rows of ``a`` and ``b``.

    Returns:
        What was found: the share of wrong pairs with its interval, and the probability of every pair to be wrong.

    Raises:
        UsageError: If the sides do not have the same number of rows, or fewer than 50, or hold values that are not
            finite.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(500, 16))
        >>> b = a + 0.3 * random.normal(size=a.shape)
        >>> b[:100] = np.roll(b[:100], 1, axis=0)  # a fifth of the pairs is wrong
        >>> found = rince.audit.audit(a, b)
        >>> found.verdict, round(found.noise_rate, 1), len(found.flag(fdr=0.1)) > 80
        ('found', 0.2, True)
    """
    a, b = as_matrix(a, "a"), as_matrix(b, "b")
    check_columns(a, b)
    n, dropped = len(a), np.empty(0, dtype=np.int64)
    keys = [codes(value, name, len(a)) for name, value in (("ids", ids), ("groups", groups)) if value is not None]
    if drop_bad:
        dropped = unusable_rows(a, b, zero_is_bad=not fit)
    if len(dropped):
        index = kept_rows(n, dropped)
        a, b, keys = kept(a, index), kept(b, index), [key[index] for key in keys]
        check_columns(a, b)
    if fit:
        from rince.audit.fit.cross_fit import fitted_scores

        scored = fitted_scores(a, b, keys, seed, recipe, progress)
    elif a.shape[1] != b.shape[1]:
        raise ValueError(
            f"a and b must live in one space, but are {a.shape[1]} and {b.shape[1]} wide: "
            "use fit=True (--fit) to learn one"
        )
    else:
        scored = cosine_scores(a, b, keys, seed, progress=progress)
    scorer = "towers fitted on the other pairs" if fit else "the cosine"
    result = judge(scored, seed=seed, fitted=fit, scorer=scorer)
    return with_gaps(result, n, dropped) if len(dropped) else result


def judge(
    scored: Scored | ArrayLike,
    mismatched: ArrayLike | None = None,
    *,
    seed: int = 0,
    fitted: bool = False,
    scorer: str = "your scores",
) -> Audit:
    """An audit from scores of any origin, of pairs and of mismatched pairs; higher means a better pair.

    Args:
        scored: The scores of the pairs, or both as ``Scored(scores, null)``.
        mismatched: The scores of many mismatched pairs: shuffled at random from the same data.
        seed: The same seed gives the same audit.
        fitted: Whether the scores are those of towers fitted to these pairs.
        scorer: What gave the scores, for the summary.

    Returns:
        What was found.

    Raises:
        UsageError: If there are fewer than 50 scores, no mismatched ones, or some are not finite.

    Example:
        >>> random = np.random.default_rng(0)
        >>> scores = np.concatenate([random.normal(5, 1, 400), random.normal(0, 1, 100)])
        >>> found = rince.audit.judge(scores, random.normal(0, 1, 100_000))
        >>> found.verdict, round(found.noise_rate, 1)
        ('found', 0.2)
    """
    scored = as_scored(scored, mismatched)
    clusters = scored.clusters
    if clusters is not None and (clusters.shape != scored.scores.shape or not np.bincount(clusters).all()):
        raise ValueError("clusters must have one number per pair and count from 0 without gaps")
    scored = without_accidents(scored, seed)
    p = p_values(scored.scores, scored.null)
    rate = noise_rate(p, null_cells(scored.null), clusters)
    collapsed = not np.ptp(scored.null) > 1e-6
    useless = bool(collapsed or rate.floor > USELESS)
    found = rate.low > SMALLEST and not useless
    interval = (rate.low if found else 0.0, 1.0 if useless else rate.high)
    nothing = np.zeros_like(rate.chance)
    mean = float(p.mean(dtype=np.float64))
    low, guess, high = (outscored(mean, share) for share in (interval[0], min(rate.value, 0.99), interval[1]))
    return Audit(
        scores=scored.scores,
        null=scored.null,
        p_values=p,
        noise_rate=rate.value if found else 0.0,
        interval=interval,
        noise_found=found,
        useless=useless,
        p_wrong=at_p_values(p, rate.chance if found else nothing),
        cautious=rate.cautious if found else nothing,
        fitted=fitted,
        separation=1 - mean,
        remarks=remarks(len(p), scorer, fitted, collapsed, useless),
        scorer=scorer,
        best_guess=rate.value,
        distinguishable=guess,
        distinguishable_interval=(low, high),
        verdict=in_words(rate, found, interval),
    )


def outscored(mean_p: float, share: float) -> float:
    """How many mismatched pairs a right pair outscores on average, if this share of the pairs is wrong.

    The mean p-value is a mixture of the wrong pairs' 0.5 and of what the right ones have.
    """
    return float(np.clip(1 - (mean_p - share / 2) / max(1 - share, 1e-6), 0, 1))


def in_words(rate: Rate, found: bool, interval: tuple[float, float]) -> str:
    if found:
        return "found"
    if interval[1] <= FEW_ENOUGH:
        return "none found"
    return f"cannot tell: between 0 and {interval[1]:.0%}".replace("%", " %")


def remarks(n: int, scorer: str, fitted: bool, collapsed: bool, useless: bool) -> tuple[str, ...]:
    said = []
    if collapsed:
        said.append("the embedding has collapsed: all mismatched pairs have the same score")
    elif useless:
        ways = {"the cosine": "they may live in different spaces: try fit=True"}
        way_out = "these features may share nothing" if fitted else ways.get(scorer, "higher must mean a better pair")
        said.append(
            f"either nearly all pairs are wrong or the scores cannot tell a pair from a mismatched one; {way_out}"
        )
    if n < 500 and not useless:
        said.append(f"{n} pairs are few: the interval is wide and single pairs are hard to judge")
    return tuple(said)
