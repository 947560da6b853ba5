"""Pages: one self-contained HTML file each, with style, script and data. Nothing in the data can act as markup or code.

``page`` is the shell; ``audit_page``, ``repair_page`` and ``demo_page`` fill it.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.report.gallery import MAX_TEXT, Gallery, Texts

if TYPE_CHECKING:
    from rince.audit.checks import Issue
    from rince.audit.groups import GroupRate
    from rince.audit.result import Audit, Findings
    from rince.trust.repair import Partners

MAX_ROWS = 100_000
"""Pairs that a page holds; of more, the most suspicious."""
MAX_MEDIA = 1_000
"""Pairs whose images, audio and videos are put into the page; of the others, their names."""
MAX_TEXT_CHARACTERS = 30_000_000  # of all texts of one side
MAX_GROUPS = 500
MAX_PARTNERS = 200  # pairs whose new partners are shown with their content
SLIDER_STEPS = 400
BINS = 60
EXAMPLES = 6  # of an issue
NOTEBOOK_ROWS = 5


# --- the shell --------------------------------------------------------------------------------------------------------


def asset(name: str) -> str:
    """The text of a file of this package."""
    return files("rince.report").joinpath(name).read_text(encoding="utf-8")


AUDIT_BODY = asset("audit.html")


def page(title: str, body: str, data: dict[str, Any]) -> str:
    """A whole HTML page. ``body`` is trusted markup of this package, ``data`` comes from users and is only ever text.

    The content security policy forbids every request, and every script but the one whose hash it names.
    """
    script = f'"use strict";\n(() => {{\n{asset("page.js")}}})();\n'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{asset('page.css')}</style>\n</head>\n<body>\n{body}\n"
        f'<script type="application/json" id="data">{as_json(data)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def as_json(data: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, whatever texts it holds."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def histogram(series: dict[str, NDArray[np.float32]], span: tuple[float, float] | None = None) -> dict[str, Any]:
    """Shares of every series in common bins over ``span`` (default: that of all series); outliers go to the border."""
    span = span or extent(series.values())
    return chart(span, {name: bin_counts(values, span) / max(1, len(values)) for name, values in series.items()})


def chart(span: tuple[float, float], shares: dict[str, NDArray[np.float64]]) -> dict[str, Any]:
    """The data of a histogram, from the share of every series in each bin."""
    rounded = [[round(float(share), 6) for share in values] for values in shares.values()]
    return {"low": span[0], "high": span[1], "names": list(shares), "shares": rounded}


def bin_counts(values: NDArray[np.float32], span: tuple[float, float]) -> NDArray[np.int64]:
    """(bins,) number of values in each bin; counts of parts add up."""
    counts = np.zeros(BINS, dtype=np.int64)
    for start in range(0, len(values), 1 << 20):
        counts += np.histogram(np.clip(values[start : start + (1 << 20)], *span), BINS, span)[0]
    return counts


def extent(series: Iterable[NDArray[np.float32]]) -> tuple[float, float]:
    """The range of the scores of all series, without the outermost 0.05 % on either end."""
    filled = [values for values in series if len(values)]
    low = min(float(np.quantile(values, 0.0005)) for values in filled)
    high = max(float(np.quantile(values, 0.9995)) for values in filled)
    return (low, high) if high > low else (low - 0.5, low + 0.5)


# --- the page of an audit ---------------------------------------------------------------------------------------------


class Listed(NamedTuple):
    """Pairs that the page and ``suspects.csv`` list, most suspicious first.

    Attributes:
        row, id, score, p_wrong, flagged: One value per listed pair.
        group: The group of each; empty without groups.
        issues: Names of the claimed issues of each, except "unrelated"; empty if there are none.
    """

    row: NDArray[np.int64]
    id: list[str]
    score: NDArray[np.float32]
    p_wrong: NDArray[np.float32]
    flagged: NDArray[np.bool_]
    group: list[str]
    issues: list[list[str]]

    def first(self, count: int) -> "Listed":
        """The first ``count`` of them."""
        columns: Any = [column[:count] for column in self]
        return Listed(*columns)

    @classmethod
    def joined(cls, parts: Sequence["Listed"]) -> "Listed":
        """The pairs of several shards, lowest score first."""
        row, score, p_wrong, flagged = (np.concatenate([part[k] for part in parts]) for k in (0, 2, 3, 4))
        order = np.lexsort([row, score])
        texts = [[value for part in parts for value in part[k]] for k in (1, 5, 6)]
        names, groups, issues = ([column[k] for k in order] if column else [] for column in texts)
        return cls(row[order], names, score[order], p_wrong[order], flagged[order], groups, issues)


def listed_pairs(
    result: "Audit", fdr: float, name_of: Callable[[int], str], groups: Sequence[str] | None = None
) -> Listed:
    """The pairs of an audit in memory: up to ``MAX_ROWS``, and all suspects."""
    flags = np.zeros(len(result), dtype=bool)
    flags[result.flag(fdr)] = True
    order = by_suspicion(result)[: max(MAX_ROWS, len(result.suspects()[0]))]
    rows = order.tolist()
    masks = {
        name: issue.scores[order] > 0
        for name, issue in result.issues.items()
        if name != "unrelated" and issue.claimed and len(issue.scores) == len(result)
    }
    return Listed(
        order,
        [name_of(row) for row in rows],
        result.scores[order],
        result.p_wrong[order],
        flags[order],
        [] if groups is None else [groups[row] for row in rows],
        [[name for name, mask in masks.items() if mask[k]] for k in range(len(rows))] if masks else [],
    )


def audit_page(data: dict[str, Any]) -> str:
    """HTML page of the data from :func:`audit_data` or :func:`page_data`."""
    return page(data["title"], AUDIT_BODY, {"kind": "audit", "audit": data})


def audit_data(
    result: "Audit",
    title: str,
    fdr: float,
    name_of: Callable[[int], str],
    show_a: Gallery | None = None,
    show_b: Gallery | None = None,
    truth: NDArray[np.bool_] | None = None,
    groups: tuple[Sequence[str], Sequence["GroupRate"]] | None = None,
    marks: Mapping[int, str] | None = None,
    listed: Listed | None = None,
) -> dict[str, Any]:
    """The data of the page of an audit in memory, of bounded size however many pairs there are.

    Args:
        result: The audit.
        title: Heading.
        fdr: False discovery rate at which the slider starts.
        name_of: Name of a pair by its row.
        show_a, show_b: Items of either side.
        truth: (pairs,) whether a pair is truly wrong, if known.
        groups: Group of every pair, and the rate of every group.
        marks: Row -> mark of an earlier review.
        listed: Default: that of :func:`listed_pairs`.
    """
    names, rates = (None, None) if groups is None else groups
    listed = (listed_pairs(result, fdr, name_of, names) if listed is None else listed).first(MAX_ROWS)
    suspects, alarms = result.suspects()
    shows = [None if show is None else shown_items(show, listed.row.tolist()) for show in (show_a, show_b)]
    data = page_data(result, title, fdr, listed, (shows[0], shows[1]), rates, name_of)
    data["rows"]["wrong"] = [] if truth is None else truth[listed.row].astype(int).tolist()
    return {
        **data,
        **slider(np.arange(1, len(suspects) + 1), alarms, result.scores[suspects], len(result.flag(fdr))),
        "key": fingerprint(result, title, name_of),
        "histogram": histogram({"pairs": result.judged(result.scores), "mismatched pairs": result.null}),
        "truth": truth is not None,
        "marks": {str(row): mark for row, mark in (marks or {}).items()},
    }


def slider(
    counts: NDArray[np.int64], alarms: NDArray[np.float64], scores: NDArray[np.float32], flagged: int
) -> dict[str, Any]:
    """Where the slider can stop, and where it starts.

    Args:
        counts: Numbers of pairs that can be flagged, increasing.
        alarms: Expected share of false alarms among them.
        scores: Highest score among them.
        flagged: The number at which the slider starts.
    """
    chosen = np.empty(0, dtype=np.int64)
    if len(counts):
        targets = [*np.linspace(1, counts[-1], SLIDER_STEPS), *([flagged] if flagged else [])]
        chosen = np.unique(np.searchsorted(counts, targets).clip(max=len(counts) - 1))
    stops = [{"count": 0, "alarms": 0.0, "score": None}] + [
        {"count": int(counts[k]), "alarms": float(alarms[k]), "score": float(scores[k])} for k in chosen
    ]
    return {"stops": stops, "start": 1 + int(np.searchsorted(counts[chosen], flagged)) if flagged else 0}


def page_data(
    result: "Findings",
    title: str,
    fdr: float,
    listed: Listed,
    shows: tuple[list[Any] | None, list[Any] | None],
    rates: Sequence["GroupRate"] | None,
    name_of: Callable[[int], str],
) -> dict[str, Any]:
    """The data of the page of any audit, without slider, histogram, key and marks.

    Args:
        result: The audit.
        title: Heading.
        fdr: Expected share of false alarms among the flagged pairs.
        listed: The pairs of the page.
        shows: Items of A and B of each listed pair; None for nothing.
        rates: Rates by group.
        name_of: Name of a pair by its row, for the examples of issues.
    """
    advice = result.recommend()
    code = {rate.name: k for k, rate in enumerate(rates or ())}
    return {
        "title": title,
        "pairs": result.judged_pairs,
        "mismatched": len(result.null),
        "rate": result.noise_rate,
        "low": result.interval[0],
        "high": result.interval[1],
        "share": f"{result.noise_rate:.1%}",  # rounded as in the sentences
        "interval": "95% interval {:.1%} to {:.1%}".format(*result.interval),
        "found": result.noise_found,
        "verdict": result.verdict.value,
        "lines": result.verdict_lines(fdr),
        "assumptions": result.assumptions,
        "limits": result.limits,
        "issues": [_issue_data(issue, name_of) for issue in result.issues_at(fdr)],
        "auroc": float(result.auroc),
        "uninformative": result.uninformative,
        "fdr": fdr,
        "score": result.scored_by,
        "remarks": list(result.remarks),
        "advice": advice.reason,
        "rows": {
            "row": listed.row.tolist(),
            "id": listed.id,
            "score": _rounded(listed.score, 4),
            "p": _rounded(listed.p_wrong, 3),
            "a": shows[0] or [None] * len(listed.row),
            "b": shows[1] or [None] * len(listed.row),
        },
        "rows_issues": listed.issues,
        "shows": {"a": shows[0] is not None, "b": shows[1] is not None},
        "cut": max(0, result.judged_pairs - len(listed.row)),
        "truth": False,
        "marks": {},
        "groups": [rate.record() for rate in (rates or ())[:MAX_GROUPS]],
        "group_names": list(code),
        "group_count": len(code),
        "rows_group": [code[name] for name in listed.group],
    }


def _issue_data(issue: "Issue", name_of: Callable[[int], str]) -> dict[str, Any]:
    examples = issue.examples[:EXAMPLES].tolist()
    labels = [name_of(row) for row in examples]
    partner = issue.details.get("partner")
    if partner is not None:
        labels = [f"{label} \u2192 {name_of(int(partner[row]))}" for row, label in zip(examples, labels, strict=True)]
    return {
        "name": issue.name,
        "title": issue.name.replace("_", " "),
        "claimed": issue.claimed,
        "count": issue.count,
        "text": issue.explanation,
        "reported": issue.is_reported,
        "examples": [{"row": row, "label": label} for row, label in zip(examples, labels, strict=True)],
    }


def by_suspicion(result: "Audit") -> NDArray[np.int64]:
    """Rows to look at: suspects, placeholders, shifted pairs, doubtful groups; then all others by increasing score.

    Pairs that were not judged are left out, unless they are placeholders.
    """
    first = [result.suspects()[0]]
    for name in ("placeholder", "shifted", "group"):
        issue = result.issues.get(name)
        if issue is not None and issue.claimed and len(issue.scores) == len(result):
            rows = np.flatnonzero(issue.scores > 0)
            first.append(rows[np.argsort(-issue.scores[rows], kind="stable")])
    lowest = np.argsort(result.scores, kind="stable")[: result.judged_pairs]  # NaN comes last
    rows = np.concatenate([*first, lowest])
    return rows[np.sort(np.unique(rows, return_index=True)[1])]


def fingerprint(result: "Audit", title: str, name_of: Callable[[int], str]) -> str:
    """Key of the marks in the browser's storage: pairs with ids keep their marks when they are scored again."""
    code = hashlib.blake2b(f"{len(result)} {title}".encode("utf-8", "replace"), digest_size=12)
    rows = np.linspace(0, len(result) - 1, min(len(result), 1000)).astype(int).tolist()
    names = [name_of(row) for row in rows]
    code.update("\0".join(names).encode("utf-8", "replace"))
    if names == [str(row) for row in rows]:  # row numbers do not identify the data
        code.update(np.ascontiguousarray(result.scores).data)
    return code.hexdigest()


def _rounded(values: NDArray[np.float32], digits: int) -> list[float | None]:
    """Numbers for JSON; None for NaN, of pairs that were not judged."""
    return [None if np.isnan(value) else round(value, digits) for value in values.astype(np.float64).tolist()]


def shown_items(show: Gallery, rows: list[int], total: int | None = None, media: int = MAX_MEDIA) -> list[Any]:
    """Items of every row: all texts, shortened to fit, and the media of the first rows.

    Args:
        show: The side.
        rows: The rows.
        total: Number of rows of the page. Default: these.
        media: Number of rows whose media are shown; of the others, their names are.
    """
    longest = min(MAX_TEXT, max(80, MAX_TEXT_CHARACTERS // max(1, total or len(rows))))

    def cut(text: str) -> str:
        return text if len(text) <= longest else text[:longest] + " …"

    def item(row: int) -> Any:
        item = show.item(row)
        return item if item is None or "text" not in item else cut(item["text"])

    media = len(rows) if isinstance(show, Texts) else media
    return [item(row) for row in rows[:media]] + [cut(show.brief(row) or "") or None for row in rows[media:]]


def notebook_html(result: "Audit", fdr: float = 0.1) -> str:
    """A result as shown by notebooks: verdict, conditions, claimed issues and the rows that fit worst."""
    verdict, *more = result.verdict_lines(fdr)
    lines = [html.escape(line) for line in result.assumptions] + [f"<b>{html.escape(verdict)}</b>"]
    reported = [issue.explanation for issue in result.issues.values() if issue.is_reported]
    lines += [html.escape(line) for line in dict.fromkeys([*more, *result.limits, *reported])]
    rows = by_suspicion(result)[:NOTEBOOK_ROWS].tolist()
    cells = "".join(
        f"<tr><td>{row}</td><td>{result.scores[row]:.3f}</td><td>{result.p_wrong[row]:.2f}</td></tr>" for row in rows
    )
    head = "<tr><th>row</th><th>score</th><th>p_wrong</th></tr>"
    paragraphs = "".join(f"<p style='margin:0 0 4px'>{line}</p>" for line in lines)
    return f"<div>{paragraphs}<table><thead>{head}</thead><tbody>{cells}</tbody></table></div>"


# --- the page of new partners -----------------------------------------------------------------------------------------


def partners_on_page(
    audit: str, result: "Partners", name_of: Callable[[int], str], show_b: Gallery | None = None
) -> str | None:
    """The page of an audit with the new partners of its pairs.

    Args:
        audit: The current page.
        result: New partners.
        name_of: Name of a pair by its row.
        show_b: Items of partners; shown for the most probable ones only.

    Returns:
        The page; None if ``audit`` is not the page of an audit of this version.
    """
    block = re.search(r'<script type="application/json" id="data">([^<]*)</script>', audit)
    try:
        data = json.loads(block[1]) if block else {}
        listed = set(data["audit"]["rows"]["row"]) if data["kind"] == "audit" and "lines" in data["audit"] else None
    except (ValueError, KeyError, TypeError):
        return None
    if listed is None:
        return None
    probable = set(_by_probability(result).tolist())
    data["audit"]["partners"] = {
        str(row): [
            {"id": name_of(j), "p": round(float(p), 3), "item": show_b.item(j) if show_b and i in probable else None}
            for j, p in zip(result.partners[i].tolist(), result.probability[i], strict=True)
        ]
        for i, row in enumerate(result.rows.tolist())
        if row in listed
    }
    return page(str(data["audit"]["title"]), AUDIT_BODY, data)


def repair_page(
    result: "Partners", name_of: Callable[[int], str], show_a: Gallery | None = None, show_b: Gallery | None = None
) -> str:
    """A table of new partners, the most probable first. Everything from users is escaped."""
    order = _by_probability(result)
    likely = int((result.probability[:, 0] > 0.5).sum()) if len(result.rows) else 0
    rows = []
    for i in order.tolist():
        row = int(result.rows[i])
        partners = [(int(j), f"{p:.0%}") for j, p in zip(result.partners[i], result.probability[i], strict=True)]
        cells = [
            html.escape(name_of(row)),
            _item_html(show_a, row),
            _item_html(show_b, row),
            "<br>".join(f"{html.escape(name_of(j))} {_item_html(show_b, j)}" for j, _ in partners),
            "<br>".join(p for _, p in partners),
        ]
        rows.append(f"<tr><td>{'</td><td>'.join(cells)}</td></tr>")
    more = "The most probable are shown; repair.csv has all of them." if len(result.rows) > len(order) else ""
    body = f"""<main>
<header><p class="brand">rince clean</p><h1>New partners</h1></header>
<section class="panel"><p>{len(result.rows):,} mismatched pairs; for {likely:,} of them the best new partner is more
likely right than wrong. {more}</p>
<table><thead><tr><th>pair</th><th>A</th><th>B now</th><th>new B</th><th>probability</th></tr></thead>
<tbody>
{chr(10).join(rows)}
</tbody></table></section>
<footer>Made by rince. This page is a single file; it loads nothing and sends nothing.</footer>
</main>"""
    return page("New partners", body, {"kind": "repair"})


def _by_probability(result: "Partners") -> NDArray[np.int64]:
    if not len(result.rows):
        return np.empty(0, np.int64)
    return np.argsort(-result.probability[:, 0], kind="stable")[:MAX_PARTNERS]


def _item_html(show: Gallery | None, row: int) -> str:
    """An item as escaped text or as an image."""
    item = None if show is None else show.item(row)
    if not item:
        return ""
    if "image" in item:
        return f'<img alt="" src="{html.escape(item["image"], quote=True)}" style="max-height:96px">'
    return html.escape(item.get("text") or item.get("name", ""))


# --- the page of the demo ---------------------------------------------------------------------------------------------

_DEMO_TOP = """<main>
<header><p class="brand">rince demo</p><h1>Contrastive learning with 40 % wrong pairs</h1>
<p class="hint" id="lead"></p></header>
<section class="panel"><h2>Results on held-out, clean pairs</h2>
<p class="hint">Mean and standard deviation over the seeds, in percent. R@1: share of held-out pairs whose right half
ranks first. AUC: how well the score of a training pair separates right from wrong pairs.</p>
<div class="table"><table>
<thead><tr><th>loss</th><th>wrong pairs</th><th>R@1</th><th>R@10</th><th>AUC</th></tr></thead>
<tbody id="rows"></tbody></table></div></section>
<section class="panel"><h2>Retrieval: R@1 with and without noise</h2>
<div id="bars"></div><p class="hint" id="cost"></p></section>
<section class="panel"><h2>Scores of training pairs: InfoNCE and training with trust weights</h2>
<p class="hint">Scores of right and wrong training pairs after training. A loss that has memorized the wrong pairs
gives both the same scores.</p><div class="two" id="losses"></div></section>
<section class="panel"><h2>The audit of the same pairs</h2><p class="hint" id="audited"></p></section>
"""


def demo_page(demo: dict[str, Any], audit: dict[str, Any]) -> str:
    """The page of ``rince demo``: what noise costs, what weights recover, and the audit of the same pairs."""
    return page("rince demo", _DEMO_TOP + AUDIT_BODY.split("</header>", 1)[1], {"demo": demo, "audit": audit})
