"""The page of re-pairing: mismatched pairs, what they are paired with now, and what they may belong to."""

import html
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rince.report.page import page

if TYPE_CHECKING:
    from rince.trust.repair import Partners

MOST = 200


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
