"""Which loss to train with, given how many pairs are wrong: a rule of thumb, looked up in a measured table."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from rince.errors import UsageError
from rince.losses import Contrast, ContrastiveLoss

TRUST_MARGIN = 0.02
"""Weights are more trouble than a loss alone: with them a loss has to be ahead by more than this share."""

PLAIN_MARGIN = 0.01
"""InfoNCE needs no explanation: another loss has to be ahead of it by more than this share."""


class Recommendation(NamedTuple):
    """A loss, with the temperature it was measured at, and why it is recommended.

    Attributes:
        loss: Its class in ``rince``, such as ``"GCE"``.
        arguments: Its arguments beside temperature and contrast.
        temperature: The median of those that served it best.
        label: How a table writes it, such as ``"GCE q 1"``.
        trust: Whether to weight pairs by the audit's ``trust`` as well (``weights=`` of a loss, ``--trust``).
        reason: One sentence.

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

    def build(self, contrast: Contrast | None = None) -> ContrastiveLoss:
        """The loss itself, by default over two views; two modalities want ``rince.CrossView()``."""
        from rince.losses import named_loss

        return named_loss(self.loss, self.arguments, self.temperature, contrast)


@cache
def tables() -> dict[str, dict[str, Any]]:
    """How near every loss comes to the best one, by noise rate, for ``"pairs"`` and for pairs made from ``"labels"``.

    See ``experiments.evidence.rule_of_thumb``.
    """
    return json.loads(files("rince.audit").joinpath("rule_of_thumb.json").read_text(encoding="utf-8"))


def recommend(rate: float, unknown: bool = False, labels: bool = False) -> Recommendation:
    """The best loss of the table at the measured noise rate nearest to ``rate``.

    Args:
        rate: The share of wrong pairs, in [0, 1].
        unknown: The rate is anybody's guess; the loss is then the one that falls least behind at any rate.
        labels: The pairs are made from labels, so that many partners of a batch fit as well as one's own. Other losses
            serve best there.

    Raises:
        UsageError: if the rate lies outside of [0, 1].

    Returns:
        The loss, its arguments, and the reason in one sentence.

    Example:
        >>> rince.audit.recommend(0.4).loss
        'GCE'
        >>> rince.audit.recommend(0.4, labels=True).loss
        'InfoNCE'
    """
    if not 0 <= rate <= 1:
        raise UsageError(f"the noise rate must lie in [0, 1], got {rate}")
    table = tables()["labels" if labels else "pairs"]
    rows = table["rows"]
    if unknown:
        return _whatever_the_rate(rows)
    nearest = min({row["rate"] for row in rows}, key=lambda known: (round(abs(known - rate), 6), -known))
    here = [row for row in rows if row["rate"] == nearest]
    best = max(here, key=lambda row: row["score"] - (TRUST_MARGIN if row["trust"] else 0))
    plain = next(row for row in here if row["loss"] == "infonce")
    best = plain if best["score"] - plain["score"] <= PLAIN_MARGIN else best
    beside = {task: "" if best is plain else f", InfoNCE {plain['means'][task]:.0f}" for task in best["means"]}
    ahead = "Best loss" if best["trust"] else "Best loss without weights"
    ahead = "No other loss was clearly ahead" if best is plain else ahead
    where = ", ".join(f"{task} ({mean:.0f}{beside[task]})" for task, mean in best["means"].items())
    return _as_recommendation(best, f"{ahead} at {nearest:.0%} {table['noise']} on {where}.")


def _whatever_the_rate(rows: list[dict[str, Any]]) -> Recommendation:
    scores: dict[str, list[float]] = {}
    for row in rows:
        scores.setdefault(row["loss"], []).append(row["score"])
    complete = max(map(len, scores.values()))
    safest = max((loss for loss in scores if len(scores[loss]) == complete), key=lambda loss: min(scores[loss]))
    safest = "infonce" if min(scores[safest]) - min(scores["infonce"]) <= PLAIN_MARGIN else safest
    row = next(row for row in rows if row["loss"] == safest)
    least = int(100 * min(scores[safest]))  # rounded down: "at least"
    why = f"The noise rate is unknown; this loss reached at least {least}% of the best one at every rate measured."
    return _as_recommendation(row, why)


def _as_recommendation(row: Mapping[str, Any], why: str) -> Recommendation:
    weighted = ", pairs weighted by the audit" if row["trust"] else ""
    reason = (
        f"For training, a rule of thumb: {row['label'].removesuffix(', trust')} at temperature "
        f"{row['temperature']:g}{weighted}. {why} `rince compare A B` measures it on your pairs."
    )
    return Recommendation(row["class"], row["arguments"], row["temperature"], row["label"], row["trust"], reason)
