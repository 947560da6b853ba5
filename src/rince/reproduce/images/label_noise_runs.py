"""What the figures of the label-noise runs share: they look at the very runs of ``cifar10-label-noise``."""

import argparse
from pathlib import Path
from typing import Any

from rince.reproduce.grid import Run
from rince.reproduce.images.cifar10_label_noise import LabelNoise
from rince.reproduce.training import trained


class LabelNoiseFigure(LabelNoise):
    """A picture of trained networks. Runs that the table has finished are taken as they are, others are done."""

    losses = ("infonce", "rince-1")
    etas = (0.2, 0.8)
    seeds = 3

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--table", default=f"runs/reproduce/{LabelNoise.name}", metavar="DIR",
            help="--out of cifar10-label-noise, whose runs are used and added to (%(default)s)",
        )  # fmt: skip

    def network(self, run: Run, options: argparse.Namespace) -> tuple[Any, Any]:
        """Method and data of a run."""
        place = argparse.Namespace(**{**vars(options), "out": options.table})
        return trained(self.settings(run, place), self.folder_of(run, place))

    def file_of(self, run: Run, options: argparse.Namespace) -> Path:
        """Where the numbers of the picture are kept."""
        return Path(options.out) / "numbers" / f"{self.run_name(run).replace(' ', '-')}.npz"
