"""The page of re-pairing: mismatched pairs, what they are paired with now, and what they may belong to.

It is the page of the audit, with the new partners of its pairs, where there is one, and else a table.
"""

import html
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rince.report.audit_page import AUDIT_BODY
from rince.report.page import page

if TYPE_CHECKING:
    from rince.trust.repair import Partners

MOST = 200


def partners_on_page(audit: str, found: "Partners", name_of: Callable[[int], str], show_b: Any = None) -> str | None:
    """The page of an audit with the new partners of its pairs.

    Args:
        audit: The page as it is.
        found: New partners.
        name_of: The name of a pair by its row.
        show_b: What to show of a partner; of the surest ones only, for there may be many.

    Returns:
        The page; None if ``audit`` is none of ours.
    """
    data = _data_of(audit)
    if data is None:
        return None
    best = found.probability[:, 0] if len(found.rows) else np.empty(0)
    surest = set(np.argsort(-best, kind="stable")[:MOST].tolist())
    listed = set(data["audit"]["rows"]["row"])
    data["audit"]["partners"] = {
        str(row): [
            {"id": name_of(j), "p": round(float(p), 3), "item": show_b.item(j) if show_b and i in surest else None}
            for j, p in zip(found.partners[i].tolist(), found.probability[i], strict=True)
        ]
        for i, row in enumerate(found.rows.tolist())
        if row in listed
    }
    return page(str(data["audit"]["title"]), AUDIT_BODY, data)


def _data_of(text: str) -> dict[str, Any] | None:
    """What a page of an audit holds, as data; None where it is something else."""
    block = re.search(r'<script type="application/json" id="data">([^<]*)</script>', text)
    try:
        data = json.loads(block[1]) if block else {}
        return data if data.get("kind") == "audit" and data["audit"]["rows"]["row"] is not None else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def repair_page(found: "Partners", name_of: Callable[[int], str], show_a: Any = None, show_b: Any = None) -> str:
    """A page with the surest new partners first; everything from users is escaped."""
    best = found.probability[:, 0] if len(found.rows) else np.empty(0)
    order = np.argsort(-best, kind="stable")[:MOST]
    rows = "\n".join(_row(found, int(i), name_of, show_a, show_b) for i in order)
    likely = int((best > 0.5).sum())
    body = f"""<main>
<header><p class="brand">rince clean</p><h1>New partners</h1></header>
<section class="panel"><p>{len(found.rows):,} mismatched pairs; for {likely:,} of them the best new partner is more
likely right than wrong. {"The surest are shown; repair.csv has all of them." if len(best) > MOST else ""}</p>
<table><thead><tr><th>pair</th><th>A</th><th>B now</th><th>new B</th><th>probability</th></tr></thead>
<tbody>
{rows}
</tbody></table></section>
<footer>Made by rince. This page is one file; it loads nothing and sends nothing.</footer>
</main>"""
    return page("New partners", body, {"kind": "repair"})


def _row(found: "Partners", i: int, name_of: Callable[[int], str], show_a: Any, show_b: Any) -> str:
    row = int(found.rows[i])
    cells = [html.escape(name_of(row)), _shown(show_a, row), _shown(show_b, row)]
    news = [f"{html.escape(name_of(int(partner)))} {_shown(show_b, int(partner))}" for partner in found.partners[i]]
    chances = [f"{chance:.0%}" for chance in found.probability[i]]
    return f"<tr><td>{'</td><td>'.join(cells)}</td><td>{'<br>'.join(news)}</td><td>{'<br>'.join(chances)}</td></tr>"


def _shown(show: Any, row: int) -> str:
    """An item as an escaped text or as a picture inside the page."""
    item = None if show is None else show.item(row)
    if not item:
        return ""
    if "image" in item:
        return f'<img alt="" src="{html.escape(item["image"], quote=True)}" style="max-height:96px">'
    return html.escape(item.get("text") or item.get("name", ""))
