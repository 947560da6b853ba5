"""The page of the demo: what noise costs, what trust gets back, and the audit of the same pairs with the truth."""

from typing import Any

from rince.report.audit_page import AUDIT_BODY
from rince.report.page import page

_TOP = """<main>
<header><p class="brand">rince demo</p><h1>Contrastive learning with 40 % wrong pairs</h1>
<p class="hint" id="lead"></p></header>
<section class="panel"><h2>Results on held-out, clean pairs</h2>
<p class="hint">Mean and standard deviation over the seeds, in per cent. R@1: the right half comes first among all
held-out ones. AUC: how well the score of a training pair tells right from wrong.</p>
<div class="table"><table>
<thead><tr><th>loss</th><th>wrong pairs</th><th>R@1</th><th>R@10</th><th>AUC</th></tr></thead>
<tbody id="rows"></tbody></table></div></section>
<section class="panel"><h2>Retrieval: R@1 with and without noise</h2>
<div id="bars"></div><p class="hint" id="cost"></p></section>
<section class="panel"><h2>What InfoNCE and training with trust think of their pairs</h2>
<p class="hint">Scores of right and wrong training pairs after training. A loss that has learned the wrong pairs by
heart gives both the same.</p><div class="two" id="losses"></div></section>
<section class="panel"><h2>The audit of the same pairs</h2><p class="hint" id="audited"></p></section>
"""

_AUDIT = AUDIT_BODY.split("</header>", 1)[1]


def demo_page(demo: dict[str, Any], audit: dict[str, Any]) -> str:
    return page("rince demo", _TOP + _AUDIT, {"demo": demo, "audit": audit})
