"""Base class of the experiments: options, a resumable list of runs, a table, a CSV file and a figure."""

import argparse
import functools
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.tables import Cell, pivot, seeds_note, unique_runs
from rince._support.atomic_files import write_text
from rince._support.command_options import check_counts, local_path, parsed
from rince.compare.grid import Result, Run, finished_runs, run_grid
from rince.compare.tables import as_csv
from rince.errors import UsageError

UNNAMED = ("epochs",)
"""Settings that are not part of the name of a run, like the ``shared`` ones: results with another value are refused."""


class Experiment:
    """Base class of the experiments. A subclass defines the settings of its runs (``runs``), one run (``work``), the
    ``cells`` of the table and, optionally, a ``figure``.

    Add the subclass to the table of ``experiments/__main__.py``: ``python -m experiments`` then lists and runs it.

    Attributes:
        name: Name on the command line.
        summary: Text of ``--help``.
        seeds: Default number of seeds.
        epochs: Default number of epochs; ``None`` for experiments without this option.
        shared: Options that results depend on and that all runs share. They are stored with every result, and results
            with other values are refused.
        note: A sentence below the table.

    Example:
        >>> class Squares(Experiment):
        ...     name, summary = "squares", "Squares of the seeds."
        ...
        ...     def runs(self, options):
        ...         return [{"seed": seed} for seed in range(options.seeds)]
        ...
        ...     def work(self, run, options):
        ...         return {"value": run["seed"] ** 2, "headline": "squared"}
        ...
        ...     def cells(self, results, options):
        ...         return [("square", "of the seed", result["value"]) for result in results]
    """

    name = ""
    summary = ""
    seeds = 3
    epochs: int | None = None
    shared: tuple[str, ...] = ()
    corner = ""
    note = ""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of this experiment."""

    def check(self, options: argparse.Namespace) -> None:
        """Raise a ``UsageError`` for invalid options, before any run starts."""

    def runs(self, options: argparse.Namespace) -> list[Run]:
        """Settings of all runs, in the order in which they start."""
        raise NotImplementedError

    def next_runs(self, results: Sequence[Result], options: argparse.Namespace) -> list[Run]:
        """Settings of the runs that follow from the results so far, such as those at a chosen temperature."""
        return []

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        """Do one run. The result is stored as JSON; its ``headline`` is printed."""
        raise NotImplementedError

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        """(row, column, value) of every number in the table. Values of one cell become mean and deviation."""
        raise NotImplementedError

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        """A figure of ``experiments.figures``, or ``None``."""
        return None

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        """Lines below the table."""
        return []

    def run_name(self, run: Run) -> str:
        """File name of a run: texts as they are, numbers with their names, the seed last."""
        names = sorted(run, key=lambda key: key == "seed")
        named = {key: run[key] for key in names if key not in (*UNNAMED, *self.shared)}
        return " ".join(value if isinstance(value, str) else f"{key} {value:g}" for key, value in named.items())

    def folder_of(self, run: Run, options: argparse.Namespace) -> Path:
        """Folder of a training run."""
        return Path(options.out) / "runs" / self.run_name(run).replace(" ", "-")

    def parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=f"python -m experiments {self.name}", description=self.summary, exit_on_error=False
        )
        self.add_options(parser)
        parser.add_argument("--seeds", type=int, default=self.seeds, help="how many: 0, 1, ... (%(default)s)")
        if self.epochs is not None:
            parser.add_argument("--epochs", type=int, default=self.epochs, help="of training (%(default)s)")
        folder = f"runs/experiments/{self.name}"
        parser.add_argument("--out", type=local_path, default=folder, help="folder for all files (%(default)s)")
        parser.add_argument("--workers", type=int, default=1, help="runs at a time (%(default)s)")
        parser.add_argument("--report-only", action="store_true", help="report on finished runs without starting any")
        parser.add_argument("--so-far", dest="report_only", action="store_true", help=argparse.SUPPRESS)  # until 0.4
        return parser

    def main(self, arguments: list[str]) -> int:
        """Run the experiment, or resume it, and print its table."""
        options = checked(self.parser(), arguments)
        self.check(options)
        shared = {name: getattr(options, name) for name in self.shared}
        folder = Path(options.out) / "results"
        work = functools.partial(self.work, options=options)
        results: list[Result] = []
        runs = self.runs(options)
        while runs := [run for run in unique_runs([{**run, **shared} for run in runs]) if not _has(results, run)]:
            if options.report_only:
                finished = finished_runs(runs, folder, self.run_name, needed=not results)
            else:
                finished = run_grid(runs, work, folder, self.run_name, options.workers)
            results += finished
            runs = self.next_runs(results, options) if len(finished) == len(runs) else []
        print(self.report(results, options), end="")
        return 0

    def report(self, results: Sequence[Result], options: argparse.Namespace) -> str:
        """Write results.csv, table.md, figure.png and figure.svg, and return the table."""
        from experiments.figures import save

        out, cells = Path(options.out), list(self.cells(results, options))
        table = pivot(self.corner, cells) + "\n" + self.note_on(results, cells)
        table += "".join(f"{line}\n" for line in self.remarks(results, options))
        write_text(out / "table.md", table)
        write_text(out / "results.csv", as_csv(*_flat(results)))
        if (figure := self.figure(results, options)) is not None:
            save(figure, out / "figure")
        return table

    def note_on(self, results: Sequence[Result], cells: Sequence[Cell]) -> str:
        return f"{self.note} Mean and standard deviation over {seeds_note(cells)}.\n".lstrip()


def checked(parser: argparse.ArgumentParser, arguments: list[str], *counts: str) -> argparse.Namespace:
    """Parsed options: counts are at least 1, and rates lie in [0, 1]."""
    options = parsed(parser, arguments)
    check_counts(options, "seeds", "epochs", "workers", *counts)
    for name in ("rates", "etas"):
        if invalid := [rate for rate in getattr(options, name, None) or () if not 0 <= rate <= 1]:
            raise UsageError(f"--{name} must lie in [0, 1], got {invalid[0]}")
    return options


def grid(**values: Iterable[Any]) -> list[Run]:
    """Settings of all combinations, in the order of nested loops of which the first is the outermost."""
    return [dict(zip(values, combination, strict=True)) for combination in itertools.product(*values.values())]


def several(parser: argparse.ArgumentParser, option: str, default: Sequence[Any], what: str, **more: Any) -> None:
    """Add an option that takes several values of the type of the default ones."""
    default_text = " ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in default)
    parser.add_argument(
        option, nargs="+", type=type(default[0]), default=list(default), metavar=option[2].upper(),
        help=f"{what} ({default_text})", **more,
    )  # fmt: skip


def _has(results: Sequence[Result], run: Run) -> bool:
    return any(result["settings"] == run for result in results)


def _flat(results: Sequence[Result]) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of a CSV file: all settings, and all results that are numbers."""
    settings = list(dict.fromkeys(key for result in results for key in result["settings"]))
    numbers = list(
        dict.fromkeys(key for r in results for key, value in r.items() if isinstance(value, int | float | None))
    )
    rows = [[r["settings"].get(key, "") for key in settings] + [r.get(key, "") for key in numbers] for r in results]
    return [*settings, *numbers], rows


def write_report(out: Path, table: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """``table.md`` and ``results.csv`` of an experiment without runs."""
    write_text(out / "results.csv", as_csv(header, rows))
    write_text(out / "table.md", table)
