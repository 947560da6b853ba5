"""The audit: from two columns that should belong together, or from scores, to what is wrong with them."""

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from rince.audit.columns import as_matrix, check_columns, codes
from rince.audit.estimate.decide import Decision, Null, decide, p_at
from rince.audit.estimate.places import compact, counted, places
from rince.audit.estimate.probability import at_p_values
from rince.audit.findings import decided
from rince.audit.mismatched import Scored, as_scored
from rince.audit.partitions.partition import Arrays
from rince.audit.partitions.pipeline import cosine_scores_of, judged_parts
from rince.audit.partitions.runner import Here
from rince.audit.result import Audit
from rince.audit.unusable import with_gaps
from rince.errors import UsageError

if TYPE_CHECKING:
    from rince.audit.fit.towers import Recipe
    from rince.audit.partitions.pipeline import Score


def audit(
    a: NDArray[Any] | Tensor,
    b: NDArray[Any] | Tensor,
    *,
    fit: bool = False,
    ids: ArrayLike | None = None,
    duplicates: ArrayLike | None = None,
    seed: int = 0,
    recipe: "Recipe | None" = None,
    progress: bool | None = None,
    drop_bad: bool = False,
    groups: ArrayLike | None = None,
) -> Audit:
    """Find the wrong pairs among the rows of ``a`` and ``b``.

    Args:
        a, b: (pairs, width) arrays or tensors; a memory map is read in chunks. Embeddings of one space, unless ``fit``.
        fit: take any two feature matrices, of any widths, and train small towers on them (seconds to minutes on a CPU).
            Every pair is scored by towers that never saw it.
        ids, duplicates: one value per pair. Pairs of equal id or equal value are the same thing, or nearly, and are
            never taken for mismatched pairs; a missing value (None, NaN, an empty text) equals no other. Equal rows
            need none.
        seed: the same seed gives the same audit.
        recipe: how towers are fitted.
        progress: show a bar; by default on a terminal.
        drop_bad: leave out pairs with NaN or infinite values and, unless ``fit``, with rows of nothing but zeros. They
            stay in the results as NaN, so that indices mean the rows of ``a`` and ``b``.
        groups: the former name of ``duplicates``. (Rates by source come from ``group_rates`` or ``Audit.save``.)

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
    if not fit and a.shape[1] != b.shape[1]:
        raise UsageError(
            f"a and b must live in one space, but are {a.shape[1]} and {b.shape[1]} wide: "
            "use fit=True (--fit) to learn one"
        )
    same = _renamed(duplicates, groups)
    keys = [codes(value, name, len(a)) for name, value in (("ids", ids), ("duplicates", same)) if value is not None]
    score, scorer = scorer_of(fit, recipe, progress)
    part = Arrays(a, b, keys, None if fit else progress)
    found = judged_parts(Here(), [part], score, fit=fit, seed=seed, drop_bad=drop_bad)
    result = _as_audit(found.scored.scores[0], found.places[0], found.scored.null, found.decision, fit, scorer)
    result = dataclasses.replace(result, fingerprint=found.scored.fingerprint)
    return with_gaps(result, len(a), found.dropped[0]) if sum(found.dropped_count) else result


def _renamed(duplicates: Any, groups: Any) -> Any:
    if groups is None:
        return duplicates
    if duplicates is not None:
        raise UsageError("give duplicates alone: groups is the former name of the same")
    warnings.warn(
        "audit(groups=...) is called audit(duplicates=...) now, as in rince audit --duplicates",
        DeprecationWarning,
        stacklevel=3,
    )
    return groups


def scorer_of(fit: bool, recipe: "Recipe | None" = None, progress: bool | None = None) -> tuple["Score", str]:
    """What scores pairs, and what it is called."""
    if not fit:
        return cosine_scores_of, "the cosine"
    from rince.audit.fit.bounded import fitted_scores_of

    return (lambda parts, seed: fitted_scores_of(parts, seed, recipe, progress)), "towers fitted on the other pairs"


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
        raise UsageError("clusters must have one number per pair and count from 0 without gaps")
    things = len(scored.scores) if clusters is None else int(clusters.max()) + 1
    null = Null(scored.null, scored.hit_by_accident, scored.with_rival)
    place = places(scored.scores, np.sort(scored.null))
    decision = decide(null, compact(counted(place, len(scored.null))), things, seed)
    return _as_audit(scored.scores, place, null, decision, fitted, scorer)


def _as_audit(
    scores: NDArray[np.float32], place: NDArray[np.int32], null: Null, decision: Decision, fitted: bool, scorer: str
) -> Audit:
    p = p_at(place, null.scores, decision.kept)
    return Audit(
        scores=scores,
        p_values=p,
        p_wrong=at_p_values(p, decision.chance),
        **decided(decision, null.scores, len(scores), fitted, scorer),
    )
