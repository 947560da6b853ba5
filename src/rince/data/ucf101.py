"""UCF-101: 13,320 clips of 101 actions, with three official splits."""

from pathlib import Path
from typing import Any, Literal

from rince.data.video_list import VideoList, video_list
from rince.data.videos import Videos


class UCF101(Videos):
    """``root/CLASS/v_*.avi``, and the official lists (``trainlist01.txt`` and so on) in ``splits``."""

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
            splits: Folder of the lists; ucfTrainTestlist in root or beside it by default.
            sound: Pairs of clip and sound; half of the classes have no sound.
            short: What happens to a video shorter than a clip: skipped, its last frame held, or played again.
        """
        super().__init__(root, sound=sound, short=short, **options)
        self.number, self.splits = split, splits

    def read(self) -> tuple[tuple[str, ...], dict[str, VideoList]]:
        folder = splits_folder(self.root, self.splits, "ucfTrainTestlist")
        names = tuple(name for _, name in sorted((int(n), name) for n, name in _lines(folder / "classInd.txt")))
        parts = {}
        for part in ("train", "test"):
            source = folder / f"{part}list{self.number:02}.txt"
            files = [line[0] for line in _lines(source)]
            labels = [names.index(file.split("/")[0]) if file.split("/")[0] in names else -1 for file in files]
            if -1 in labels:
                raise ValueError(f"{source} names {files[labels.index(-1)]}, whose class is not in classInd.txt")
            parts[part] = video_list([self.root / file for file in files], labels)
        return names, parts


def splits_folder(root: Path, given: str | None, name: str) -> Path:
    """Where the official lists are: where it was said, in the folder of the videos, or beside it."""
    places = [Path(given)] if given is not None else [root / name, root.parent / name]
    for place in places:
        if place.is_dir():
            return place
    raise FileNotFoundError(f"there is no folder {places[0]} with the official splits: download it, or set splits")


def _lines(path: Path) -> list[list[str]]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}, one of the official lists of UCF-101")
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
