"""HMDB-51: 6,766 clips of 51 actions, with three official splits."""

from typing import Any, Literal

from rince.data.ucf101 import splits_folder
from rince.data.video_list import VideoList, video_list
from rince.data.videos import Videos

NAME = "testTrainMulti_7030_splits"
PARTS = {"1": "train", "2": "test"}  # 0: in neither


class HMDB51(Videos):
    """``root/CLASS/*.avi``, and the official lists (``CLASS_test_split1.txt`` and so on) in ``splits``."""

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
            splits: Folder of the lists; testTrainMulti_7030_splits in root or beside it by default.
            sound: Pairs of clip and sound; the published files have no sound.
            short: What happens to a video shorter than a clip: skipped, its last frame held, or played again.
        """
        super().__init__(root, sound=sound, short=short, **options)
        self.number, self.splits = split, splits

    def read(self) -> tuple[tuple[str, ...], dict[str, VideoList]]:
        folder, ending = splits_folder(self.root, self.splits, NAME), f"_test_split{self.number}.txt"
        lists = sorted(folder.glob(f"*{ending}"))
        if not lists:
            raise FileNotFoundError(f"{folder} holds no lists named CLASS{ending}")
        names = tuple(path.name.removesuffix(ending) for path in lists)
        parts: dict[str, tuple[list, list]] = {"train": ([], []), "test": ([], [])}
        for label, (name, path) in enumerate(zip(names, lists, strict=True)):
            for line in path.read_text(encoding="utf-8").splitlines():
                file, _, use = line.strip().rpartition(" ")
                if part := PARTS.get(use):
                    parts[part][0].append(self.root / name / file.strip())
                    parts[part][1].append(label)
        return names, {part: video_list(paths, labels) for part, (paths, labels) in parts.items()}
