"""What the figures of the experiments share."""

from pathlib import Path
from typing import Any

from rince._support.atomic_files import written_whole
from rince._support.optional_imports import require


def canvas(width: float = 6.0, height: float = 4.0, columns: int = 1) -> tuple[Any, Any]:
    """A figure and its axes, without the corner of the frame that holds no data."""
    require("matplotlib", "train")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, columns)
    for one in [axes] if columns == 1 else axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def panels(datasets: list[str], across: str, upwards: str) -> tuple[Any, dict[str, Any]]:
    """A figure with a panel for every data set, and these by name."""
    figure, axes = canvas(3.6 * len(datasets) + 0.6, 3.2, columns=len(datasets))
    named = dict(zip(datasets, [axes] if len(datasets) == 1 else axes, strict=True))
    for dataset, panel in named.items():
        panel.set_title(dataset, fontsize=10)
        panel.set_xlabel(across)
    named[datasets[0]].set_ylabel(upwards)
    return figure, named


def save(figure: Any, path: Path) -> None:
    """Write ``path`` (.png), and the same figure as .svg beside it."""
    from matplotlib import rc_context

    with written_whole(path) as temporary:
        figure.savefig(temporary, format="png")
    # Without a date and random ids the same figure is the same file.
    with rc_context({"svg.hashsalt": "rince"}), written_whole(path.with_suffix(".svg")) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})
