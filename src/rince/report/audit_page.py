"""The page of an audit: rate, histogram, a slider over the flagged pairs, and the most suspicious ones to look at."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rince.report.gallery import Show
from rince.report.histogram import histogram
from rince.report.page import page

if TYPE_CHECKING:
    from rince.audit.verdict import Audit

GALLERY = 120
MOST_IDS = 200_000
STEPS = 400


def audit_page(
    result: "Audit",
    title: str,
    fdr: float,
    name_of: Callable[[int], str],
    show_a: Show | None = None,
    show_b: Show | None = None,
    truth: NDArray[np.bool_] | None = None,
) -> str:
    return page(
        title, AUDIT_BODY, {"kind": "audit", "audit": audit_data(result, title, fdr, name_of, show_a, show_b, truth)}
    )


def audit_data(
    result: "Audit",
    title: str,
    fdr: float,
    name_of: Callable[[int], str],
    show_a: Show | None = None,
    show_b: Show | None = None,
    truth: NDArray[np.bool_] | None = None,
) -> dict[str, Any]:
    """All that the page shows of an audit, small however many pairs there are."""
    suspects, alarms = result.suspects()
    counts = _stops(len(suspects))
    flagged = len(result.flag(fdr))
    counts = sorted({*counts, flagged})
    judged = len(result) - len(result.dropped)
    lowest = suspects if len(suspects) else np.argsort(result.scores, kind="stable")[:judged]  # NaN comes last
    gallery = lowest[:GALLERY]
    advice = result.recommend()
    return {
        "title": title,
        "pairs": judged,
        "strangers": len(result.null),
        "rate": result.noise_rate,
        "low": result.interval[0],
        "high": result.interval[1],
        "found": result.noise_found,
        "useless": result.useless,
        "fdr": fdr,
        "score": "log odds over chance" if result.fitted else result.scorer.removeprefix("the "),
        "remarks": list(result.remarks),
        "q": advice.q,
        "r": advice.lam.r,
        "reason": advice.reason,
        "histogram": histogram({"pairs": result.judged(result.scores), "strangers": result.null}),
        "stops": [
            {
                "count": count,
                "alarms": float(alarms[count - 1]) if count else 0.0,
                "score": float(result.scores[suspects[count - 1]]) if count else None,
            }
            for count in counts
        ],
        "start": counts.index(flagged),
        "ids": [name_of(int(i)) for i in suspects[:MOST_IDS]],
        "cut": int(max(0, len(suspects) - MOST_IDS)),
        "gallery": [_card(result, int(i), name_of, show_a, show_b, truth) for i in gallery],
        "truth": truth is not None,
    }


def _stops(suspects: int) -> list[int]:
    """Where the slider can stop: every count if they are few, else evenly spaced ones."""
    if suspects <= STEPS:
        return list(range(suspects + 1))
    return sorted({round(x) for x in np.linspace(0, suspects, STEPS + 1)})


def _card(
    result: "Audit",
    i: int,
    name_of: Callable[[int], str],
    show_a: Show | None,
    show_b: Show | None,
    truth: NDArray[np.bool_] | None,
) -> dict[str, Any]:
    return {
        "id": name_of(i),
        "score": round(float(result.scores[i]), 4),
        "p": round(float(result.p_wrong[i]), 4),
        "a": show_a.item(i) if show_a is not None else None,
        "b": show_b.item(i) if show_b is not None else None,
        "wrong": None if truth is None else bool(truth[i]),
    }


AUDIT_BODY = """<main>
<header><p class="brand">rince audit</p><h1 data-text="title"></h1></header>
<section class="cards" id="cards"></section>
<section class="panel"><h2>Pairs against strangers</h2>
<p class="hint">How the pairs score, beside pairs shuffled from the same data. Wrong pairs lie under the strangers.</p>
<div class="histogram" id="histogram"></div></section>
<section class="panel" id="choose"><h2>Choose what to flag</h2>
<p class="hint">Flag the pairs most likely to be wrong. Further right flags more, at the price of more false alarms.</p>
<input type="range" id="slider" aria-label="number of flagged pairs">
<div class="readout"><div><b id="count"></b><span>pairs flagged</span></div>
<div><b id="alarms"></b><span>expected false alarms</span></div>
<div><b id="threshold"></b><span>highest score flagged</span></div>
<button id="download" type="button">Download ids as CSV</button></div>
<p class="hint" id="cut"></p></section>
<section class="panel"><h2>Most suspicious pairs</h2><p class="hint" id="gallery-hint"></p>
<div class="gallery" id="gallery"></div><button id="more" type="button">Show more</button></section>
<footer>Made by rince. This page is one file; it loads nothing and sends nothing.</footer>
</main>"""
