"""What an audit found: how many pairs are wrong, which, how sure, and what cannot be told."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rince.audit.estimate.probability import at_p_values, suspects
from rince.audit.findings import Findings, findings_record
from rince.audit.unusable import kept_rows


@dataclass(frozen=True, eq=False, kw_only=True)
class Audit(Findings):
    """What an audit found. ``scores``, ``p_values`` and ``p_wrong`` have one value per pair, in the order of the input.

    Attributes:
        scores: How well a pair fits, higher is better: its cosine, or with ``fit=True`` the logarithm of how many times
            likelier than chance it is.
        p_values: The share of mismatched pairs that score at least as high as the pair.
        p_wrong: The probability of every pair to be wrong; 0 unless noise was found.
        dropped: The rows that ``drop_bad`` left out; their scores, p_values and p_wrong are NaN.

    All others, such as ``verdict``, ``noise_rate`` and ``interval``, are those of :class:`rince.audit.Findings`.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(500, 16))
        >>> b = a + 0.3 * random.normal(size=a.shape)
        >>> b[:100] = np.roll(b[:100], 1, axis=0)  # a fifth of the pairs is wrong
        >>> found = rince.audit.audit(a, b)
        >>> bool(found.trust[:100].mean() < 0.2 < 0.9 < found.trust[100:].mean())
        True
    """

    scores: NDArray[np.float32]
    p_values: NDArray[np.float32] = field(repr=False)
    p_wrong: NDArray[np.float32] = field(repr=False)
    dropped: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64), repr=False)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def judged_pairs(self) -> int:
        """How many pairs were judged."""
        return len(self) - len(self.dropped)

    def flagged_pairs(self, fdr: float) -> int:
        """How many pairs are flagged at this share of false alarms."""
        return len(self.flag(fdr))

    @property
    def trust(self) -> NDArray[np.float32]:
        """A weight for every pair in training: 1 - p_wrong, and 0 for dropped rows. All 1 unless noise was found."""
        return np.nan_to_num(1 - self.p_wrong, nan=0.0)

    def flag(self, fdr: float = 0.1) -> NDArray[np.int64]:
        """Indices of suspected pairs, most suspicious first: as many as keep the expected share of false alarms <= fdr.

        Empty where no noise was found, and where the scores are useless.
        """
        return self.suspects(fdr)[0]

    def suspects(self, fdr: float = 0.5) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The pairs ``flag(fdr)`` gives, and the expected share of false alarms if the list ended at each of them.

        The share is a cautious one: behind it are the lower ends of the 80 % intervals of ``p_wrong``.
        """
        p, scores = self.judged(self.p_values), self.judged(self.scores)
        found, alarms = suspects(at_p_values(p, self.cautious), scores, fdr)
        if len(self.dropped):
            found = kept_rows(len(self), self.dropped)[found]
        return (found, alarms) if self.noise_found else (found[:0], alarms[:0])

    def judged(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Values, one per pair, without those of dropped pairs."""
        return np.delete(values, self.dropped) if len(self.dropped) else values

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        fdr: float = 0.1,
        ids: ArrayLike | None = None,
        show_a: Any = None,
        show_b: Any = None,
        truth: ArrayLike | None = None,
        table: str = "csv",
        title: str = "Audit of pairs",
        force: bool = False,
        groups: ArrayLike | None = None,
        marks: Mapping[int, str] | None = None,
    ) -> None:
        """Write ``audit.csv`` (or ``.parquet``), ``audit.json`` and ``audit.html`` into a folder.

        ``ids`` name the pairs. ``show_a`` and ``show_b`` appear in the page's gallery: an array or a tensor of images,
        or a list of texts, images (arrays, tensors or of Pillow) or paths of pictures, sounds and videos. ``truth``
        (booleans, wrong or not) is marked there. Nothing is overwritten unless ``force``. ``groups`` has one value per
        pair, such as its source, for the noise rate by group; ``marks`` (row -> "keep", "wrong" or "unsure", see
        ``rince.audit.output.review.read_marks``) are those of an earlier review.
        """
        from rince.audit.save import save

        save(self, folder, fdr=fdr, ids=ids, show_a=show_a, show_b=show_b, truth=truth, table=table, title=title,
             force=force, groups=groups, marks=marks)  # fmt: skip


def as_record(result: Audit, fdr: float) -> Mapping[str, Any]:
    """What ``audit.json`` holds."""
    dropped = {"dropped": len(result.dropped), "dropped_rows": result.dropped[:1000].tolist()}
    return {**findings_record(result, fdr), **dropped}
