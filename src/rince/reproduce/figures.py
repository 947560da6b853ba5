"""What the figures of the experiments share."""

from pathlib import Path
from typing import Any

from rince.extras import require
from rince.files import written_whole


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


def save(figure: Any, path: Path) -> None:
    with written_whole(path) as temporary:
        figure.savefig(temporary, format="png")
