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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rince.report.gallery import MAX_TEXT, Gallery, Texts

if TYPE_CHECKING:
    from rince.audit.checks import Issue
    from rince.audit.output.groups import GroupRate
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


def histogram(
    series: dict[str, NDArray[np.float32]], bins: int = 60, span: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Shares of every series in common bins over ``span`` (default: that of all series); outliers go to the border."""
    low, high = span or extent(series.values())
    if not high > low:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, bins + 1)
    shares = []
    for values in series.values():
        counts = np.zeros(bins)
        for start in range(0, len(values), 1 << 20):
            counts += np.histogram(np.clip(values[start : start + (1 << 20)], low, high), edges)[0]
        shares.append([round(float(c), 6) for c in counts / max(1, len(values))])
    return {"low": low, "high": high, "names": list(series), "shares": shares}


def extent(series: Iterable[NDArray[np.float32]]) -> tuple[float, float]:
    """The range of the scores of all series, without the outermost 0.05 % on either end."""
    filled = [values for values in series if len(values)]
    low = min(float(np.quantile(values, 0.0005)) for values in filled)
    return low, max(float(np.quantile(values, 0.9995)) for values in filled)


# --- the page of an audit ---------------------------------------------------------------------------------------------


def audit_page(data: dict[str, Any]) -> str:
    """HTML page of the data from :func:`audit_data` or :func:`findings_data`."""
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
) -> dict[str, Any]:
    """The data of the page, of bounded size however many pairs there are.

    Args:
        result: The audit.
        title: Heading.
        fdr: False discovery rate at which the slider starts.
        name_of: Name of a pair by its row.
        show_a, show_b: What to show of either side.
        truth: (pairs,) whether a pair is truly wrong, where that is known.
        groups: Group of every pair, and the rate of every group.
        marks: Row -> mark of an earlier review.
    """
    suspects, alarms = result.suspects()
    flagged = result.flag(fdr)
    counts = sorted({*_slider_counts(len(suspects)), len(flagged)})
    order = by_suspicion(result)[:MAX_ROWS]
    rows = order.tolist()
    affected = {name: mask for name, mask in affected_pairs(result, flagged).items() if name != "unrelated"}
    return {
        **findings_data(result, title, fdr, name_of),
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
        "start": counts.index(len(flagged)),
        "rows": {
            "row": rows,
            "id": [name_of(row) for row in rows],
            "score": _rounded(result.scores[order], 4),
            "p": _rounded(result.p_wrong[order], 3),
            "a": shown_items(show_a, rows),
            "b": shown_items(show_b, rows),
            "wrong": [] if truth is None else truth[order].astype(int).tolist(),
        },
        "rows_issues": [[name for name, mask in affected.items() if mask[row]] for row in rows] if affected else [],
        "shows": {"a": show_a is not None, "b": show_b is not None},
        "cut": max(0, result.judged_pairs - len(order)),
        "truth": truth is not None,
        "marks": {str(row): mark for row, mark in (marks or {}).items()},
        **group_data(None if groups is None else groups[1], [] if groups is None else [groups[0][k] for k in order]),
    }


def findings_data(
    result: "Findings", title: str, fdr: float, name_of: Callable[[int], str] | None = None
) -> dict[str, Any]:
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
        "verdict": result.verdict.value,
        "lines": result.verdict_lines(fdr),
        "conditions": list(result.conditions),
        "issues": [_issue_data(issue, name_of) for issue in result.issues.values()],
        "rows_issues": [],
        "auroc": float(result.auroc),
        "uninformative": result.uninformative,
        "fdr": fdr,
        "score": result.scored_by,
        "remarks": list(result.remarks),
        "advice": advice.label,
        "reason": advice.reason,
    }


def _issue_data(issue: "Issue", name_of: Callable[[int], str] | None) -> dict[str, Any]:
    examples = [] if name_of is None else issue.examples[:EXAMPLES].tolist()
    partner = issue.details.get("partner")  # of better partners; of judged pairs only, if some were left out
    partner = None if partner is None or len(partner) != len(issue.scores) else partner
    labels = {row: name_of(row) if name_of else "" for row in examples}
    if partner is not None and name_of is not None:
        labels = {row: f"{name} \u2192 {name_of(int(partner[row]))}" for row, name in labels.items()}
    return {
        "name": issue.name,
        "title": issue.name.replace("_", " "),
        "claimed": issue.claimed,
        "count": issue.count,
        "text": issue.explanation,
        "examples": [{"row": row, "label": label} for row, label in labels.items()],
    }


def affected_pairs(result: "Audit", flagged: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """(pairs,) masks of the pairs that each claimed issue affects; "unrelated" are the flagged pairs."""
    flags = np.zeros(len(result), dtype=bool)
    flags[flagged] = True
    masks = {"unrelated": flags} if len(flagged) else {}
    for name, issue in result.issues.items():
        if name != "unrelated" and issue.claimed and len(issue.scores) == len(result):
            masks[name] = issue.scores > 0
    return masks


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


def group_data(rates: Sequence["GroupRate"] | None, names: Sequence[str]) -> dict[str, Any]:
    """Rates by group, and the group of every listed row."""
    if rates is None:
        return {"groups": [], "group_names": [], "group_count": 0, "rows_group": []}
    code = {rate.name: k for k, rate in enumerate(rates)}
    return {
        "groups": [
            {
                "name": rate.name,
                "pairs": rate.pairs,
                "flagged": rate.flagged,
                "rate": rate.rate,
                "low": rate.interval[0],
                "high": rate.interval[1],
                "unusual": rate.unusual,
            }
            for rate in rates[:MAX_GROUPS]
        ],
        "group_names": list(code),
        "group_count": len(rates),
        "rows_group": [code[name] for name in names],
    }


def _rounded(values: NDArray[np.float32], digits: int) -> list[float | None]:
    """Numbers for JSON; None for NaN, of pairs that were not judged."""
    return [None if np.isnan(value) else round(value, digits) for value in values.astype(np.float64).tolist()]


def _slider_counts(suspects: int) -> list[int]:
    """Numbers of flagged pairs that the slider offers: all if they are few, else evenly spaced ones."""
    if suspects <= SLIDER_STEPS:
        return list(range(suspects + 1))
    return sorted({round(x) for x in np.linspace(0, suspects, SLIDER_STEPS + 1)})


def shown_items(show: Gallery | None, rows: list[int]) -> list[Any]:
    """What is shown of every row: all texts, shortened to fit, and the media of the first rows."""
    if show is None:
        return [None] * len(rows)
    longest = min(MAX_TEXT, max(80, MAX_TEXT_CHARACTERS // max(1, len(rows))))

    def cut(text: str) -> str:
        return text if len(text) <= longest else text[:longest] + " …"

    def item(row: int) -> Any:
        item = show.item(row)
        return item if item is None or "text" not in item else cut(item["text"])

    media = len(rows) if isinstance(show, Texts) else MAX_MEDIA
    return [item(row) for row in rows[:media]] + [cut(show.brief(row) or "") or None for row in rows[media:]]


def notebook_html(result: "Audit", fdr: float = 0.1) -> str:
    """A result as shown by notebooks: verdict, conditions, claimed issues and the rows that fit worst."""
    lines = [f"<b>{html.escape(line)}</b>" for line in result.verdict_lines(fdr)[:1]]
    lines += [html.escape(line) for line in (*result.verdict_lines(fdr)[1:], *result.conditions)]
    claimed = [issue for name, issue in result.issues.items() if issue.claimed and name != "unrelated"]
    lines += [f"{html.escape(issue.name)}: {html.escape(issue.explanation)}" for issue in claimed]
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
        audit: The page as it is.
        result: New partners.
        name_of: Name of a pair by its row.
        show_b: What to show of a partner; shown for the most probable ones only.

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
