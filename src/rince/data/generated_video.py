"""A small set of generated videos: moving shapes with the sounds they make, in files that are made on first use."""

from pathlib import Path

import numpy as np

from rince.data.generated_files import write_videos
from rince.data.video_list import VideoList
from rince.data.videos import Videos
from rince.noise.sounds import SoundNoise


class GeneratedVideo(Videos):
    """Eight classes: four motions (bounce, orbit, pulse, slide) of two shapes (cross, disc), 3 s at 16 frames a second.

    Colours, sizes, places, backgrounds, pitch and loudness are random, and another shape stands still nearby. The sound
    belongs to the class and is in time with the motion. ``answers.csv`` beside the videos tells all of it.
    """

    def __init__(
        self,
        root: str = "data/generated_video",
        train: int = 480,
        test: int = 160,
        per_class: int | None = None,
        videos_seed: int = 0,
        num_frames: int = 8,
        fps: float = 16,
        audio_duration: float = 2.0,
        sample_rate: int = 24000,
        size: int = 48,
        crop: tuple[float, float] = (0.5, 1.0),
        clips: int = 1,
        sound: bool = True,
        batch_size: int = 32,
        test_clips: int = 10,
        noise: SoundNoise | None = None,
        workers: int = 2,
    ):
        """
        Args:
            root: Folder that keeps the generated videos.
            train: How many videos there are to train on, of all classes together.
            test: How many there are to test on.
            per_class: Train on so many videos of each class only, drawn by the seed of the run.
            videos_seed: Seed of what the videos show.
            num_frames: Frames of a clip.
            fps: Frames a second of a clip.
            audio_duration: Seconds of sound around the middle of the clip.
            sample_rate: Samples a second of the sound.
            size: Height and width of the clips; the videos have 64 pixels.
            crop: Least and largest share of the area that a crop keeps.
            clips: Clips of a video at each visit, read in one go.
            sound: Pairs of clip and sound; without, clips alone.
            batch_size: Clips in a batch, counted over all processes.
            test_clips: Clips of a video in a test, evenly spaced in time.
            noise: Wrong sounds for training; evaluation always hears the right ones.
            workers: Processes that decode, for each training process.
        """
        super().__init__(
            root=root, num_frames=num_frames, fps=fps, audio_duration=audio_duration, sample_rate=sample_rate,
            size=size, crop=crop, clips=clips, sound=sound, batch_size=batch_size, test_clips=test_clips, noise=noise,
            workers=workers,
        )  # fmt: skip
        if per_class is not None and not 1 <= per_class <= train // 8:
            raise ValueError(f"per_class must lie between 1 and the {train // 8} videos of a class, got {per_class}")
        self.store, self.counts, self.per_class, self.videos_seed = Path(root), (train, test), per_class, videos_seed

    def prepare_data(self) -> None:
        """Make the videos if they are not there yet; with several processes, one a machine does."""
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
