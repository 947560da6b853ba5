"""The files of re-pairing: a table of new partners, and a page that shows them beside the old ones."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rince._support.csv_cells import CsvWriter
from rince.trust.repair import Partners

if TYPE_CHECKING:
    from rince.trust.clean import Audited


def write_repair(
    folder: Path, found: Partners, audited: "Audited", show_a: Any = None, show_b: Any = None
) -> list[Path]:
    """``repair.csv`` with one row per query and new partner, and ``repair.html``.

    The page is that of the audit, where it lies beside its table, with the new partners of the pairs; else a table.
    """
    from rince.report.page import partners_on_page, repair_page

    name_of = names(audited, found)
    with open(folder / "repair.csv", "w", newline="", encoding="utf-8") as file:
        writer = CsvWriter(file)
        writer.writerow(["id", "row", "rank", "partner", "partner_row", "probability", "score"])
        for i, row in enumerate(found.rows.tolist()):
            for rank, partner in enumerate(found.partners[i].tolist()):
                figures = f"{found.probability[i, rank]:.6g}", f"{found.scores[i, rank]:.6g}"
                writer.writerow([name_of(row), row, rank + 1, name_of(partner), partner, *figures])
    page, beside = None, audited.table.path.with_name("audit.html")
    if beside.is_file():
        page = partners_on_page(beside.read_text(encoding="utf-8", errors="replace"), found, name_of, show_b)
    page = page or repair_page(found, name_of, show_a, show_b)
    (folder / "repair.html").write_text(page, encoding="utf-8", errors="replace")
    return [folder / "repair.csv", folder / "repair.html"]


def names(audited: "Audited", found: Partners) -> Callable[[int], str]:
    """The ids of the rows that are mentioned; the others are not kept in memory."""
    wanted = set(np.unique(np.concatenate([found.rows, found.partners.ravel()])).tolist())
    known = {row: name for row, name in enumerate(audited.ids()) if row in wanted}
    return lambda row: known.get(row) or str(row)


def sentence(found: Partners) -> str:
    """How many new partners are likely to be right."""
    first = found.probability[:, 0] if len(found.rows) else np.empty(0)
    return (
        f"new partners for {len(found.rows):,} pairs: {int((first > 0.5).sum()):,} are more likely right than wrong, "
        f"about {float(first.sum()):,.0f} of all the best ones are right"
    )
