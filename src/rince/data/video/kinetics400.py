"""Kinetics-400: 240,000 clips of ten seconds, 400 actions, laid out in one folder per class."""

from typing import Any

from rince.data.video.video_list import VideoList
from rince.data.video.videos import Videos
from rince.errors import MissingFile


class Kinetics400(Videos):
    """``root/train/CLASS/*.mp4`` and ``root/val/CLASS/*.mp4``. Many videos are gone or silent: see ``skipped.csv``.

    Further options are those of :class:`rince.data.Videos`.

    Example:
        >>> data = rince.data.Kinetics400("data/kinetics400", batch_size=512)
    """

    def __init__(self, root: str, **options: Any):
        """
        Args:
            root: Folder with the folders train and val.
        """
        super().__init__(root, **options)

    def read(self) -> tuple[tuple[str, ...], dict[str, VideoList]]:
        if self.table is None and not (self.root / "train").is_dir():
            raise MissingFile(f"there is no folder {self.root / 'train'}: videos belong into train/CLASS/")
        return super().read()
