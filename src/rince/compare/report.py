"""The table, the figure and the page of a comparison."""

import html
import json
from pathlib import Path
from typing import Any

from rince._support.atomic_files import write_text, written_whole
from rince.compare.losses import TRUST, parse_loss
from rince.compare.summary import Cell, Result, Summary
from rince.report.page import page
from rince.reproduce.figures import COLOURS, canvas
from rince.reproduce.tables import aligned, as_csv


def write_report(summary: Summary, results: list[Result], folder: Path, command: str) -> str:
    """Write results.csv, table.md, summary.json, comparison.{png,svg} and comparison.html; return the text."""
    text = f"{table(summary)}\n" + "\n".join(f"- {line}" for line in summary.advice()) + "\n"
    keys = ["loss", "temperature", "rate", "seed"]
    rows = [[*(r["settings"][key] for key in keys), r["validation"], r["test"]] for r in results]
    write_text(folder / "results.csv", as_csv([*keys, "validation", "test"], rows))
    write_text(folder / "table.md", text)
    write_text(folder / "summary.json", json.dumps(as_record(summary, command), indent=1) + "\n")
    drawn = figure(summary)
    for kind in ("png", "svg"):
        with written_whole(folder / f"comparison.{kind}") as temporary:
            drawn.savefig(temporary, format=kind, metadata={"Date": None} if kind == "svg" else None)
    write_text(
        folder / "comparison.html", comparison_page(summary, (folder / "comparison.svg").read_text("utf-8"), command)
    )
    return text


def table(summary: Summary) -> str:
    """One row per loss, one column per noise rate, in Markdown that lines up as plain text."""
    header = [f"{summary.metric}, {summary.noise}", *(f"{rate:.0%}" for rate in summary.rates)]
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
        f"\n{summary.task}: mean and standard deviation over {seeds} on a test part "
        f"without added noise; t is the temperature, {how_chosen(summary)}.\n"
    )


def how_chosen(summary: Summary) -> str:
    """How the temperatures of a comparison were chosen."""
    seeds = summary.tune_seeds
    of = "" if seeds is None else f" of {'the first seed' if seeds == 1 else f'the first {seeds} seeds'}"
    return f"chosen for every cell on a validation part without added noise{of}"


def as_record(summary: Summary, command: str) -> dict[str, Any]:
    """What summary.json holds."""
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
    """A line per loss over the noise rates, with the spread over the seeds; with trust it is dashed."""
    drawn, axes = canvas(7.6, 4.2)
    plain = list(dict.fromkeys(loss.removesuffix(TRUST) for loss in summary.losses))
    for loss in summary.losses:
        i = plain.index(loss.removesuffix(TRUST))  # a loss and the same one with trust share a colour
        cells = [summary.cells[loss, rate] for rate in summary.rates if (loss, rate) in summary.cells]
        again = ":" if i >= len(COLOURS) else "-"  # more losses than colours
        axes.errorbar(
            [100 * cell.rate for cell in cells],
            [cell.mean for cell in cells],
            [cell.deviation for cell in cells],
            label=parse_loss(loss).label,
            color=COLOURS[i % len(COLOURS)],
            linestyle="--" if parse_loss(loss).trust else again,
            marker="osD^vPX*<>"[i % 10],
            markerfacecolor="white" if parse_loss(loss).trust else None,
            markersize=5,
            capsize=2,
        )
    axes.set_xticks([100 * rate for rate in summary.rates])
    axes.set_xlabel(f"{summary.noise}, %")
    axes.set_ylabel(f"{summary.metric} on clean test data, %")
    drawn.legend(loc="outside right upper", frameon=False, fontsize=8)
    return drawn


def comparison_page(summary: Summary, svg: str, command: str) -> str:
    """One HTML file: the advice first, then the picture and the table."""
    advice = "".join(f"<li>{html.escape(line)}</li>" for line in summary.advice())
    head = "".join(f"<th>{rate:.0%}</th>" for rate in summary.rates)
    rows = []
    for loss in summary.losses:
        cells = [summary.cells.get((loss, rate)) for rate in summary.rates]
        shown = "".join(_td(cell, cell is not None and cell == summary.best(cell.rate)) for cell in cells)
        rows.append(f"<tr><td>{html.escape(parse_loss(loss).label)}</td>{shown}</tr>")
    picture = svg[svg.index("<svg") :]
    body = (
        f'<main><header><p class="brand">rince compare</p><h1>Which loss for {html.escape(summary.task)}?</h1></header>'
        f'<section class="panel"><h2>What to take</h2><ul>{advice}</ul></section>'
        f'<section class="panel"><h2>{html.escape(summary.metric)} by {html.escape(summary.noise)}</h2>'
        f'<div class="figure">{picture}</div></section>'
        f'<section class="panel"><h2>Table</h2><div class="table"><table><thead><tr><th>loss</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        '<p class="hint">Mean and standard deviation over the seeds on a test part without added noise; t is the '
        f"temperature, {how_chosen(summary)}.</p>"
        f'<p class="hint">{html.escape(command)}</p></section></main>'
    )
    return page(f"rince compare {summary.task}", body, {})


def _td(cell: Cell | None, best: bool) -> str:
    if cell is None:
        return "<td>–</td>"
    spread = f"<small>± {cell.deviation:.1f}, t {cell.temperature:g}</small>"
    return f"<td>{'<b>' if best else ''}{cell.mean:.1f}{'</b>' if best else ''} {spread}</td>"
