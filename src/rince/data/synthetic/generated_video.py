"""A small set of generated videos: moving shapes with the sounds they make, in files that are made on first use."""

from pathlib import Path
from typing import Any

import numpy as np

from rince.data.synthetic.generated_files import write_videos
from rince.data.synthetic.moving_shapes import CLASSES
from rince.data.video.video_list import VideoList
from rince.data.video.videos import Videos
from rince.errors import UsageError


class GeneratedVideo(Videos):
    """Eight classes: four motions (bounce, orbit, pulse, slide) of two shapes (cross, disc), 3 s at 16 frames per
    second.

    Colours, sizes, places, backgrounds, pitch and loudness are random, and another shape stands still nearby. The sound
    belongs to the class and is in time with the motion. ``answers.csv`` beside the videos tells all of it.

    Further options are those of :class:`rince.data.Videos`.

    Example:
        >>> data = rince.data.GeneratedVideo("generated", train=8, test=8)
        >>> data.classes
        8
    """

    tables = ()

    def __init__(
        self,
        root: str = "data/generated_video",
        train: int = 480,
        test: int = 160,
        per_class: int | None = None,
        videos_seed: int = 0,
        size: int = 32,
        crop: tuple[float, float] = (0.8, 1.0),
        sample_rate: int = 12000,
        batch_size: int = 16,
        workers: int = 2,
        **options: Any,
    ):
        """
        Args:
            root: Folder of the generated videos.
            train: How many videos there are to train on, of all classes together.
            test: How many there are to test on.
            per_class: Train only on this number of videos per class, drawn by the seed of the run.
            videos_seed: Seed of what the videos show.
            size: Height and width of the clips; the videos have 64 pixels.
            crop: Smallest and largest area of a crop, as a share of the image.
            sample_rate: Samples per second of the sound; the videos have 24,000.
            batch_size: Clips in a batch of all processes together.
            workers: Processes that decode, for each training process.

        Raises:
            UsageError: If there are fewer videos of a class than per_class.
        """
        super().__init__(
            root, size=size, crop=crop, sample_rate=sample_rate, batch_size=batch_size, workers=workers, **options
        )
        most = train // len(CLASSES)
        if per_class is not None and not 1 <= per_class <= most:
            raise UsageError(f"per_class must lie between 1 and the {most} videos of a class, got {per_class}")
        self.store, self.counts, self.per_class, self.videos_seed = Path(root), (train, test), per_class, videos_seed

    def prepare_data(self) -> None:
        """Make the videos if they are not there yet; with several processes, one per machine does."""
        write_videos(self.store, *self.counts, seed=self.videos_seed)

    def read(self) -> tuple[tuple[str, ...], dict[str, VideoList]]:
        self.root = write_videos(self.store, *self.counts, seed=self.videos_seed)
        names, lists = super().read()
        if self.per_class is not None:
            random = np.random.default_rng((self.seed, 1))
            labels = lists["train"].labels
            chosen = [random.permutation(np.flatnonzero(labels == c))[: self.per_class] for c in range(len(names))]
            lists["train"] = lists["train"].take(np.sort(np.concatenate(chosen)))
        return names, lists
