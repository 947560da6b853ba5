"""Issue types other than unrelated pairs: problems of the data, or violated assumptions of the audit.

Each check is a function from arrays to an ``Issue``: a score per pair, a count, example rows, a sentence, and whether
the issue is claimed. Thresholds are named constants, measured on clean and on damaged real pairs
(``experiments/evidence/audit_scorers.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rince.audit.null import class_side
from rince.pairs.matrix import chunks, row_codes

EXAMPLES = 10
MIN_GROUP, MIN_GROUP_SHARE = 20, 0.005
"""Size of a group of near-identical rows that may be placeholders."""
NEAR = 0.995  # cosine of centered rows that count as nearly the same
PLACEHOLDER_P = 0.01  # partners more concentrated than random ones at this level belong together
PLACEHOLDER_EXCESS = 0.05  # excess concentration of partners below which it is negligible
MAX_CLASS_SHARE = 0.9  # share of rows in large groups above which a side is a class
PERMUTATIONS, NEIGHBORS = 199, 10
MAX_OFFSET, CLIP, SWITCH_PENALTY = 5, 6.0, 12.0
MIN_SHIFT_GAIN = 0.8
"""Deviations of mismatched pairs that a shifted row must gain on average: sides without relation fit no offset."""
MAX_SHIFT_AUTOCORRELATION = 0.8
"""Autocorrelation of neighbors above which offsets cannot be determined."""
GROUP_SHARE, GROUP_EXCESS, GROUP_P = 0.5, 2.0, 1e-6
GIVEN, CHECK_FLAGS = "given column", "look at its flags before you trust them."
MAX_GROUP_SHARE = 0.3  # of all pairs; a larger part of the data is not a subgroup
LEAK_CORRELATION = 0.99
MAX_COMPARED = 20_000_000_000  # products of two ranks up to which all columns are compared
MAX_RANKED = 25_000_000  # numbers of a side whose ranks are computed
HASHES, HASH_BITS, HASHED_ROWS, MAX_BUCKET, MAX_UNEQUAL = 32, 22, 128, 4, 9
MAX_LEAKS, MAX_LEAK_SHARE = 2, 0.25
"""Number of columns, or share of them, that may be leaks."""
MIN_LEAK_VALUES = 10  # distinct values; fewer would be a class, not an id
ORDER_Z, ORDER_CORRELATION = 5.0, 0.1
MIN_BLOCKS = 10
HELD_OUT_P, MIN_HELD_OUT = 0.001, 30
MAX_ROWS = 20_000  # rows for quadratic checks
NONE_FOUND = "None found."
SPREAD_AXES, EXACT_AXES = 16, 512

Rows = NDArray[np.int64]
Matrix = NDArray[np.generic]
Floats = NDArray[np.floating]


@dataclass(frozen=True, eq=False, kw_only=True)
class Issue:
    """Result of one check.

    Attributes:
        name: Issue type, such as ``"placeholder"``.
        claimed: Whether the issue is present by the check's threshold.
        scores: (pairs,) from 0 (not affected) to 1; empty for issues of columns or of the whole data.
        count: Number of affected pairs, or of columns for a leak.
        examples: Up to ``EXAMPLES`` affected rows, worst first.
        explanation: One sentence for the user.
        details: Numbers of the check.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(500, 16))
        >>> b = a + 0.3 * random.normal(size=a.shape)
        >>> b[:100] = 1.0  # failed downloads
        >>> issue = rince.audit_pairs(a, b).issues["placeholder"]
        >>> issue.claimed, issue.count
        (True, 100)
    """

    name: str
    claimed: bool
    scores: NDArray[np.float32]
    count: int
    examples: Rows
    explanation: str
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def is_reported(self) -> bool:
        """Whether a summary mentions it beside the verdict: claimed issues, and the test of held-out pairs."""
        return (self.claimed and self.name != "unrelated") or self.name == "trained_on_these"

    def spread(self, rows: Rows, n: int) -> "Issue":
        """The issue of some rows as one of all ``n``: 0 for the others."""
        scores = self.scores
        if len(scores):
            scores = np.zeros(n, dtype=np.float32)
            scores[rows] = self.scores
        details = self.details
        if "partner" in details:
            partner, gain = np.full(n, -1), np.full(n, -np.inf, dtype=np.float32)
            partner[rows], gain[rows] = rows[details["partner"]], details["gain"]
            details = {**details, "partner": partner, "gain": gain}
        return replace(self, scores=scores, examples=rows[self.examples], details=details)

    def record(self) -> dict[str, Any]:
        """Entry of ``audit.json``; arrays of one value per pair are left out."""
        details = {name: value for name, value in self.details.items() if not isinstance(value, np.ndarray)}
        return {
            "claimed": self.claimed,
            "count": self.count,
            "examples": self.examples.tolist(),
            "explanation": self.explanation,
            **details,
        }


def _issue(name: str, scores: Floats, affected: NDArray[np.bool_], explanation: str, **details: Any) -> Issue:
    rows = np.flatnonzero(affected)
    examples = rows[np.argsort(-scores[rows], kind="stable")][:EXAMPLES]
    return Issue(
        name=name, claimed=bool(len(rows)), scores=scores.astype(np.float32), count=len(rows), examples=examples,
        explanation=explanation if len(rows) else NONE_FOUND, details=details,
    )  # fmt: skip


# --- rows that occur often --------------------------------------------------------------------------------------------


SHIFTS = 0.0, 0.5  # a group is not cut by the rounding edges of both


class Cells(NamedTuple):
    """Rounding of rows on 12 random projections to a hundredth of their spread: nearly equal rows share a cell."""

    directions: NDArray[np.float32]
    width: Floats

    @classmethod
    def of(cls, x: Matrix, seed: int) -> "tuple[Cells, NDArray[np.float32]]":
        """The cells of some rows, and the projections of these rows."""
        directions = np.random.default_rng(seed).normal(size=(x.shape[1], 12)).astype(np.float32)
        projected = projections(x, directions)
        # Of heavy-tailed rows most are near the center for the standard deviation, not for the quartiles.
        spread = 0.74 * _iqr(projected)
        width = np.where(spread > 1e-6 * projected.std(0), spread, projected.std(0)) * (1 - NEAR) * 4
        return cls(directions, np.maximum(width, 1e-12)), projected

    def codes(self, projected: NDArray[np.float32], shift: float) -> NDArray[np.int64]:
        return row_codes(np.floor(projected / self.width + shift))


def projections(x: Matrix, directions: NDArray[np.float32]) -> NDArray[np.float32]:
    projected = np.empty((len(x), directions.shape[1]), dtype=np.float32)
    step = max(1, 8_000_000 // x.shape[1])
    for start in range(0, len(x), step):
        projected[start : start + step] = np.asarray(x[start : start + step], dtype=np.float32) @ directions
    return projected


def near_groups(x: Matrix, seed: int = 0) -> NDArray[np.int64]:
    """(rows,) group of nearly equal rows (equal after rounding of random projections), -1 for small ones."""
    cells, projected = Cells.of(x, seed)
    best = np.full(len(x), -1)
    size = np.zeros(len(x), dtype=np.int64)
    for shift in SHIFTS:
        _, group, counts = np.unique(cells.codes(projected, shift), return_inverse=True, return_counts=True)
        better = counts[group] > size
        best[better], size[better] = group[better] + int(shift * 2) * len(x), counts[group][better]
    best[size < max(MIN_GROUP, MIN_GROUP_SHARE * len(x))] = -1
    large = best >= 0
    best[large] = np.unique(best[large], return_inverse=True)[1]
    return best


class NearRows(NamedTuple):
    """Finds rows nearly equal to one of the known rows."""

    cells: Cells
    known: list[NDArray[np.int64]]

    @classmethod
    def of(cls, x: Matrix, rows: Rows, seed: int) -> "NearRows":
        """For rows nearly equal to these rows of ``x``."""
        cells, projected = Cells.of(x, seed)
        return cls(cells, [cells.codes(projected[rows], shift) for shift in SHIFTS])

    def find(self, x: Matrix) -> NDArray[np.bool_]:
        projected = projections(x, self.cells.directions)
        masks = [np.isin(self.cells.codes(projected, s), k) for s, k in zip(SHIFTS, self.known, strict=True)]
        return masks[0] | masks[1]


def _iqr(x: Floats) -> Floats:
    low, high = np.quantile(x, [0.25, 0.75], axis=0)
    return np.asarray(high - low)


def placeholder(a: Matrix, b: Matrix, seed: int = 0) -> Issue:
    """Rows that stand in for many items of one side: failed downloads, blank pictures, empty texts.

    A group of nearly equal rows is claimed if the partners of its members are spread like random rows; partners of a
    real item that occurs often resemble each other. A side that consists of such groups is a class and never claimed.
    """
    scores = np.zeros(len(a))
    groups = []
    for side, x, partner in (("a", a, b), ("b", b, a)):
        group = near_groups(x, seed)
        if not (group >= 0).any() or (group >= 0).mean() > MAX_CLASS_SHARE:
            continue
        features = spread_features(partner, seed)
        for number in range(int(group.max()) + 1):
            members = np.flatnonzero(group == number)
            excess, p = concentration(features, members, np.random.default_rng([seed, number]))
            if p > PLACEHOLDER_P or excess < PLACEHOLDER_EXCESS:
                scores[members] = 1 - excess
                groups.append({"side": side, "rows": len(members), "first": int(members[0]), "p": p})
    affected = scores > 0
    return _issue("placeholder", scores, affected, placeholder_text(int(affected.sum())), groups=groups)


def placeholder_text(count: int) -> str:
    return (
        f"{count:,} pairs have a placeholder on one side: one (nearly) identical row with unrelated partners, such as "
        "failed downloads. They are reported apart and are not part of the estimate."
    )


def spread_features(x: Matrix, seed: int) -> NDArray[np.float32]:
    """(rows, 16) standardized principal components, in which neighbors are looked for."""
    sample = np.asarray(x[:: -(-len(x) // MAX_ROWS)], dtype=np.float32)
    mean = sample.mean(0)
    axes = principal_axes(sample - mean, SPREAD_AXES, seed)
    features = np.empty((len(x), axes.shape[1]), dtype=np.float32)
    for part in chunks(len(x), x.shape[1]):
        features[part] = (x[part].astype(np.float32) - mean) @ axes
    return features / np.maximum(features.std(0), 1e-9)


def principal_axes(x: Floats, width: int, seed: int) -> Floats:
    """(p, width) principal axes of centered rows: exact for up to 512 rows or columns, else by subspace iteration."""
    rows, p = x.shape
    x = x / max(float(np.abs(x).max()), 1e-30)  # squares of huge outliers overflow
    width = min(width, p, max(1, rows - 1))
    if min(rows, p) <= EXACT_AXES:
        gram = (x.T @ x if p <= rows else x @ x.T).astype(np.float64)
        vectors = np.linalg.eigh(gram)[1][:, ::-1][:, :width].astype(np.float32)
        return np.asarray(vectors if p <= rows else np.linalg.qr(x.T @ vectors)[0])
    start = np.random.default_rng(seed).standard_normal((rows, 2 * width + 16), dtype=np.float32)
    basis = np.linalg.qr(x.T @ start)[0]
    for _ in range(3):
        basis = np.linalg.qr(x.T @ (x @ basis))[0]
    return np.asarray(basis @ np.linalg.svd(x @ basis, full_matrices=False)[2][:width].T)


def concentration(x: NDArray[np.float32], members: Rows, random: np.random.Generator) -> tuple[float, float]:
    """How much more often neighbors of members are members than for random sets of that size, and its p-value.

    Returns:
        Excess from 0 (like random rows) to 1 (all neighbors are members), and the permutation p-value of more.
    """
    queries = random.permutation(members)[:200]
    pool = random.permutation(len(x))[:MAX_ROWS]
    is_member = np.isin(pool, members)
    share = is_member.mean()
    distances = (x[pool] ** 2).sum(1)[None] - 2 * x[queries] @ x[pool].T
    distances[queries[:, None] == pool[None]] = np.inf
    nearest = np.argpartition(distances, NEIGHBORS, axis=1)[:, :NEIGHBORS]
    observed = is_member[nearest].mean()
    # Random sets: the same neighborhoods, other labels. Queries are members, so the labels alone are permuted.
    null = [random.permutation(is_member)[nearest].mean() for _ in range(PERMUTATIONS)]
    p = (1 + sum(value >= observed for value in null)) / (PERMUTATIONS + 1)
    return float(max(0.0, (observed - share) / max(1 - share, 1e-9))), p


def duplicate(a: Matrix, b: Matrix) -> Issue:
    """Pairs that occur more than once, and items that occur with different partners."""
    code_a, code_b = row_codes(a), row_codes(b)
    pair = np.unique(np.stack([code_a, code_b], axis=1), axis=0, return_inverse=True)[1].ravel()
    copies = np.bincount(pair)[pair]
    repeated = [np.unique(code, return_inverse=True)[1] for code in (code_a, code_b)]
    other = np.zeros(len(a), dtype=bool)
    for item in repeated:
        partners = np.bincount(item[np.unique(pair, return_index=True)[1]])
        if (partners > 1).mean() < 0.5:  # else the side is a class, or has several partners by design
            other |= partners[item] > 1
    scores = np.where(copies > 1, 1.0, np.where(other, 0.5, 0.0))
    text = (
        f"{(copies > 1).sum():,} pairs occur more than once, and {other.sum():,} have an item with other partners too."
    )
    return _issue("duplicate", scores, scores > 0, text, equal_pairs=int((copies > 1).sum()), shared=int(other.sum()))


# --- order of the rows ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """How rows depend on their neighbors.

    Attributes:
        dependent: Whether neighboring rows resemble each other on both sides.
        correlation: Lag-1 autocorrelation, the smaller of both sides.
        length: Lag at which the autocorrelation falls below 0.1: the distance at which rows are independent.
        block, gap: Arguments for ``units.block_folds``.
        blocks: Number of blocks of ``block`` rows.
        independent: Number of independent stretches: rows / length.
        differences: Whether there are fewer than 10 blocks, so that first differences must be audited instead.
        explanation: One sentence for the user.
    """

    dependent: bool
    correlation: float
    length: int
    block: int
    gap: int
    blocks: int
    independent: int
    differences: bool
    explanation: str

    def issue(self) -> Issue:
        """The same as an issue of the whole data."""
        details = {name: value for name, value in vars(self).items() if name not in ("dependent", "explanation")}
        return Issue(
            name="order", claimed=self.dependent, scores=np.zeros(0, np.float32), count=0,
            examples=np.zeros(0, np.int64), explanation=self.explanation, details=details,
        )  # fmt: skip


def order(a: Matrix, b: Matrix, seed: int = 0) -> Order:
    """Whether rows are a series: then random folds leak, and neighbors do not count as independent pairs.

    Where one side is a class, items of one class resemble each other in any order: what counts is how the rest of an
    item depends on its neighbors, so rows that are sorted by class are not a series.
    """
    n = len(a)
    codes = row_codes(a), row_codes(b)
    side = class_side(*codes)
    if side is None:
        sides = [spread_features(x, seed) for x in (a, b)]
    else:
        items, of_class = (b, codes[0]) if side == "left" else (a, codes[1])
        sides = [within(spread_features(items, seed), of_class)]
    first = [autocorrelation(x, 1) for x in sides]
    correlation = min(first)
    # Mean of a product over rows and axes: its deviation under independence is about 1 / sqrt(rows * axes).
    z = min(r * np.sqrt(n * x.shape[1]) for r, x in zip(first, sides, strict=True))
    if z <= ORDER_Z or correlation <= ORDER_CORRELATION:
        return Order(False, correlation, 1, 1, 0, n, n, False, "Rows do not depend on their neighbors.")
    length = 1
    while length < n // 4 and max(autocorrelation(x, length) for x in sides) > ORDER_CORRELATION:
        length = max(length + 1, int(length * 1.2))
    block = 4 * length
    blocks, independent = n // block, max(1, n // length)
    differences = blocks < MIN_BLOCKS and side is None
    text = (
        f"Neighboring rows resemble each other (autocorrelation {correlation:.2f}, over about {length} rows): "
        f"{n:,} pairs count as {independent:,} to {n:,} independent ones."
    )
    return Order(True, correlation, length, block, length, blocks, independent, differences, text)


def within(x: Floats, classes: Rows) -> Floats:
    """Standardized rows centered by class."""
    group = np.unique(classes, return_inverse=True)[1]
    sums = np.zeros((int(group.max()) + 1, x.shape[1]))
    np.add.at(sums, group, x)
    rest = x - (sums / np.bincount(group)[:, None])[group]
    return np.asarray(rest / np.maximum(rest.std(0), 1e-9))


def effective_size(scores: Floats, length: int) -> int:
    """Number of independent rows behind a series of scores: rows / (1 + twice the sum of its autocorrelations)."""
    ranked = np.argsort(np.argsort(scores)).astype(np.float64)
    z = ((ranked - ranked.mean()) / max(ranked.std(), 1e-12))[:, None]
    total = sum(max(0.0, autocorrelation(z, lag)) for lag in range(1, min(length, len(z) - 1) + 1))
    return max(1, int(len(z) / (1 + 2 * total)))


def autocorrelation(x: Floats, lag: int) -> float:
    """Mean over columns of the correlation of rows with the rows ``lag`` later."""
    return float((x[:-lag] * x[lag:]).mean() - x[:-lag].mean(0) @ x[lag:].mean(0) / x.shape[1])


def shifted(
    za: Floats, zb: Floats, units: Rows | None = None, temperature: float = 1.0, rows: Rows | None = None
) -> Issue:
    """Stretches of rows in which partner i + k fits better than partner i, for small k: off-by-one joins.

    Args:
        za, zb: (pairs, width) rows whose inner product is the score of a pair, such as unit embeddings or canonical
            variates of a fit, in the order of the data.
        units: (pairs,) file or document of each row; offsets do not cross its borders.
        temperature: Divides inner products. Scores are standardized by mismatched pairs in any case.
        rows: (pairs,) row numbers that stretches are reported by. Default: from 0.
    """
    n, offsets = len(za), np.arange(-MAX_OFFSET, MAX_OFFSET + 1)
    random = np.random.default_rng(0)
    i, j = random.integers(n, size=(2, 20_000))
    null = (za[i] * zb[j]).sum(1)[i != j] / temperature
    center, scale = float(null.mean()), max(float(null.std()), 1e-12)
    fit, number = np.full((n, len(offsets)), -CLIP), np.arange(n) if rows is None else rows
    for column, offset in enumerate(offsets):
        own = np.arange(max(0, -offset), min(n, n - offset))
        if units is not None:
            own = own[units[own] == units[own + offset]]
        score = ((za[own] * zb[own + offset]).sum(1) / temperature - center) / scale
        fit[own, column] = np.clip(score, -CLIP, CLIP) - (MIN_SHIFT_GAIN if offset else 0)
    alike = autocorrelation(zb / np.maximum(zb.std(0), 1e-12), 1)
    path = viterbi(fit, SWITCH_PENALTY) if alike <= MAX_SHIFT_AUTOCORRELATION else np.full(n, MAX_OFFSET)
    shift = offsets[path]
    ends = np.flatnonzero(np.diff(shift, prepend=0, append=0))
    stretches = [
        {"first": int(number[start]), "last": int(number[end - 1]), "offset": int(shift[start])}
        for start, end in pairwise(ends.tolist())
        if shift[start] != 0
    ]
    gain = np.where(shift != 0, (np.take_along_axis(fit, path[:, None], 1)[:, 0] - fit[:, MAX_OFFSET]) / (2 * CLIP), 0)
    scores = np.where(shift != 0, np.clip(0.5 + gain / 2, 0, 1), 0)
    listing = ", ".join(
        f"rows {stretch['first']} to {stretch['last']} by {stretch['offset']:+d}" for stretch in stretches[:3]
    )
    more = f" and {len(stretches) - 3} more stretches" if len(stretches) > 3 else ""
    text = f"{(shift != 0).sum():,} pairs fit the partner of a nearby row better: {listing}{more}."
    return _issue("shifted", scores, shift != 0, text, stretches=stretches, skipped=alike > MAX_SHIFT_AUTOCORRELATION)


def viterbi(fit: Floats, penalty: float) -> Rows:
    """(rows,) column with the largest sum of fits, each change of column costing ``penalty``."""
    n, k = fit.shape
    total, totals = fit[0].copy(), np.empty((n, k))
    totals[0] = total
    for row in range(1, n):
        np.maximum(total, total.max() - penalty, out=total)
        total += fit[row]
        totals[row] = total
    best = totals.argmax(1)
    switch = (totals.max(1, keepdims=True) - penalty > totals).tolist()
    column, path = int(best[-1]), best.tolist()
    for row in range(n - 2, -1, -1):
        if not switch[row][column]:
            path[row] = column
        column = path[row]
    return np.array(path)


# --- partners, groups, columns, models --------------------------------------------------------------------------------


def better_partner(za: Floats, zb: Floats) -> Issue:
    """Pairs that would gain most from exchanging partners with another pair: a ranking, never a claim.

    The gain of an exchange is s_ij + s_ji - s_ii - s_jj, with s the inner product of ``za`` and ``zb``. It is
    symmetric: each block of pairs is compared with itself and with later ones.
    """
    n = len(za)
    own, ones = (za * zb).sum(1, keepdims=True), np.ones((n, 1), dtype=za.dtype)
    left, right = np.hstack([za, zb, -own, ones]), np.hstack([zb, za, ones, -own])
    gain, partner = np.full(n, -np.inf, dtype=za.dtype), np.zeros(n, dtype=np.int64)

    def keep(rows: slice, columns: slice, table: Floats) -> None:
        best = table.max(1)
        better = np.flatnonzero(best > gain[rows])
        gain[rows][better] = best[better]
        partner[rows][better] = columns.start + table[better].argmax(1)

    blocks = [slice(start, min(start + 1000, n)) for start in range(0, n, 1000)]
    for k, rows in enumerate(blocks):
        for columns in blocks[k:]:
            gains = left[rows] @ right[columns].T
            if rows == columns:
                np.fill_diagonal(gains, -np.inf)
            else:
                keep(columns, rows, gains.T)
            keep(rows, columns, gains)
    ranks = np.argsort(np.argsort(gain)) / max(n - 1, 1)
    examples = np.argsort(-gain)[:EXAMPLES]
    return Issue(
        name="better_partner", claimed=False, scores=ranks.astype(np.float32), count=0, examples=examples,
        explanation="Ranking of pairs by the gain of an exchange of partners; not a count.",
        details={"gain": gain, "partner": partner},
    )  # fmt: skip


def group(
    flagged: NDArray[np.bool_], sides: Sequence[Matrix] = (), labels: ArrayLike | None = None, seed: int = 0
) -> Issue:
    """Subgroups in which nearly everything is flagged: more likely unreadable for the encoder than wrong.

    Args:
        flagged: (pairs,) pairs that the audit flags.
        sides: Feature matrices in which clusters are looked for (k-means, 8 and 16 per side).
        labels: (pairs,) a given column, such as language or source.
        seed: Seed of the clusters.
    """
    partitions = [] if labels is None else [(GIVEN, np.unique(np.asarray(labels), return_inverse=True)[1])]
    for name, x in zip(("a", "b"), sides, strict=False):
        features = spread_features(x, seed)
        partitions += [(f"clusters of {name}", kmeans(features, k, seed)) for k in (8, 16)]
    scores, unreadable, groups = np.zeros(len(flagged)), np.zeros(len(flagged), dtype=bool), []
    for name, part in partitions:
        for number in range(int(part.max()) + 1):
            members = part == number
            size, hits = int(members.sum()), int(flagged[members].sum())
            if not MIN_GROUP <= size <= MAX_GROUP_SHARE * len(flagged):
                continue
            rest = flagged[~members].mean()
            if hits < max(GROUP_SHARE, GROUP_EXCESS * rest) * size:
                continue
            if binomial_tail(hits, size, float(rest)) < GROUP_P:
                scores[members] = np.maximum(scores[members], hits / size)
                unreadable |= members & (name != GIVEN)
                groups.append({"by": name, "number": number, "pairs": size, "flagged": hits})
    affected = scores > 0
    text = (
        f"{affected.sum():,} pairs are in groups of which nearly all score like mismatched pairs. Either such a group "
        "is mispaired as a whole, or the encoder cannot read its language or format: "
    )
    text += "its pairs are listed, not flagged, and the interval allows for both." if unreadable.any() else CHECK_FLAGS
    return _issue("group", scores, affected, text, groups=groups, unreadable=unreadable)


def kmeans(x: NDArray[np.float32], k: int, seed: int, steps: int = 15) -> Rows:
    """(rows,) cluster of every row, by Lloyd's algorithm from distinct random rows chosen far apart."""
    random = np.random.default_rng(seed)
    sample = x[random.permutation(len(x))[:MAX_ROWS]]
    centers, distance = sample[:1], np.full(len(sample), np.inf, dtype=x.dtype)
    while len(centers) < k:  # k-means++
        distance = np.minimum(distance, ((sample - centers[-1]) ** 2).sum(1))
        chance = distance + 1e-12
        centers = np.vstack([centers, sample[random.choice(len(sample), p=chance / chance.sum())]])
    for _ in range(steps):
        label = ((centers**2).sum(1)[None] - 2 * sample @ centers.T).argmin(1)
        count = np.bincount(label, minlength=k)[:, None]
        sums = (label == np.arange(k)[:, None]).astype(x.dtype) @ sample
        centers = np.where(count > 0, sums / np.maximum(count, 1), centers).astype(x.dtype)
    return np.asarray(((centers**2).sum(1)[None] - 2 * x @ centers.T).argmin(1))


def binomial_tail(hits: int, size: int, share: float) -> float:
    """Chernoff bound on the probability of at least ``hits`` of ``size`` at this share."""
    observed, share = hits / size, min(max(share, 1e-6), 1 - 1e-6)
    if observed <= share:
        return 1.0
    divergence = observed * np.log(observed / share) + (
        0 if observed == 1 else (1 - observed) * np.log((1 - observed) / (1 - share))
    )
    return float(np.exp(-size * divergence))


def leak(a: Matrix, b: Matrix) -> Issue:
    """Columns on both sides that give the pairing away: ids, times, file numbers."""
    max_rows = min(2000, max(HASHED_ROWS, MAX_RANKED // max(a.shape[1], b.shape[1])))
    rows = np.sort(np.random.default_rng(0).permutation(len(a))[:max_rows])
    ranked = [ranked_columns(x, rows) for x in (a, b)]
    if ranked[0].size * len(ranked[1]) <= MAX_COMPARED:
        matches = [np.empty((0, 2), dtype=np.int64)]
        for start in range(0, len(ranked[0]), 1000):
            correlation = np.abs(ranked[0][start : start + 1000] @ ranked[1].T)
            matches.append(np.argwhere(correlation > LEAK_CORRELATION) + np.array([start, 0]))
        columns = [(int(i), int(j)) for i, j in np.concatenate(matches)]
    else:
        columns = similar_columns(*ranked)
    # Where most columns agree, they are the relation between the sides, not a leak.
    is_leak = len(columns) <= max(MAX_LEAKS, MAX_LEAK_SHARE * min(a.shape[1], b.shape[1]))
    is_leak &= all(len({pair[k] for pair in columns}) < x.shape[1] for k, x in enumerate((a, b)))
    text = (
        f"{len(columns)} columns occur on both sides up to scale (ids, times, file numbers?) and give the pairing "
        "away: the scorer was fitted without them."
    )
    claimed = bool(columns) and is_leak
    return Issue(
        name="leak", claimed=claimed, scores=np.zeros(0, np.float32), count=len(columns),
        examples=np.zeros(0, np.int64), explanation=text if claimed else NONE_FOUND, details={"columns": columns},
    )  # fmt: skip


def ranked_columns(x: Matrix, rows: Rows) -> NDArray[np.float32]:
    """(columns, rows) ranks of each column, centered and of length 1; 0 for a column with few values."""
    out = np.empty((x.shape[1], len(rows)), dtype=np.float32)
    for part in chunks(x.shape[1], len(rows)):
        values = np.ascontiguousarray(x[rows, part].T)
        order = np.argsort(values, axis=1, kind="stable")
        ranks = np.empty(order.shape)
        np.put_along_axis(ranks, order, np.arange(len(rows), dtype=np.float64)[None], axis=1)
        distinct = 1 + (np.diff(np.take_along_axis(values, order, 1), axis=1) != 0).sum(1)
        ranks[distinct < MIN_LEAK_VALUES] = 0
        ranks -= ranks.mean(1, keepdims=True)
        out[part] = ranks / np.maximum(np.linalg.norm(ranks, axis=1, keepdims=True), 1e-12)
    return out


def similar_columns(x: NDArray[np.float32], y: NDArray[np.float32]) -> list[tuple[int, int]]:
    """Pairs of unit rows of two matrices with a cosine above ``LEAK_CORRELATION`` or below its negative.

    Rows are hashed by the signs of random projections. Rows with such a cosine share at least one of ``HASHES`` hashes,
    and most bits of a signature, with a probability above 0.999. Only rows that do are compared.
    """
    random = np.random.default_rng(0)
    sample = random.permutation(x.shape[1])[:HASHED_ROWS]
    planes = random.standard_normal((len(sample), HASHES * HASH_BITS + 64), dtype=np.float32)
    kept = [np.flatnonzero(side.any(1)) for side in (x, y)]
    (left, sign_x), (right, sign_y) = (
        _hashed(side, rows, sample, planes) for side, rows in zip((x, y), kept, strict=True)
    )
    bits = np.array([number.bit_count() for number in range(2**16)], dtype=np.uint8)
    matches: set[tuple[int, int]] = set()
    for k in range(HASHES):
        order = np.argsort(left[:, k], kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(left[:, k], minlength=2**HASH_BITS))])
        for opposite in (False, True):
            code = 2**HASH_BITS - 1 - right[:, k] if opposite else right[:, k]
            first = start[code]
            count = np.minimum(start[code + 1] - first, MAX_BUCKET)
            within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            i, j = order[np.repeat(first, count) + within], np.repeat(np.arange(len(code)), count)
            unequal = bits[sign_x[i] ^ sign_y[j]].sum(1, dtype=np.int64)
            close = (64 - unequal if opposite else unequal) <= MAX_UNEQUAL
            i, j = kept[0][i[close]], kept[1][j[close]]
            alike = np.abs(np.einsum("ij,ij->i", x[i], y[j])) > LEAK_CORRELATION
            matches.update(zip(i[alike].tolist(), j[alike].tolist(), strict=True))
    return sorted(matches)


def _hashed(
    x: NDArray[np.float32], kept: Rows, sample: Rows, planes: NDArray[np.float32]
) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
    """(kept, hashes) numbers made of the signs of projections, and (kept, 4) signatures of 64 more signs."""
    powers = (2.0 ** np.arange(HASH_BITS)).astype(np.float32)
    codes, signs = np.empty((len(kept), HASHES), dtype=np.int32), np.empty((len(kept), 4), dtype=np.uint16)
    for part in chunks(len(kept), planes.shape[1]):
        above = x[kept[part]][:, sample] @ planes > 0
        codes[part] = above[:, 64:].reshape(-1, HASHES, HASH_BITS).astype(np.float32) @ powers
        signs[part] = np.packbits(above[:, :64], axis=1).view(np.uint16)
    return codes, signs


def trained_on_pairs(scores: Floats, held_out: Floats) -> Issue:
    """Whether the audited pairs score higher than pairs that the model has not seen.

    A two-sample Kolmogorov-Smirnov test; both samples must come from the same source.
    """
    enough = len(held_out) >= MIN_HELD_OUT
    p = kolmogorov_smirnov(scores, held_out) if enough else 1.0
    claimed = p < HELD_OUT_P and bool(scores.mean() > held_out.mean())
    if claimed:
        text = (
            f"The audited pairs score higher than {len(held_out):,} held-out pairs (p = {p:.2g}): the model was "
            "probably trained on the audited pairs."
        )
    elif enough:
        text = (
            f"The audited pairs do not score higher than {len(held_out):,} held-out pairs (p = {p:.2g}): no sign that "
            "the model was trained on them."
        )
    else:
        text = f"{len(held_out):,} held-out pairs are too few for a test: give at least {MIN_HELD_OUT}."
    return Issue(
        name="trained_on_these", claimed=claimed, scores=np.zeros(0, np.float32), count=0,
        examples=np.zeros(0, np.int64), explanation=text, details={"p": p},
    )  # fmt: skip


def kolmogorov_smirnov(x: Floats, y: Floats) -> float:
    """p-value of the two-sample test, by its asymptotic distribution."""
    values = np.sort(np.concatenate([x, y]))
    gap = np.searchsorted(np.sort(x), values, "right") / len(x) - np.searchsorted(np.sort(y), values, "right") / len(y)
    size = np.sqrt(len(x) * len(y) / (len(x) + len(y)))
    lam = (size + 0.12 + 0.11 / size) * np.abs(gap).max()
    k = np.arange(1, 101)
    return float(np.clip(2 * ((-1.0) ** (k - 1) * np.exp(-2 * (k * lam) ** 2)).sum(), 0, 1)) if lam > 0.2 else 1.0
