"""Figures of the experiments: their common style and kinds, as PNG and SVG."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rince._support.atomic_files import written_whole
from rince._support.optional_imports import require
from rince.compare.tables import mean_and_deviation

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")  # colorblind-safe
MARKERS = "osD^vP*"

Point = tuple[str, str, float, float]
"""Panel, line, x and one of the values there."""


def panels(columns: int, rows: int = 1, width: float = 3.6, height: float = 3.0, **shared: Any) -> tuple[Any, Any]:
    """A figure and its axes [rows, columns], without the sides of the frames that hold no data."""
    require("matplotlib", "train")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns + 0.6, height * rows + 0.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **shared)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
        axis.set_prop_cycle(color=COLORS)
    return figure, axes


def canvas(width: float = 6.0, height: float = 4.0, columns: int = 1) -> tuple[Any, Any]:
    """A figure of a size of its own and its axes: one, or an array of several side by side."""
    figure, axes = panels(columns, width=(width - 0.6) / columns, height=height - 0.2)
    return figure, axes[0, 0] if columns == 1 else axes[0]


def lines(points: Sequence[Point], across: str, upwards: str, log: bool = False, shared: bool = False) -> Any:
    """One panel per data set with one line per loss: mean over seeds, with a band of one standard deviation.

    Args:
        points: One per run.
        across, upwards: What the axes show.
        log: Whether the axis across is logarithmic.
        shared: Whether all panels have one scale upwards, for panels that are to be compared with each other.
    """
    names, labels = (list(dict.fromkeys(point[index] for point in points)) for index in (0, 1))
    figure, axes = panels(len(names), sharey=shared)
    band = 0.15 if len(labels) < 4 else 0.07  # many bands on top of each other hide the lines
    for axis, name in zip(axes[0], names, strict=True):
        for i, label in enumerate(labels):
            values: dict[float, list[float]] = {}
            for panel, line, x, value in points:
                if (panel, line) == (name, label):
                    values.setdefault(x, []).append(value)
            xs = sorted(values)
            spread = [mean_and_deviation(values[x]) for x in xs]
            color = COLORS[i % len(COLORS)]
            style = {"marker": MARKERS[i % len(MARKERS)], "markersize": 4, "linewidth": 1.4, "color": color}
            axis.plot(xs, [mean for mean, _ in spread], label=label, **style)
            low, high = [m - d for m, d in spread], [m + d for m, d in spread]
            axis.fill_between(xs, low, high, color=color, alpha=band, linewidth=0)
        axis.set_title(name, fontsize=10)
        axis.set_xlabel(across, fontsize=9)
        if log:
            axis.set_xscale("log")
        ticks = sorted({x for panel, _, x, _ in points if panel == name})
        if len(ticks) <= 8:  # the values that were measured, and no others
            axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
            axis.set_xticks([], minor=True)
    axes[0, 0].set_ylabel(upwards, fontsize=9)
    legend(figure, axes[0, 0])
    return figure


def legend(figure: Any, axis: Any, columns: int = 4, marker_size: float | None = None) -> None:
    """The lines of one panel, explained once below all of them."""
    handles, names = axis.get_legend_handles_labels()
    style = {"loc": "outside lower center", "ncols": min(columns, len(names)), "frameon": False, "fontsize": 8}
    made = figure.legend(handles, names, **style)
    if marker_size is not None:
        for handle in made.legend_handles:
            handle.set_sizes([marker_size**2])


def save(figure: Any, path: Path) -> None:
    """``path`` with the endings .png and .svg, each written whole or not at all."""
    from matplotlib import rc_context

    with written_whole(path.with_suffix(".png")) as temporary:
        figure.savefig(temporary, format="png")
    # Without a date and random ids the same figure is the same file.
    with rc_context({"svg.hashsalt": "rince"}), written_whole(path.with_suffix(".svg")) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})
