"""Videos of your own, in a folder or listed in a CSV file: clips with or without their sounds, batch by batch."""

import os
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import DataLoader

from rince._support.command_options import check_workers
from rince._support.fingerprints import of_lines
from rince._support.optional_imports import require
from rince._support.step_seeds import generator
from rince.data.batches import SeededBatches
from rince.data.module import DataModule, Split
from rince.data.video.clip_loader import ClipLoader, WithStep
from rince.data.video.clip_reader import ClipFormat, EvaluationClips, TrainingClips, collate
from rince.data.video.skipped import Skipped
from rince.data.video.video_list import VideoList, list_folder, list_tables
from rince.errors import UsageError
from rince.noise.sounds import NoisySounds, SoundNoise


class Videos(DataModule):
    """``root/train/CLASS/*.mp4`` and ``root/test/CLASS/*.mp4`` (or val), ``root/CLASS/*.mp4``, or CSV files.

    Workers decode, crop and resize; colours and spectrograms are made for whole batches on the model's device. A video
    that cannot be used is replaced by another one, counted, and listed in ``skipped.csv`` in the run's folder; in
    evaluation it is left out.

    Example:
        >>> data = rince.data.Videos("videos", num_frames=8, fps=16, noise=rince.noise.Overdub(rate=0.4))
    """

    tables: tuple[str, ...] = ("table", "test_table")  # which of them a kind of videos reads

    def __init__(
        self,
        root: str = ".",
        table: str | None = None,
        test_table: str | None = None,
        num_frames: int = 8,
        fps: float = 16,
        audio_duration: float = 2.0,
        sample_rate: int = 24000,
        size: int = 224,
        crop: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        clips: int = 1,
        visits: int = 1,
        sound: bool = True,
        short: Literal["skip", "hold", "loop"] = "skip",
        batch_size: int = 64,
        test_clips: int = 10,
        validation: float = 0.0,
        noise: SoundNoise | None = None,
        workers: int = 4,
    ):
        """
        Args:
            root: Folder with the folders train, test (or val) and, with test, val; or with class folders; where a
                table's paths start.
            table: CSV file of the videos to train on, with the columns path, label (optional) and start (optional).
            test_table: CSV file of the videos to test on.
            num_frames: Frames of a clip.
            fps: Frames per second of a clip; that of the file does not matter.
            audio_duration: Seconds of sound around the middle of the clip.
            sample_rate: Samples per second of the sound.
            size: Height and width of the clips.
            crop: Smallest and largest area of a crop, as a share of the image.
            ratio: Smallest and largest ratio of width to height of a crop.
            clips: Clips that are read each time a video is visited.
            visits: How often a video is visited in an epoch, at other moments each time.
            sound: Whether to read pairs of clip and sound, or clips alone.
            short: What to do with a video shorter than a clip: skip it, hold its last frame, or loop it.
            batch_size: Clips in a batch of all processes together.
            test_clips: Clips of a video in a test, evenly spaced in time.
            validation: Share of the training videos that is set aside as the part "validation".
            noise: Wrong sounds for training; evaluation always uses the right sounds.
            workers: Processes that decode, for each training process.

        Raises:
            UsageError: If a number is out of range, batch_size is no multiple of clips, or options contradict each
                other.
        """
        super().__init__()
        for name, value in (("num_frames", num_frames), ("size", size), ("clips", clips), ("visits", visits),
                            ("test_clips", test_clips)):  # fmt: skip
            if value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}")
        for name, number in (("fps", fps), ("audio_duration", audio_duration), ("sample_rate", sample_rate)):
            if not 0 < number < float("inf"):
                raise UsageError(f"{name} must be above 0, got {number}")
        check_workers(workers)
        if not 0 < ratio[0] <= ratio[1] < float("inf"):
            raise UsageError(
                f"ratio must be two ratios of width to height with 0 < least <= largest, got {tuple(ratio)}"
            )
        if not 0 < crop[0] <= crop[1] <= 1:
            raise UsageError(f"crop must be two shares of the area with 0 < least <= largest <= 1, got {tuple(crop)}")
        if not 0 <= validation < 1:
            raise UsageError(f"validation must be a share of the videos in [0, 1), got {validation}")
        if batch_size % clips or batch_size // clips < 2:
            raise UsageError(
                f"batch_size must be a multiple of clips, {clips}, and hold two videos or more, got {batch_size}"
            )
        for name, given in (("table", table), ("test_table", test_table)):
            if given is not None and name not in self.tables:
                raise UsageError(f"{type(self).__name__} has lists of its own: leave out {name}, got {given}")
        if noise is not None and not sound:
            raise UsageError("noise on sounds needs sound: true")
        self.root, self.table, self.test_table = Path(root), table, test_table
        self.form = ClipFormat(
            num_frames, fps, audio_duration, sample_rate, size, sound, "refuse" if short == "skip" else short
        )
        self.crop, self.ratio, self.clips, self.batch_size = crop, ratio, clips, batch_size
        self.visits = visits
        self.test_clips, self.validation, self.noise, self.workers = test_clips, validation, noise, workers
        self.noisy: NoisySounds | None = None
        self._lists: dict[str, VideoList] = {}
        self._skipped: Skipped | None = None
        self._training: ClipLoader | None = None

    def read(self) -> tuple[tuple[str, ...], dict[str, VideoList]]:
        """The names of the classes, and the videos of the parts "train" and, where they are, "validation" and "test".
        With a folder val and none called test, val is what is tested on."""
        if self.table is not None:
            tables = {"train": self.table, "test": self.test_table}
            return list_tables({part: Path(table) for part, table in tables.items() if table is not None}, self.root)
        if not (self.root / "train").is_dir():
            names, found = list_folder(self.root)
            return names, {"train": found}
        names, found = list_folder(self.root / "train")
        lists = {"train": found}
        folders = [name for name in ("val", "test") if (self.root / name).is_dir()]
        for name, part in zip(folders, ["test"] if len(folders) == 1 else ["validation", "test"], strict=False):
            others, lists[part] = list_folder(self.root / name)
            if others != names:
                odd = sorted(set(others) ^ set(names))
                raise UsageError(f"{self.root / name} and train have other classes: {odd[0]} is in one only")
        return names, lists

    def setup(self, stage: str | None = None) -> None:
        if self._lists:
            return
        require("av", "video")
        self.class_names, lists = self.read()
        if self.validation and "validation" in lists:
            raise UsageError(f"{self.root} has a validation part of its own: leave out validation, {self.validation}")
        if self.validation:
            count = len(lists["train"].paths)
            order = torch.randperm(count, generator=generator(0, 6)).numpy()
            aside = round(self.validation * count)
            lists["validation"] = lists["train"].take(np.sort(order[:aside]))
            lists["train"] = lists["train"].take(np.sort(order[aside:]))
        self._lists = lists
        if self.noise is not None:
            self.noisy = self.noise(len(lists["train"].paths), lists["train"].labels)

    @property
    def classes(self) -> int:
        self.setup()
        return len(self.class_names)

    def check_views(self, views: torch.nn.Module) -> None:
        """Refuse recipes for clips of another size, or sounds of another rate, than the data have."""
        for recipe in views.modules():
            for name, mine in (("size", self.form.size), ("sample_rate", self.form.sample_rate)):
                if getattr(recipe, name, mine) != mine:
                    raise UsageError(
                        f"data and views must agree: data.{name} is {mine}, that of {type(recipe).__name__} is "
                        f"{getattr(recipe, name)}"
                    )

    def noise_record(self) -> dict[str, Any]:
        """What the noise hit, as arrays to be saved with the run."""
        return {} if self.noisy is None else self.noisy.record()

    def fingerprint(self) -> str:
        videos = self.videos("train")
        names = (os.path.relpath(path, self.root) for path in videos.paths)
        return of_lines([*names, *map(str, videos.labels.tolist())])

    def videos(self, part: str) -> VideoList:
        """Files and right labels of a part: train, validation or test."""
        self.setup()
        if part not in self._lists:
            raise UsageError(f"there is no part '{part}' of {self.root}, only {', '.join(self._lists)}")
        return self._lists[part]

    @property
    def skipped(self) -> Skipped:
        """The videos that could not be used so far."""
        if self._skipped is None:
            self.setup()
            totals = {part: len(videos.paths) for part, videos in self._lists.items()}
            self._skipped = Skipped(totals, self.folder, self.trainer.global_rank if self.trainer else 0)
        return self._skipped

    @property
    def training_pairs(self) -> int:
        return len(self.videos("train").paths)

    def pair_names(self) -> list[str]:
        """The files of the training part, seen from ``root`` where they lie below it."""
        paths = [Path(path) for path in self.videos("train").paths]
        return [(p.relative_to(self.root) if p.is_relative_to(self.root) else p).as_posix() for p in paths]

    def noisy_batches(self, ids: torch.Tensor) -> "ClipLoader":
        reader = EvaluationClips(self.videos("train"), self.form, 1, self.noisy)
        batches = [part.tolist() for part in ids.split(self.batch_size)]
        return ClipLoader(self._loader(reader, self.form.sound, False, batches), "train", self.skipped)

    def train_dataloader(self) -> "ClipLoader":
        videos, trainer = self.videos("train"), self.trainer
        count = len(videos.paths)
        shape = count * self.visits, self.batch_size // self.clips, self.seed
        batches = SeededBatches(*shape, lambda: 0)
        if trainer is not None:
            # A visit of video i is the item i plus a multiple of the number of videos.
            visits = None if self.among is None else torch.cat([self.among + k * count for k in range(self.visits)])
            batches = SeededBatches.of_trainer(trainer, *shape, visits)
        among = None if self.among is None else self.among.numpy()
        reader = TrainingClips(videos, self.form, self.crop, self.ratio, self.clips, self.seed, self.noisy, among)
        loader = self._loader(reader, self.form.sound, True, WithStep(batches), self.trust)
        self._training = ClipLoader(loader, "train", self.skipped, strict=True)
        return self._training

    def val_dataloader(self) -> Any:
        """The middle clip of every video kept aside."""
        self.setup()
        return self.evaluation_loader("validation", 1, self.form.sound) if "validation" in self._lists else []

    def test_dataloader(self) -> "ClipLoader":
        """``test_clips`` clips of every video, with sound if training has it."""
        return self.evaluation_loader("test", self.test_clips, self.form.sound)

    def evaluation_loader(
        self, part: str, clips: int = 1, sound: bool = False, noisy: bool = False, rank: int = 0, processes: int = 1
    ) -> "ClipLoader":
        """Clips of the videos of a part, in order; of every ``processes``-th one with several processes."""
        videos = self.videos(part)
        noise = self.noisy if noisy and part == "train" else None
        reader = EvaluationClips(videos, self.form._replace(sound=sound), clips, noise)
        items = range(rank, len(videos.paths), processes)
        share = max(1, self.batch_size // clips)
        batches = [list(items[i : i + share]) for i in range(0, len(items), share)]
        loader = self._loader(reader, sound, False, batches)
        return ClipLoader(loader, part, self.skipped)

    def _loader(
        self, reader: Any, pairs: bool, cropped: bool, batches: Any, trust: torch.Tensor | None = None
    ) -> DataLoader[Any]:
        return DataLoader(
            reader,
            batch_sampler=batches,
            num_workers=self.workers,
            collate_fn=partial(collate, pairs=pairs, cropped=cropped, trust=trust),
            pin_memory=torch.cuda.is_available(),
            persistent_workers=cropped and self.workers > 0,  # a few labelled videos make short epochs
        )

    def labelled_batches(self, split: Split) -> "ClipLoader":
        """The middle clip of every video, without its sound."""
        return self.evaluation_loader(split)

    def pair_batches(self, split: Split, noisy: bool = False) -> Any:
        """The middle clip of every video of a part with its sound: the right one or, ``noisy``, that of training."""
        return self.evaluation_loader(split, sound=True, noisy=noisy)

    def teardown(self, stage: str | None = None) -> None:
        if self._training is not None:
            self._training.close()
            self._training = None
        if self._skipped is not None:
            self._skipped.write()
