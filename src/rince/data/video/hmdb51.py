"""HMDB-51: 6,766 clips of 51 actions, with three official splits."""

from pathlib import Path

from rince.data.video.split_videos import SplitVideos
from rince.data.video.video_list import VideoList, video_list
from rince.errors import MissingFile

PARTS = {"1": "train", "2": "test"}  # 0: in neither


class HMDB51(SplitVideos):
    """``root/CLASS/*.avi``, and the official lists (``CLASS_test_split1.txt`` and so on) in ``splits``.

    Further options are those of :class:`rince.data.Videos`.

    Example:
        >>> data = rince.data.HMDB51("data/hmdb51", splits="data/testTrainMulti_7030_splits", split=1)
    """

    lists = "testTrainMulti_7030_splits"

    def read(self) -> tuple[tuple[str, ...], dict[str, VideoList]]:
        folder, ending = self.lists_folder(), f"_test_split{self.number}.txt"
        lists = sorted(folder.glob(f"*{ending}"))
        if not lists:
            raise MissingFile(f"{folder} holds no lists named CLASS{ending}")
        names = tuple(path.name.removesuffix(ending) for path in lists)
        parts: dict[str, tuple[list[Path], list[int]]] = {"train": ([], []), "test": ([], [])}
        for label, (name, path) in enumerate(zip(names, lists, strict=True)):
            for line in path.read_text(encoding="utf-8").splitlines():
                file, _, use = line.strip().rpartition(" ")
                if part := PARTS.get(use):
                    parts[part][0].append(self.root / name / file.strip())
                    parts[part][1].append(label)
        return names, {part: video_list(paths, labels) for part, (paths, labels) in parts.items()}
