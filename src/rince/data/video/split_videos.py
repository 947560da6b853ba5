"""Videos whose authors say which to train on and which to test on, in lists that come in a folder of their own."""

from pathlib import Path
from typing import Any, Literal

from rince.data.video.videos import Videos
from rince.errors import MissingFile


class SplitVideos(Videos):
    """What UCF-101 and HMDB-51 share: class folders of short videos, and three official splits."""

    lists = ""  # usual name of the folder of lists
    tables = ()

    def __init__(
        self,
        root: str,
        split: Literal[1, 2, 3] = 1,
        splits: str | None = None,
        sound: bool = False,
        short: Literal["skip", "hold", "loop"] = "loop",
        **options: Any,
    ):
        """
        Args:
            root: Folder of the class folders.
            split: Which of the three splits.
            splits: Folder of the official lists; by default the one of the usual name, in root or beside it.
            sound: Pairs of clip and sound; most of these videos have none.
            short: What to do with a video shorter than a clip: skip it, hold its last frame, or loop it.
        """
        super().__init__(root, sound=sound, short=short, **options)
        self.number, self.splits = split, splits

    def lists_folder(self) -> Path:
        """Where the official lists are: where it was said, in the folder of the videos, or beside it."""
        usual = [self.root / self.lists, self.root.parent / self.lists]
        places = usual if self.splits is None else [Path(self.splits)]
        for place in places:
            if place.is_dir():
                return place
        raise MissingFile(f"there is no folder {places[0]} with the official splits: download it, or set splits")
