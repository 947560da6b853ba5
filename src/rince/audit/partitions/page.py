"""The page of an audit of partitions: of its pairs, the most suspicious ones."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince.audit.partitions.finish import Listed
from rince.audit.partitions.flags import list_end
from rince.audit.partitions.result import PartitionedAudit
from rince.audit.partitions.runner import Runner
from rince.report.audit_page import AUDIT_BODY, findings_data, group_data
from rince.report.histogram import extent, histogram
from rince.report.page import page

BINS = 60
LOOKED_AT = 100_000  # scores that say where a histogram begins and ends
STOPS = 200


def partitioned_page(
    result: PartitionedAudit, title: str, listed: list[Listed], chart: dict[str, Any], null: NDArray[np.float32]
) -> str:
    """The whole page as HTML.

    Args:
        result: The audit.
        title: The heading.
        listed: The most suspicious pairs, by partition.
        chart: The histogram of scores, see ``score_histogram``.
        null: The scores of mismatched pairs, for the slider.
    """
    score = np.concatenate([part.score for part in listed])
    row = np.concatenate([part.row for part in listed])
    order = np.lexsort([row, score])
    ids = [name for part in listed for name in part.id]
    groups = [name for part in listed for name in part.group]
    chance = np.concatenate([part.p_wrong for part in listed])
    stops, start = _stops(result, np.sort(null))
    about = f"{result.pairs} {title} {score.sum()} {ids[:100]}".encode("utf-8", "replace")
    data = {
        **findings_data(result, title, result.fdr),
        "key": hashlib.blake2b(about, digest_size=12).hexdigest(),
        "histogram": chart,
        "stops": stops,
        "start": start,
        "rows": {
            "row": row[order].tolist(),
            "id": [ids[k] for k in order],
            "score": np.round(score[order].astype(np.float64), 4).tolist(),
            "p": np.round(chance[order].astype(np.float64), 3).tolist(),
            "a": [None] * len(order),
            "b": [None] * len(order),
            "wrong": [],
        },
        "shows": {"a": False, "b": False},
        "cut": result.pairs - len(order),
        "truth": False,
        "marks": {},
        **group_data(result.groups, [groups[k] for k in order] if groups else []),
    }
    return page(title, AUDIT_BODY, {"kind": "audit", "audit": data})


def _stops(result: PartitionedAudit, ordered: NDArray[np.float32]) -> tuple[list[dict[str, Any]], int]:
    """Where the slider can stop: after whole places, and where the table stops; and which of these is the last."""
    nothing: dict[str, Any] = {"count": 0, "alarms": 0.0, "score": None}
    end = list_end(result.counts, result.place_chance, 0.5) if result.noise_found else None
    if end is None:
        return [nothing], 0
    some = (result.counts.place <= end.place) & (result.place_chance > 0)
    place, count = result.counts.place[some], np.cumsum(result.counts.many[some])
    alarms = np.cumsum(result.counts.many[some] * (1 - result.place_chance[some].astype(np.float64))) / count
    chosen = np.unique(np.searchsorted(count, np.linspace(1, count[-1], STOPS)).clip(max=len(count) - 1))
    near = int(np.abs(count - result.flagged).argmin()) if result.flagged else 0
    chosen = np.unique([*chosen, near])
    value = ordered[np.minimum(place[chosen] // 2, len(ordered) - 1)]
    stops = [nothing] + [
        {"count": int(many), "alarms": float(share), "score": float(score)}
        for many, share, score in zip(count[chosen], alarms[chosen], value, strict=True)
    ]
    start = 0
    if result.flagged:
        start = 1 + int(np.flatnonzero(chosen == near)[0])
        stops[start]["count"] = result.flagged
    return stops, start


def score_histogram(runner: Runner, scores: list[Any], pairs: int, null: NDArray[np.float32]) -> dict[str, Any]:
    """The histogram of the scores of all pairs, beside that of mismatched ones."""
    step = max(1, pairs // LOOKED_AT)
    some = np.concatenate(runner.values(runner.each(every, scores, [step] * len(scores))))
    span = extent([some, null])
    parts = runner.values(runner.each(bin_counts, scores, [span] * len(scores)))
    chart = histogram({"pairs": some, "mismatched pairs": null}, BINS, span)
    chart["shares"][0] = [round(float(share), 6) for share in sum(parts) / max(1, pairs)]
    return chart


def every(scores: NDArray[np.float32], step: int) -> NDArray[np.float32]:
    return scores[::step].copy()


def bin_counts(scores: NDArray[np.float32], span: tuple[float, float]) -> NDArray[np.int64]:
    low, high = span if span[1] > span[0] else (span[0] - 0.5, span[1] + 0.5)
    edges = np.linspace(low, high, BINS + 1)
    counts = np.zeros(BINS, dtype=np.int64)
    for start in range(0, len(scores), 1 << 20):
        counts += np.histogram(np.clip(scores[start : start + (1 << 20)], low, high), edges)[0]
    return counts
