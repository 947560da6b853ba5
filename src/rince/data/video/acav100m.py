"""ACAV100M: clips of ten seconds chosen for sound that belongs to the picture, from a list and a folder."""

from pathlib import Path
from typing import Any

import numpy as np

from rince.data.video.video_list import VideoList, list_table, video_list
from rince.data.video.videos import Videos
from rince.errors import UsageError


class ACAV100M(Videos):
    """The videos that ``table`` lists in the folder ``root``, or ``subset`` of them drawn by a seed; no labels.

    Further options are those of :class:`rince.data.Videos`.

    Example:
        >>> data = rince.data.ACAV100M("data/acav", table="data/acav/list.txt", subset=20_000)
    """

    tables = ("table",)

    def __init__(self, root: str, table: str, subset: int | None = None, subset_seed: int = 0, **options: Any):
        """
        Args:
            root: Folder of the videos.
            table: One path per line, seen from root; or a CSV file with the columns path and, if you like, start.
            subset: How many of them are used, such as 20000 or 500000. A smaller subset is part of a larger one.
            subset_seed: Which of them.

        Raises:
            UsageError: If the subset is below 2 videos.
        """
        super().__init__(root, table, **options)
        if subset is not None and subset < 2:
            raise UsageError(f"subset must be at least 2 videos, got {subset}")
        self.subset, self.subset_seed = subset, subset_seed

    def read(self) -> tuple[tuple[str, ...], dict[str, VideoList]]:
        assert self.table is not None
        found = list_lines(Path(self.table), self.root)
        if self.subset is None:
            return (), {"train": found}
        if self.subset > len(found.paths):
            raise UsageError(f"subset must be at most the {len(found.paths)} videos of {self.table}, got {self.subset}")
        order = np.random.default_rng(self.subset_seed).permutation(len(found.paths))
        return (), {"train": found.take(np.sort(order[: self.subset]))}


def list_lines(table: Path, root: Path) -> VideoList:
    """A list with one path per line, or a CSV file whose first line names the column path."""
    with open(table, encoding="utf-8-sig") as file:
        lines = [line.strip() for line in file]
    if lines and "path" in lines[0].split(","):
        return list_table(table, root)[1]
    paths = [root / line for line in lines if line]
    if not paths:
        raise UsageError(f"{table} lists no videos")
    return video_list(paths)
