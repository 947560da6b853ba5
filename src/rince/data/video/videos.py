"""Video data sets: folders and CSV files, Kinetics-400, ACAV100M, UCF-101 and HMDB-51."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import DataLoader

from rince._support.fingerprints import of_lines
from rince._support.image_operations import check_crop
from rince._support.optional_imports import require
from rince._support.step_seeds import generator
from rince.data.module import DataModule, SeededBatches, Split, StepBatches
from rince.data.video.clips import (
    ClipFormat,
    ClipLoader,
    EvaluationClips,
    Skipped,
    TrainingClips,
    VideoList,
    collate,
    list_folder,
    list_table,
    list_tables,
    video_list,
)
from rince.errors import MissingFile, UsageError
from rince.noise.pairs import NoisySounds, SoundNoise


class Videos(DataModule):
    """Videos in ``root/train/CLASS/*.mp4`` and ``root/test/CLASS/*.mp4`` (or val), ``root/CLASS/*.mp4``, or CSV files.

    Workers decode, crop and resize; colors and spectrograms are computed on batches on the device of the model. An
    unusable video is replaced by another one in training, left out in evaluation, and listed in ``skipped.csv`` in the
    folder of the run.

    Example:
        >>> data = rince.data.Videos("videos", num_frames=8, fps=16, noise=rince.noise.Overdub(rate=0.4))
    """

    tables: tuple[str, ...] = ("table", "test_table")  # accepted by the class

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
        audio_position: Literal["centered", "anywhere"] = "centered",
    ):
        """
        Args:
            root: Folder with the folders train, test (or val) and, optionally beside test, val; or with class folders.
                Paths in tables are relative to it.
            table: CSV file of the training videos, with the columns path, label (optional) and start (optional).
            test_table: CSV file of the test videos.
            num_frames: Frames per clip.
            fps: Frames per second of a clip, independent of the file's.
            audio_duration: Seconds of sound per clip.
            sample_rate: Samples per second of the sound.
            size: Height and width of the clips.
            crop: Smallest and largest area of a crop, as a share of the image.
            ratio: Smallest and largest ratio of width to height of a crop.
            clips: Clips per visit to a video.
            visits: Visits to a video per epoch, at different times.
            sound: Pairs of clip and sound. False: clips only.
            short: Videos shorter than a clip: "skip" them, "hold" the last frame, or "loop".
            batch_size: Clips per batch over all processes.
            test_clips: Clips per video in a test, evenly spaced in time.
            validation: Share of the training videos to set aside as the part "validation".
            noise: Wrong sounds for training; evaluation uses the right sounds.
            workers: Loader workers per training process.
            audio_position: "centered": sound around the middle of the clip. "anywhere", in training: the clip anywhere
                in its sound or up to half a second outside, as in AVID. Noisy sounds are not shifted.

        Raises:
            UsageError: If crop, ratio or validation is out of range, batch_size is not a multiple of clips, or options
                contradict each other.
        """
        super().__init__()
        check_crop(crop, ratio)
        if not 0 <= validation < 1:
            raise UsageError(f"validation must be a share of the videos in [0, 1), got {validation}")
        if batch_size % clips or batch_size // clips < 2:
            raise UsageError(
                f"batch_size must be a multiple of clips, {clips}, and hold at least two videos, got {batch_size}"
            )
        for name, value in (("table", table), ("test_table", test_table)):
            if value is not None and name not in self.tables:
                raise UsageError(f"{type(self).__name__} has lists of its own: leave out {name}, got {value}")
        if noise is not None and not sound:
            raise UsageError("noise on sounds needs sound: true")
        self.root, self.table, self.test_table = Path(root), table, test_table
        self.form = ClipFormat(
            num_frames,
            fps,
            audio_duration,
            sample_rate,
            size,
            sound,
            "refuse" if short == "skip" else short,
            audio_position == "centered",
        )
        self.crop, self.ratio, self.clips, self.batch_size = crop, ratio, clips, batch_size
        self.visits = visits
        self.test_clips, self.validation, self.noise, self.workers = test_clips, validation, noise, workers
        self.noisy: NoisySounds | None = None
        self._lists: dict[str, VideoList] = {}
        self._skipped: Skipped | None = None
        self._training: ClipLoader | None = None

    def read(self) -> tuple[tuple[str, ...], dict[str, VideoList]]:
        """Names of the classes, and the videos of the parts "train" and, optionally, "validation" and "test".

        The folder val is the part "test" if the folder test does not exist."""
        if self.table is not None:
            tables = {"train": self.table, "test": self.test_table}
            return list_tables({part: Path(table) for part, table in tables.items() if table is not None}, self.root)
        if not (self.root / "train").is_dir():
            names, videos = list_folder(self.root)
            return names, {"train": videos}
        names, videos = list_folder(self.root / "train")
        lists = {"train": videos}
        folders = [name for name in ("val", "test") if (self.root / name).is_dir()]
        for name, part in zip(folders, ["test"] if len(folders) == 1 else ["validation", "test"], strict=False):
            lists[part] = list_folder(self.root / name, names)[1]
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
            num_validation = round(self.validation * count)
            lists["validation"] = lists["train"].take(np.sort(order[:num_validation]))
            lists["train"] = lists["train"].take(np.sort(order[num_validation:]))
        self._lists = lists
        if self.noise is not None:
            self.noisy = self.noise(len(lists["train"].paths), lists["train"].labels)

    @property
    def classes(self) -> int:
        self.setup()
        return len(self.class_names)

    def check_views(self, views: torch.nn.Module) -> None:
        """Reject recipes for clips of another size or sounds of another rate."""
        for recipe in views.modules():
            for name, value in (("size", self.form.size), ("sample_rate", self.form.sample_rate)):
                if getattr(recipe, name, value) != value:
                    raise UsageError(
                        f"data and views must agree: data.{name} is {value}, that of {type(recipe).__name__} is "
                        f"{getattr(recipe, name)}"
                    )

    def noise_record(self) -> dict[str, Any]:
        """Arrays that record the noise, saved with the run."""
        return {} if self.noisy is None else self.noisy.record()

    def fingerprint(self) -> str:
        videos = self.videos("train")
        names = (os.path.relpath(path, self.root) for path in videos.paths)
        return of_lines([*names, *map(str, videos.labels.tolist())])

    def videos(self, part: str) -> VideoList:
        """Files and clean labels of a part: train, validation or test."""
        self.setup()
        if part not in self._lists:
            raise UsageError(f"there is no part '{part}' of {self.root}, only {', '.join(self._lists)}")
        return self._lists[part]

    @property
    def skipped(self) -> Skipped:
        """Videos that could not be used so far."""
        if self._skipped is None:
            self.setup()
            self._skipped = Skipped(self._lists, self.folder, self.trainer.global_rank if self.trainer else 0)
        return self._skipped

    @property
    def training_pairs(self) -> int:
        return len(self.videos("train").paths)

    def pair_names(self) -> list[str]:
        """Files of the training part, relative to ``root`` if they are below it."""
        paths = [Path(path) for path in self.videos("train").paths]
        return [(p.relative_to(self.root) if p.is_relative_to(self.root) else p).as_posix() for p in paths]

    def noisy_batches(self, ids: torch.Tensor) -> ClipLoader:
        return self._evaluation("train", ids.tolist(), 1, self.form.sound, self.noisy)

    def train_dataloader(self) -> ClipLoader:
        videos, trainer = self.videos("train"), self.trainer
        count = len(videos.paths)
        shape = count * self.visits, self.batch_size // self.clips, self.seed
        batches = SeededBatches(*shape, lambda: 0)
        if trainer is not None:
            # Visit k of video i is item i + k * count.
            visits = None if self.among is None else torch.cat([self.among + k * count for k in range(self.visits)])
            batches = SeededBatches.of_trainer(trainer, *shape, visits)
        among = None if self.among is None else self.among.numpy()
        reader = TrainingClips(videos, self.form, self.crop, self.ratio, self.clips, self.seed, self.noisy, among)
        self._training = ClipLoader(self._loader(reader, StepBatches(batches)), "train", self.skipped, strict=True)
        return self._training

    def val_dataloader(self) -> Any:
        """Middle clip of every video of the part "validation", if any."""
        self.setup()
        return self.evaluation_loader("validation", 1, self.form.sound) if "validation" in self._lists else []

    def test_dataloader(self) -> ClipLoader:
        """``test_clips`` clips of every video, with sound if training uses it."""
        return self.evaluation_loader("test", self.test_clips, self.form.sound)

    def evaluation_loader(self, part: str, clips: int = 1, sound: bool = False, noisy: bool = False) -> ClipLoader:
        """Clips of the videos of a part, in order."""
        items = range(len(self.videos(part).paths))
        return self._evaluation(part, items, clips, sound, self.noisy if noisy and part == "train" else None)

    def _evaluation(
        self, part: str, items: Sequence[int], clips: int, sound: bool, noise: NoisySounds | None
    ) -> ClipLoader:
        reader = EvaluationClips(self.videos(part), self.form._replace(sound=sound), clips, noise)
        share = max(1, self.batch_size // clips)
        batches = [list(items[i : i + share]) for i in range(0, len(items), share)]
        return ClipLoader(self._loader(reader, batches), part, self.skipped)

    def _loader(self, reader: TrainingClips | EvaluationClips, batches: Any) -> DataLoader[Any]:
        training = isinstance(reader, TrainingClips)
        weights = self.weights if training else None
        return DataLoader(
            reader,
            batch_sampler=batches,
            num_workers=self.workers,
            collate_fn=partial(collate, pairs=reader.form.sound, cropped=training, weights=weights),
            pin_memory=torch.cuda.is_available(),
            persistent_workers=training and self.workers > 0,  # a few labeled videos make short epochs
        )

    def labeled_batches(self, split: Split) -> ClipLoader:
        """Middle clip of every video, without sound."""
        return self.evaluation_loader(split)

    def pair_batches(self, split: Split, noisy: bool = False) -> Any:
        """Middle clip of every video of a part with its sound: the right one or, if ``noisy``, that of training."""
        return self.evaluation_loader(split, sound=True, noisy=noisy)

    def teardown(self, stage: str | None = None) -> None:
        if self._training is not None:
            self._training.close()
            self._training = None
        if self._skipped is not None:
            self._skipped.write()


class SplitVideos(Videos):
    """Base class of UCF-101 and HMDB-51: class folders of short videos, and three official splits."""

    lists = ""  # usual name of the folder of the official lists
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
            split: Number of the split.
            splits: Folder of the official lists. Default: the folder of the usual name, in root or beside it.
            sound: Pairs of clip and sound. Most of these videos have no sound.
            short: Videos shorter than a clip: "skip" them, "hold" the last frame, or "loop".
        """
        super().__init__(root, sound=sound, short=short, **options)
        self.number, self.splits = split, splits

    def lists_folder(self) -> Path:
        """Folder of the official lists."""
        defaults = [self.root / self.lists, self.root.parent / self.lists]
        candidates = defaults if self.splits is None else [Path(self.splits)]
        for folder in candidates:
            if folder.is_dir():
                return folder
        raise MissingFile(f"{candidates[0]} with the official splits does not exist: download it, or set splits")


class Kinetics400(Videos):
    """Kinetics-400 in ``root/train/CLASS/*.mp4`` and ``root/val/CLASS/*.mp4``.

    Many of its videos are missing or silent, see ``skipped.csv`` in the folder of the run.

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
            raise MissingFile(f"{self.root / 'train'} does not exist: videos must be in train/CLASS/")
        return super().read()


class ACAV100M(Videos):
    """ACAV100M: videos in ``root`` that are listed in ``table``, or a random subset of them, without labels.

    Further options are those of :class:`rince.data.Videos`.

    Example:
        >>> data = rince.data.ACAV100M("data/acav", table="data/acav/list.txt", subset=20_000)
    """

    tables = ("table",)

    def __init__(self, root: str, table: str, subset: int | None = None, subset_seed: int = 0, **options: Any):
        """
        Args:
            root: Folder of the videos.
            table: File with one path per line, relative to root, or a CSV file with the columns path and, optionally,
                start.
            subset: Number of videos, such as 20000 or 500000. A smaller subset is part of a larger one. Default: all.
            subset_seed: Seed of the subset.

        Raises:
            UsageError: If the subset is below 2 videos.
        """
        super().__init__(root, table, **options)
        if subset is not None and subset < 2:
            raise UsageError(f"subset must be at least 2 videos, got {subset}")
        self.subset, self.subset_seed = subset, subset_seed

    def read(self) -> tuple[tuple[str, ...], dict[str, VideoList]]:
        assert self.table is not None
        videos = list_lines(Path(self.table), self.root)
        if self.subset is None:
            return (), {"train": videos}
        if self.subset > len(videos.paths):
            raise UsageError(
                f"subset must be at most the {len(videos.paths)} videos of {self.table}, got {self.subset}"
            )
        order = np.random.default_rng(self.subset_seed).permutation(len(videos.paths))
        return (), {"train": videos.take(np.sort(order[: self.subset]))}


def list_lines(table: Path, root: Path) -> VideoList:
    """Read a list with one path per line, or a CSV file with a column path."""
    with open(table, encoding="utf-8-sig") as file:
        lines = [line.strip() for line in file]
    if lines and "path" in lines[0].split(","):
        return list_table(table, root)[1]
    paths = [root / line for line in lines if line]
    if not paths:
        raise UsageError(f"{table} lists no videos")
    return video_list(paths)


class UCF101(SplitVideos):
    """UCF-101 in ``root/CLASS/v_*.avi``, with the official lists (``trainlist01.txt`` and so on) in ``splits``.

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
    """Names of the classes in the order of their numbers."""
    lines = _lines(path)
    for line in lines:
        if len(line) != 2 or not line[0].isdecimal():
            raise UsageError(f"{path} must have a number and a name on every line, got '{' '.join(line)}'")
    return tuple(name for _, name in sorted((int(number), name) for number, name in lines))


def _lines(path: Path) -> list[list[str]]:
    if not path.is_file():
        raise MissingFile(f"there is no {path}, one of the official lists of UCF-101")
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


PARTS = {"1": "train", "2": "test"}  # 0: in neither


class HMDB51(SplitVideos):
    """HMDB-51 in ``root/CLASS/*.avi``, with the official lists (``CLASS_test_split1.txt`` and so on) in ``splits``.

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
