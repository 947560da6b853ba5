"""Which loss to train with, given how many pairs are wrong: a rule of thumb, looked up in a measured table."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from rince.errors import UsageError

if TYPE_CHECKING:
    from rince.losses import Contrast, ContrastiveLoss

TRUST_MARGIN, PLAIN_MARGIN = 0.02, 0.01
"""Lead that a loss with weights must have over one without, and any other loss over InfoNCE, as shares of the best."""


class Recommendation(NamedTuple):
    """A loss, with the temperature it was measured at, and why it is recommended.

    Attributes:
        loss: Class in ``rince``, such as ``"GCE"``.
        arguments: Arguments of the class beside temperature and contrast.
        temperature: Median of the best temperatures.
        label: Name in tables, such as ``"GCE q 1"``.
        trust: Whether to weight pairs by the audit's ``weights`` as well (``weights=`` of a loss, ``--trust``).
        reason: A few sentences.

    Example:
        >>> loss = rince.audit.recommend(0.4).build(rince.CrossView())
        >>> loss(torch.randn(8, 16), torch.randn(8, 16)).shape
        torch.Size([])
    """

    loss: str
    arguments: Mapping[str, Any]
    temperature: float
    label: str
    trust: bool
    reason: str

    @property
    def advice(self) -> str:
        """The recommendation in one line."""
        weights = ", pairs weighted by the audit" if self.trust else ""
        return (
            f"Loss for training (rule of thumb): {self.label.removesuffix(', trust')}, temperature {self.temperature:g}"
            f"{weights}. Compare losses on your pairs: rince compare A B"
        )

    def build(self, contrast: "Contrast | None" = None) -> "ContrastiveLoss":
        """The loss. Default: ``rince.TwoView()``; use ``rince.CrossView()`` for two modalities."""
        from rince.losses import named_loss

        return named_loss(self.loss, self.arguments, self.temperature, contrast)


@cache
def tables() -> dict[str, dict[str, Any]]:
    """Results of every loss relative to the best, by noise rate, for ``"pairs"`` and for pairs made from ``"labels"``.

    See ``experiments.evidence.rule_of_thumb``.
    """
    return json.loads(files("rince.audit").joinpath("rule_of_thumb.json").read_text(encoding="utf-8"))


def recommend(rate: float, unknown: bool = False, labels: bool = False) -> Recommendation:
    """The best loss of the table at the measured noise rate nearest to ``rate``.

    Args:
        rate: Share of wrong pairs, in [0, 1].
        unknown: Whether the rate is unknown: then the loss with the best worst case over all rates.
        labels: Whether pairs are made from labels, so that many partners of a batch fit as well as the own one.

    Raises:
        UsageError: The rate is outside of [0, 1].

    Returns:
        The loss, its arguments, and the reason.

    Example:
        >>> rince.audit.recommend(0.4).loss
        'GCE'
        >>> rince.audit.recommend(0.4, labels=True).loss
        'InfoNCE'
    """
    if not 0 <= rate <= 1:
        raise UsageError(f"the noise rate must be in [0, 1], got {rate}")
    table = tables()["labels" if labels else "pairs"]
    rows = table["rows"]
    if unknown:
        return _best_worst_case(rows)
    nearest = min({row["rate"] for row in rows}, key=lambda measured: (round(abs(measured - rate), 6), -measured))
    candidates = [row for row in rows if row["rate"] == nearest]
    best = max(candidates, key=lambda row: row["score"] - (TRUST_MARGIN if row["trust"] else 0))
    plain = next(row for row in candidates if row["loss"] == "infonce")
    best = plain if best["score"] - plain["score"] <= PLAIN_MARGIN else best
    if best is plain:
        remark = "no other loss was clearly better"
    else:
        remark = "it was the best loss" if best["trust"] else "it was the best loss without weights"
    metrics = {task["task"]: task["metric"] for task in table["tasks"]}
    comparison = {task: "" if best is plain else f" (InfoNCE {plain['means'][task]:.0f})" for task in best["means"]}
    results = ", ".join(f"{task} {metrics[task]} {mean:.0f}{comparison[task]}" for task, mean in best["means"].items())
    return _as_recommendation(best, f"With {nearest:.0%} {table['noise']} {remark}: {results}.")


def _best_worst_case(rows: list[dict[str, Any]]) -> Recommendation:
    scores: dict[str, list[float]] = {}
    for row in rows:
        scores.setdefault(row["loss"], []).append(row["score"])
    complete = max(map(len, scores.values()))
    safest = max((loss for loss in scores if len(scores[loss]) == complete), key=lambda loss: min(scores[loss]))
    safest = "infonce" if min(scores[safest]) - min(scores["infonce"]) <= PLAIN_MARGIN else safest
    row = next(row for row in rows if row["loss"] == safest)
    worst = int(100 * min(scores[safest]))  # rounded down: "at least"
    detail = f"this loss reached at least {worst}% of the best at every share measured."
    return _as_recommendation(row, f"The share of wrong pairs is unknown; {detail}")


def _as_recommendation(row: Mapping[str, Any], why: str) -> Recommendation:
    weighted = ", pairs weighted by the audit" if row["trust"] else ""
    reason = (
        f"Loss for training, by a rule of thumb: {row['label'].removesuffix(', trust')}, temperature "
        f"{row['temperature']:g}{weighted}. {why} To compare losses on your pairs: rince compare A B."
    )
    return Recommendation(row["class"], row["arguments"], row["temperature"], row["label"], row["trust"], reason)
