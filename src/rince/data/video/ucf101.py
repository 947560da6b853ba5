"""UCF-101: 13,320 clips of 101 actions, with three official splits."""

from pathlib import Path

from rince.data.video.split_videos import SplitVideos
from rince.data.video.video_list import VideoList, video_list
from rince.errors import MissingFile, UsageError


class UCF101(SplitVideos):
    """``root/CLASS/v_*.avi``, and the official lists (``trainlist01.txt`` and so on) in ``splits``.

    Further options are those of :class:`rince.data.Videos`.

    Example:
        >>> data = rince.data.UCF101("data/UCF-101", splits="data/ucfTrainTestlist", split=1)
    """

    lists = "ucfTrainTestlist"

    def read(self) -> tuple[tuple[str, ...], dict[str, VideoList]]:
        folder = self.lists_folder()
        names = class_names(folder / "classInd.txt")
        parts = {}
        for part in ("train", "test"):
            source = folder / f"{part}list{self.number:02}.txt"
            files = [line[0] for line in _lines(source)]
            labels = [names.index(file.split("/")[0]) if file.split("/")[0] in names else -1 for file in files]
            if -1 in labels:
                raise UsageError(f"{source} names {files[labels.index(-1)]}, whose class is not in classInd.txt")
            parts[part] = video_list([self.root / file for file in files], labels)
        return names, parts


def class_names(path: Path) -> tuple[str, ...]:
    """Names in the order of their numbers."""
    lines = _lines(path)
    for line in lines:
        if len(line) != 2 or not line[0].isdecimal():
            raise UsageError(f"{path} must have a number and a name on every line, got '{' '.join(line)}'")
    return tuple(name for _, name in sorted((int(number), name) for number, name in lines))


def _lines(path: Path) -> list[list[str]]:
    if not path.is_file():
        raise MissingFile(f"there is no {path}, one of the official lists of UCF-101")
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
