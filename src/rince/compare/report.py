"""Report of a comparison: summary, advice, table, figure and page."""

import html
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rince._support.atomic_files import atomic_results
from rince.compare.losses import TRUST, parse_loss
from rince.compare.tables import MIN_SEEDS, aligned, as_csv, paired
from rince.report.page import page

Result = dict[str, Any]
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")  # safe for the color blind
FIGURES = ("comparison.png", "comparison.svg")


@dataclass(frozen=True)
class Cell:
    """A loss at a noise rate, at its chosen temperature. ``values`` are the test results by seed."""

    loss: str
    rate: float
    temperature: float
    mean: float
    deviation: float
    seeds: int
    values: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """All cells of a comparison, by loss and rate.

    Attributes:
        task: Name of the task.
        metric: Name of the metric, such as ``"R@1"``.
        noise: Kind of noise, such as ``"mismatched pairs"``.
        cells: One per loss and noise rate.
        tune_seeds: See :func:`summarize`.

    Example:
        >>> settings = {"loss": "gce-1", "temperature": 0.2, "rate": 0.4, "seed": 0}
        >>> runs = [{"settings": settings, "validation": 65.0, "test": 66.0}]
        >>> print(rince.compare.summarize("digits", "R@1", "mismatched pairs", runs).advice()[0])
        At 40 % mismatched pairs, GCE q 1 at temperature 0.2 has the highest R@1: 66.0 %.
    """

    task: str
    metric: str
    noise: str
    cells: dict[tuple[str, float], Cell]
    tune_seeds: int | None = None

    @property
    def losses(self) -> list[str]:
        """Losses in the order of the comparison."""
        return list(dict.fromkeys(loss for loss, _ in self.cells))

    @property
    def rates(self) -> list[float]:
        """Noise rates in increasing order."""
        return sorted({rate for _, rate in self.cells})

    @property
    def seeds(self) -> int:
        """Smallest number of seeds of a cell."""
        return min(cell.seeds for cell in self.cells.values())

    def best(self, rate: float) -> Cell:
        """Cell with the highest mean at a noise rate."""
        return max((cell for cell in self.cells.values() if cell.rate == rate), key=lambda cell: cell.mean)

    def not_worse(self, rate: float) -> list[str]:
        """Losses whose difference from the best one is not significant in a paired t-test over the seeds."""
        best = self.best(rate)
        tests = {
            cell.loss: paired(best.values, cell.values)
            for cell in self.cells.values()
            if cell.rate == rate and cell.loss != best.loss
        }
        return [loss for loss, test in tests.items() if test is None or test.verdict != "ahead"]

    def advice(self) -> list[str]:
        """One sentence per noise rate with the best loss, then the loss to use if the rate is unknown."""
        lines = []
        for rate in self.rates:
            best = self.best(rate)
            spread = f" ± {best.deviation:.1f}" if best.seeds > 1 else ""
            text = (
                f"At {100 * rate:g} % {self.noise}, {parse_loss(best.loss).label} at temperature {best.temperature:g} "
                f"has the highest {self.metric}: {best.mean:.1f}{spread} %"
            )
            if self.seeds >= MIN_SEEDS and (others := [parse_loss(name).label for name in self.not_worse(rate)]):
                text += f" (no significant difference: {', '.join(others)})"
            lines.append(f"{text}.")
        if len(self.rates) > 1:
            lines.append(self._safest())
        if self.seeds < MIN_SEEDS:
            lines.append(
                f"{self.seeds} {'seed is' if self.seeds == 1 else 'seeds are'} too few to choose a loss: use --seeds "
                f"{MIN_SEEDS} or more."
            )
        return lines

    def regret(self, loss: str) -> float:
        """Largest difference from the best loss over all noise rates, in points."""
        return max(self.best(rate).mean - self.cells[loss, rate].mean for rate in self.rates)

    def _safest(self) -> str:
        complete = [loss for loss in self.losses if all((loss, rate) in self.cells for rate in self.rates)]
        if not complete:
            return "For an unknown noise rate: no loss has results at every rate yet."
        safest = min(complete, key=self.regret)
        text = f"For an unknown noise rate: {parse_loss(safest).label}, at most {self.regret(safest):.1f} points below"
        text += " the best loss at every rate"
        if ("infonce", 0.0) in self.cells and safest != "infonce":
            gain = self.cells[safest, 0.0].mean - self.cells["infonce", 0.0].mean
            text += f" and {abs(gain):.1f} points {'above' if gain >= 0 else 'below'} InfoNCE without added noise"
        return f"{text}."


def chosen_temperatures(results: Sequence[Result], tune_seeds: int | None = None) -> dict[tuple[str, float], float]:
    """Temperature with the best validation mean for every loss and noise rate; arguments of :func:`summarize`."""
    scores: dict[tuple[str, float], dict[float, list[float]]] = {}
    for result in results:
        s = result["settings"]
        if tune_seeds is None or s["seed"] < tune_seeds:
            cell = scores.setdefault((s["loss"], s["rate"]), {})
            cell.setdefault(s["temperature"], []).append(result["validation"])
    return {key: max(values, key=lambda t: statistics.fmean(values[t])) for key, values in scores.items()}


def summarize(task: str, metric: str, noise: str, results: Sequence[Result], tune_seeds: int | None = None) -> Summary:
    """Summarize finished runs, at the temperature with the best validation mean for every loss and noise rate.

    Args:
        task: The name of the task.
        metric: Name of the metric.
        noise: Kind of noise.
        results: One per run, with ``settings`` (loss, temperature, rate, seed), ``validation`` and ``test``.
        tune_seeds: Number of seeds used to choose the temperatures; ``None`` for all.

    Returns:
        One cell per loss and rate, at its best temperature.

    Example:
        >>> settings = {"loss": "infonce", "temperature": 0.2, "rate": 0.0}
        >>> runs = [{"settings": settings | {"seed": s}, "validation": 70.0, "test": 70.0 + s} for s in range(3)]
        >>> rince.compare.summarize("digits", "R@1", "mismatched pairs", runs).best(0.0).mean
        71.0
    """
    cells = {}
    for (loss, rate), temperature in chosen_temperatures(results, tune_seeds).items():
        key = {"loss": loss, "rate": rate, "temperature": temperature}
        tests = {r["settings"]["seed"]: r["test"] for r in results if key.items() <= r["settings"].items()}
        deviation = statistics.stdev(tests.values()) if len(tests) > 1 else 0.0
        mean = statistics.fmean(tests.values())
        cells[loss, rate] = Cell(loss, rate, temperature, mean, deviation, len(tests), tests)
    return Summary(task, metric, noise, cells, tune_seeds)


def table(summary: Summary) -> str:
    """Markdown table with one row per loss and one column per noise rate."""
    header = [f"{summary.metric} in %, {summary.noise}", *(f"{rate:.0%}" for rate in summary.rates)]
    rows = []
    for loss in summary.losses:
        cells = []
        for rate in summary.rates:
            cell = summary.cells.get((loss, rate))
            best = "**" if cell is not None and cell == summary.best(rate) else ""
            cells.append(
                "-" if cell is None else f"{best}{cell.mean:.1f} ± {cell.deviation:.1f}{best} (t {cell.temperature:g})"
            )
        rows.append([parse_loss(loss).label, *cells])
    counts = [cell.seeds for cell in summary.cells.values()]
    low, high = min(counts), max(counts)
    seeds = f"{low} to {high} seeds" if low < high else "1 seed" if high == 1 else f"{high} seeds"
    return aligned(header, rows) + (
        f"\n{summary.metric} of held-out pairs without added noise; mean and standard deviation over {seeds}. "
        f"t is the temperature, {_tuning(summary)}.\n"
    )


def _tuning(summary: Summary) -> str:
    seeds = summary.tune_seeds
    of = "" if seeds is None else f" of {'the first seed' if seeds == 1 else f'the first {seeds} seeds'}"
    return f"tuned per cell on validation pairs without added noise{of}"


def write_report(summary: Summary, results: list[Result], folder: Path, command: str) -> list[str]:
    """Write results.csv, table.md, summary.json, comparison.png, comparison.svg and comparison.html, all or none.

    Returns:
        Names of the files. The figures are skipped if matplotlib is missing or fails.
    """
    keys = ["loss", "temperature", "rate", "seed"]
    rows = [[*(r["settings"][key] for key in keys), r["validation"], r["test"]] for r in results]
    texts = {
        "table.md": f"{table(summary)}\n" + "".join(f"- {line}\n" for line in summary.advice()),
        "results.csv": as_csv([*keys, "validation", "test"], rows),
        "summary.json": json.dumps(summary_record(summary, command), indent=1) + "\n",
    }
    with atomic_results(folder, FIGURES) as new:
        try:
            figures, picture = list(FIGURES), figure(summary)
            for name in figures:
                kind = name.rpartition(".")[2]
                picture.savefig(new / name, format=kind, metadata={"Date": None} if kind == "svg" else None)
        except Exception:  # the numbers are written even if matplotlib fails
            figures = []
            for name in FIGURES:
                (new / name).unlink(missing_ok=True)
        svg = (new / "comparison.svg").read_text("utf-8") if figures else ""
        for name, text in {"comparison.html": comparison_page(summary, svg, command), **texts}.items():
            (new / name).write_text(text, encoding="utf-8", errors="replace")
    return ["comparison.html", *texts, *figures]


def summary_record(summary: Summary, command: str) -> dict[str, Any]:
    """Content of summary.json."""
    return {
        "task": summary.task,
        "metric": summary.metric,
        "noise": summary.noise,
        "command": command,
        "tune_seeds": summary.tune_seeds,
        "cells": [vars(cell) for cell in summary.cells.values()],
        "advice": summary.advice(),
    }


def figure(summary: Summary) -> Any:
    """One line per loss over the noise rates, with the deviation over the seeds; dashed with trust weights."""
    from matplotlib.figure import Figure

    fig = Figure((7.6, 4.2), dpi=150, layout="constrained")
    axes = fig.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    plain = list(dict.fromkeys(loss.removesuffix(TRUST) for loss in summary.losses))
    for loss in summary.losses:
        i = plain.index(loss.removesuffix(TRUST))  # a loss and the same one with trust share a color
        cells = [summary.cells[loss, rate] for rate in summary.rates if (loss, rate) in summary.cells]
        again = ":" if i >= len(COLORS) else "-"  # more losses than colors
        axes.errorbar(
            [100 * cell.rate for cell in cells],
            [cell.mean for cell in cells],
            [cell.deviation for cell in cells],
            label=parse_loss(loss).label,
            color=COLORS[i % len(COLORS)],
            linestyle="--" if parse_loss(loss).trust else again,
            marker="osD^vPX*<>"[i % 10],
            markerfacecolor="white" if parse_loss(loss).trust else None,
            markersize=5,
            capsize=2,
        )
    axes.set_xticks([100 * rate for rate in summary.rates])
    axes.set_xlabel(f"{summary.noise}, %")
    axes.set_ylabel(f"{summary.metric} on clean test data, %")
    fig.legend(loc="outside right upper", frameon=False, fontsize=8)
    return fig


def comparison_page(summary: Summary, svg: str, command: str) -> str:
    """HTML page with advice, figure (if any) and table."""
    advice = "".join(f"<li>{html.escape(line)}</li>" for line in summary.advice())
    head = "".join(f"<th>{rate:.0%}</th>" for rate in summary.rates)
    rows = []
    for loss in summary.losses:
        cells = [summary.cells.get((loss, rate)) for rate in summary.rates]
        columns = "".join(_td(cell, cell is not None and cell == summary.best(cell.rate)) for cell in cells)
        rows.append(f"<tr><td>{html.escape(parse_loss(loss).label)}</td>{columns}</tr>")
    picture = (
        f'<section class="panel"><h2>{html.escape(summary.metric)} by {html.escape(summary.noise)}</h2>'
        f'<div class="figure">{svg[svg.index("<svg") :]}</div></section>'
        if svg
        else ""
    )
    body = (
        f'<main><header><p class="brand">rince compare</p><h1>Which loss for {html.escape(summary.task)}?</h1></header>'
        f'<section class="panel"><h2>Advice</h2><ul>{advice}</ul></section>{picture}'
        f'<section class="panel"><h2>Table</h2><div class="table"><table><thead><tr><th>loss</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f'<p class="hint">{html.escape(summary.metric)} of held-out pairs without added noise, in %: mean and standard '
        f"deviation over the seeds; t is the temperature, {_tuning(summary)}.</p>"
        f'<p class="hint">{html.escape(command)}</p></section></main>'
    )
    return page(f"rince compare {summary.task}", body, {})


def _td(cell: Cell | None, best: bool) -> str:
    if cell is None:
        return "<td>–</td>"
    spread = f"<small>± {cell.deviation:.1f}, t {cell.temperature:g}</small>"
    return f"<td>{'<b>' if best else ''}{cell.mean:.1f}{'</b>' if best else ''} {spread}</td>"
