"""Several comparisons as one table: by noise rate, how near each loss comes to the best one on every data set.

    python -m experiments rule-of-thumb runs/compare/digits runs/compare/multi30k runs/compare/spoken-digits-towers
    python -m experiments rule-of-thumb runs/compare/cifar10-label-noise

write the tables that ``rince.audit.recommend`` looks up (``src/rince/audit/rule_of_thumb.json``): one for pairs, one
for pairs made from labels. A comparison replaces the table of its kind and leaves the other.
"""

import argparse
import json
import shlex
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rince._support.atomic_files import write_text
from rince.compare.losses import parse_loss
from rince.errors import MissingFile, UsageError

TABLE = Path(__file__).parents[2] / "src" / "rince" / "audit" / "rule_of_thumb.json"


def combined(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The table of several comparisons.

    A row is a loss at a noise rate. Its score is its mean over the best mean on the same data, averaged over the data
    sets that have the rate; a loss that is missing on one of them has no row there. Its temperature is the (lower)
    median of those that were chosen.

    Args:
        records: What the ``summary.json`` of each comparison holds. All must be of the same kind of noise.

    Raises:
        UsageError: If there are no comparisons, or their kinds of noise differ.
    """
    if not records:
        raise UsageError("no comparisons to combine: pass folders written by rince compare")
    noises = sorted({record["noise"] for record in records})
    if len(noises) > 1:
        raise UsageError(f"comparisons of different noise cannot be combined: {' and '.join(noises)}")
    cells = {(r["task"], cell["rate"], cell["loss"]): cell for r in records for cell in r["cells"]}
    rows = []
    for rate in sorted({rate for _, rate, _ in cells}):
        tasks = [r["task"] for r in records if any(cell["rate"] == rate for cell in r["cells"])]
        best = {task: max(c["mean"] for (t, x, _), c in cells.items() if (t, x) == (task, rate)) for task in tasks}
        for loss in dict.fromkeys(loss for _, x, loss in cells if x == rate):
            task_cells = {task: cells[task, rate, loss] for task in tasks if (task, rate, loss) in cells}
            if len(task_cells) == len(tasks):
                rows.append(_row(rate, loss, task_cells, best))
    about = [{key: r[key] for key in ("task", "metric", "command")} | {"seeds": _seeds(r)} for r in records]
    return {"noise": noises[0], "tasks": about, "rows": rows}


def _row(rate: float, loss: str, task_cells: Mapping[str, Any], best: Mapping[str, float]) -> dict[str, Any]:
    name = parse_loss(loss)
    return {
        "rate": rate,
        "loss": loss,
        "label": name.label,
        "class": name.kind,
        "arguments": name.arguments,
        "trust": name.trust,
        "temperature": statistics.median_low(cell["temperature"] for cell in task_cells.values()),
        "score": round(statistics.fmean(cell["mean"] / best[task] for task, cell in task_cells.items()), 4),
        "means": {task: round(cell["mean"], 1) for task, cell in task_cells.items()},
    }


def _seeds(record: Mapping[str, Any]) -> int:
    return min(cell["seeds"] for cell in record["cells"])


def kind_of(noise: str) -> str:
    """Name of the table for a kind of noise."""
    return "labels" if "labels" in noise else "pairs"


def written(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The tables as JSON, one row per line."""
    parts = []
    for kind, table in sorted(tables.items()):
        rows = ",\n".join(f"  {json.dumps(row)}" for row in table["rows"])
        head = json.dumps({**table, "rows": []}, indent=1)
        parts.append(f'"{kind}": ' + head.replace('"rows": []', f'"rows": [\n{rows}\n ]'))
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m experiments rule-of-thumb", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="written by rince compare")
    parser.add_argument("--out", type=Path, default=TABLE, help="file to write (the table of rince.audit.recommend)")
    options = parser.parse_args(arguments)
    for folder in options.folders:
        if not (folder / "summary.json").is_file():
            raise MissingFile(f"{folder / 'summary.json'} does not exist: run rince compare with --out {folder} first")
    records = [json.loads((folder / "summary.json").read_text(encoding="utf-8")) for folder in options.folders]
    command = shlex.join(["python", "-m", "experiments", "rule-of-thumb", *map(str, options.folders)])
    table = combined(records)
    tables = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    write_text(options.out, written({**tables, kind_of(table["noise"]): {"command": command, **table}}))
    print(f"written: {options.out}")
    return 0
