"""The page of an audit: verdict, histogram, a slider over the flagged pairs, groups, and a list of pairs to review."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rince.report.gallery import Show, Texts
from rince.report.histogram import histogram
from rince.report.page import asset, page

if TYPE_CHECKING:
    from rince.audit.findings import Findings
    from rince.audit.output.groups import GroupRate
    from rince.audit.result import Audit

MOST_ROWS = 100_000
"""Pairs that a page holds; of more, the most suspicious."""
MOST_MEDIA = 1_000
"""Pairs whose pictures, sounds and videos are put into the page; of the others, their names."""
TEXT_ROOM = 30_000_000  # characters of all texts of one side
MOST_GROUPS = 500
STEPS = 400
AUDIT_BODY = asset("audit.html")


def audit_page(
    result: "Audit",
    title: str,
    fdr: float,
    name_of: Callable[[int], str],
    show_a: Show | None = None,
    show_b: Show | None = None,
    truth: NDArray[np.bool_] | None = None,
    groups: tuple[Sequence[str], Sequence["GroupRate"]] | None = None,
    marks: Mapping[int, str] | None = None,
) -> str:
    """The whole page as HTML; see ``audit_data``."""
    data = audit_data(result, title, fdr, name_of, show_a, show_b, truth, groups, marks)
    return page(title, AUDIT_BODY, {"kind": "audit", "audit": data})


def audit_data(
    result: "Audit",
    title: str,
    fdr: float,
    name_of: Callable[[int], str],
    show_a: Show | None = None,
    show_b: Show | None = None,
    truth: NDArray[np.bool_] | None = None,
    groups: tuple[Sequence[str], Sequence["GroupRate"]] | None = None,
    marks: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """All that the page shows of an audit, bounded however many pairs there are.

    Args:
        result: The audit.
        title: The heading.
        fdr: Where the slider starts.
        name_of: The name of a pair by its row.
        show_a, show_b: What to show of either side.
        truth: Whether each pair is truly wrong, where that is known.
        groups: The group of every pair, and the rate of every group.
        marks: Row -> mark of an earlier review.
    """
    suspects, alarms = result.suspects()
    flagged = len(result.flag(fdr))
    counts = sorted({*_stops(len(suspects)), flagged})
    order = by_suspicion(result, suspects)[: min(result.judged_pairs, MOST_ROWS)]
    return {
        **findings_data(result, title, fdr),
        "key": fingerprint(result, title, name_of),
        "histogram": histogram({"pairs": result.judged(result.scores), "mismatched pairs": result.null}),
        "stops": [
            {
                "count": count,
                "alarms": float(alarms[count - 1]) if count else 0.0,
                "score": float(result.scores[suspects[count - 1]]) if count else None,
            }
            for count in counts
        ],
        "start": counts.index(flagged),
        "rows": _rows(result, order, name_of, show_a, show_b, truth),
        "shows": {"a": show_a is not None, "b": show_b is not None},
        "cut": result.judged_pairs - len(order),
        "truth": truth is not None,
        "marks": {str(row): mark for row, mark in (marks or {}).items()},
        **group_data(None if groups is None else groups[1], [] if groups is None else [groups[0][k] for k in order]),
    }


def findings_data(result: "Findings", title: str, fdr: float) -> dict[str, Any]:
    """What the page says about all pairs together."""
    advice = result.recommend()
    return {
        "title": title,
        "pairs": result.judged_pairs,
        "mismatched": len(result.null),
        "rate": result.noise_rate,
        "low": result.interval[0],
        "high": result.interval[1],
        "found": result.noise_found,
        "verdict": result.verdict,
        "distinguishable": float(result.distinguishable),
        "useless": result.useless,
        "fdr": fdr,
        "score": "log odds over chance" if result.fitted else result.scorer.removeprefix("the "),
        "remarks": list(result.remarks),
        "advice": advice.label,
        "reason": advice.reason,
    }


def by_suspicion(result: "Audit", suspects: NDArray[np.int64]) -> NDArray[np.int64]:
    """All judged rows: the suspects first, in their order, then the others from the lowest score up."""
    lowest = np.argsort(result.scores, kind="stable")[: len(result) - len(result.dropped)]  # NaN comes last
    if not len(suspects):
        return lowest
    suspected = np.zeros(len(result), dtype=bool)
    suspected[suspects] = True
    return np.concatenate([suspects, lowest[~suspected[lowest]]])


def fingerprint(result: "Audit", title: str, name_of: Callable[[int], str]) -> str:
    """Under which marks are kept in the browser: pairs with names of their own keep them when they are scored anew."""
    code = hashlib.blake2b(f"{len(result)} {title}".encode("utf-8", "replace"), digest_size=12)
    rows = np.linspace(0, len(result) - 1, min(len(result), 1000)).astype(int).tolist()
    names = [name_of(row) for row in rows]
    code.update("\0".join(names).encode("utf-8", "replace"))
    if names == [str(row) for row in rows]:  # the names say nothing about the data
        code.update(np.ascontiguousarray(result.scores).data)
    return code.hexdigest()


def _rows(
    result: "Audit",
    order: NDArray[np.int64],
    name_of: Callable[[int], str],
    show_a: Show | None,
    show_b: Show | None,
    truth: NDArray[np.bool_] | None,
) -> dict[str, list[Any]]:
    """One list per column, most suspicious pairs first."""
    rows = order.tolist()
    return {
        "row": rows,
        "id": [name_of(row) for row in rows],
        "score": np.round(result.scores[order].astype(np.float64), 4).tolist(),
        "p": np.round(result.p_wrong[order].astype(np.float64), 3).tolist(),
        "a": _items(show_a, rows),
        "b": _items(show_b, rows),
        "wrong": [] if truth is None else truth[order].astype(int).tolist(),
    }


def _items(show: Show | None, rows: list[int]) -> list[Any]:
    """What is shown of every row, texts as texts; media of the first rows only, as long as there is room."""
    if show is None:
        return [None] * len(rows)
    longest = max(80, TEXT_ROOM // max(1, len(rows)))
    if isinstance(show, Texts):
        return [_text(show.item(row), longest) for row in rows]
    items = [_text(show.item(row), longest) for row in rows[:MOST_MEDIA]]
    return items + [show.brief(row) for row in rows[MOST_MEDIA:]]


def _text(item: dict[str, str] | None, longest: int) -> Any:
    if item is None or "text" not in item:
        return item
    text = item["text"]
    return text if len(text) <= longest else text[:longest] + " …"


def group_data(rates: Sequence["GroupRate"] | None, names: Sequence[str]) -> dict[str, Any]:
    """Rates by group, and the group of every row that the page lists."""
    if rates is None:
        return {"groups": [], "group_names": [], "group_count": 0, "rows_group": []}
    listed = [one.name for one in rates]
    number = {name: k for k, name in enumerate(listed)}
    return {
        "groups": [
            {
                "name": one.name,
                "pairs": one.pairs,
                "flagged": one.flagged,
                "rate": one.rate,
                "low": one.interval[0],
                "high": one.interval[1],
                "unusual": one.unusual,
            }
            for one in rates[:MOST_GROUPS]
        ],
        "group_names": listed,
        "group_count": len(rates),
        "rows_group": [number[name] for name in names],
    }


def _stops(suspects: int) -> list[int]:
    """Where the slider can stop: every count if they are few, else evenly spaced ones."""
    if suspects <= STEPS:
        return list(range(suspects + 1))
    return sorted({round(x) for x in np.linspace(0, suspects, STEPS + 1)})
