"""Batches of clips in training and evaluation, and the account of videos that could not be used."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from rince.data.batches import SeededBatches
from rince.data.video.skipped import Skipped
from rince.views.batch import ClipBatch, PairBatch


class WithStep:
    """The same batches, every item with the number of its batch, from which a worker draws all that is random."""

    def __init__(self, batches: SeededBatches):
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for step, chosen in enumerate(self.batches, start=self.batches.seen()):
            yield [(item, step) for item in chosen]


class ClipLoader:
    """The batches of a loader; keeps account of the videos that its workers could not use."""

    def __init__(self, loader: DataLoader[Any], part: str, skipped: Skipped, strict: bool = False):
        self.loader: Any = loader
        self.part, self.skipped, self.strict = part, skipped, strict

    def __len__(self) -> int:
        return len(self.loader)

    def close(self) -> None:
        """Let the workers go, which otherwise wait for another epoch."""
        self.loader = ()

    def __iter__(self) -> Iterator[PairBatch | ClipBatch]:
        known = len(self.skipped.reasons)
        for batch, report in self.loader:
            self.skipped.note(self.part, report.tried, report.bad)
            if self.strict and report.empty:
                self.skipped.give_up(self.part)
            if batch is not None:
                yield batch
        self.skipped.write()
        if len(self.skipped.reasons) > known:
            self.skipped.tell()
