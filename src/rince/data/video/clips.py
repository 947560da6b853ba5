"""Clips of a list of videos, read by loader workers. Unreadable videos are replaced and counted."""

import csv
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from rince._support.atomic_files import written_whole
from rince._support.csv_cells import CsvWriter, unescaped
from rince.data.image_folder import crop_box
from rince.data.module import list_class_folders
from rince.data.video.decode import BadVideo, Box, Clip, FrameTransform, Short, TooShort, VideoFile
from rince.errors import UsageError
from rince.noise.pairs import NoisySounds
from rince.views.views import ClipBatch, PairBatch

Bad = dict[int, str]
"""Reasons why items are unusable, as predicates to follow the path."""
ENDINGS = {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".flv", ".wmv", ".mpg", ".mpeg", ".ts", ".ogv", ".3gp"}


class VideoList(NamedTuple):
    """Files, labels (-1: unknown) and start times of the clips in seconds (NaN: anywhere)."""

    paths: list[str]
    labels: NDArray[np.int64]
    starts: NDArray[np.float64]

    def take(self, places: ArrayLike) -> "VideoList":
        chosen = np.asarray(places, dtype=np.int64)
        return VideoList([self.paths[i] for i in chosen], self.labels[chosen], self.starts[chosen])


def video_list(paths: Sequence[Path | str], labels: Sequence[int] | None = None) -> VideoList:
    label_array = np.full(len(paths), -1) if labels is None else np.asarray(labels)
    return VideoList([str(path) for path in paths], label_array.astype(np.int64), np.full(len(paths), np.nan))


def list_folder(folder: Path, classes: tuple[str, ...] | None = None) -> tuple[tuple[str, ...], VideoList]:
    """Class names and videos of ``folder/CLASS/*.mp4``; of ``folder/*.mp4``, without labels, if there are no classes.

    ``classes`` are the class names of the training part, which must match.
    """
    names, paths, labels = list_class_folders(folder, ENDINGS, "videos", classes)
    if names:
        return names, video_list(paths, labels)
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS and path.is_file())
    if not paths:
        raise UsageError(f"{folder} holds no videos and no class folders: videos must be in {folder}/CLASS/")
    return (), video_list(paths)


def list_table(table: Path, root: Path) -> tuple[list[str], VideoList]:
    """Labels as texts ('' for an empty one or -1), and videos, of a CSV file with the column ``path`` and, optionally,
    ``label`` and ``start``. Paths are relative to ``root``. The videos have no labels yet."""
    try:
        with open(table, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if "path" not in (reader.fieldnames or []):
                raise UsageError(f"{table} has no column 'path': the first line must name the columns")
            rows = [row for row in reader if row["path"]]
    except UnicodeDecodeError as error:
        raise UsageError(f"{table} is not a text file with columns: {error.reason}") from error
    if not rows:
        raise UsageError(f"{table} lists no videos")
    videos = video_list([root / row["path"] for row in rows])
    starts = np.array([_start(row, table, line) for line, row in enumerate(rows, start=2)])
    labels = [(row.get("label") or "").strip() for row in rows]
    return ["" if label == "-1" else label for label in labels], videos._replace(starts=starts)


def _start(row: dict[str, Any], table: Path, line: int) -> float:
    try:
        return float(row.get("start") or "nan")
    except ValueError:
        raise UsageError(f"{table}, line {line}: start must be seconds from 0 on, got '{row['start']}'") from None


def list_tables(tables: dict[str, Path], root: Path) -> tuple[tuple[str, ...], dict[str, VideoList]]:
    """Class names, sorted as texts or as numbers, and the videos of several CSV files that share them."""
    by_part = {part: list_table(table, root) for part, table in tables.items()}
    labels_found = {name for labels, _ in by_part.values() for name in labels if name}
    numbers = all(name.isdecimal() for name in labels_found)
    names = sorted(labels_found, key=int) if numbers else sorted(labels_found)
    label = {name: i for i, name in enumerate(names)} | {"": -1}
    lists = {
        part: listed._replace(labels=np.array([label[name] for name in labels], dtype=np.int64))
        for part, (labels, listed) in by_part.items()
    }
    return tuple(names), lists


MIN_TRIED = 1000  # files to try before the share of unusable ones is trusted


class Skipped:
    """Unusable videos, with reasons by path, stored in ``skipped.csv`` in the folder of a run.

    More than half of the videos of a part is an error. With several processes, each writes its own list
    (``.skipped-1.csv``), and rank 0 merges them.
    """

    def __init__(self, lists: Mapping[str, VideoList], folder: Path | None = None, rank: int = 0):
        self.lists, self.folder, self.rank = lists, folder, rank
        self.reasons: dict[str, str] = {}
        self._tried: dict[str, set[int]] = {part: set() for part in lists}
        self._bad: dict[str, set[int]] = {part: set() for part in lists}
        self._written = 0

    def note(self, part: str, tried: Iterable[int], bad: Bad) -> None:
        """Add the tried items and the reasons of the unusable ones."""
        paths = self.lists[part].paths
        self._tried[part].update(tried)
        self._bad[part].update(bad)
        self.reasons.update({paths[item]: reason for item, reason in bad.items()})
        if len(self.reasons) > 1.1 * self._written:
            self.write()
        num_bad, num_tried = len(self._bad[part]), len(self._tried[part])
        if 2 * num_bad > len(paths) or (num_tried >= MIN_TRIED and 2 * num_bad > num_tried):
            self.give_up(part)

    def give_up(self, part: str) -> None:
        self.write()
        path, reason = next(iter(self.reasons.items()))
        raise UsageError(
            f"more than half of the videos cannot be used, {len(self._bad[part])} of the {len(self._tried[part])} that "
            f"were tried: the first is {path}, which {reason}"
            + ("" if self.folder is None else f" ({self.folder / 'skipped.csv'} lists them)")
        )

    def write(self) -> None:
        """Update the file."""
        if self.folder is None:
            return
        own = self.folder / (f".skipped-{self.rank}.csv" if self.rank else "skipped.csv")
        rows = dict(self.reasons)
        for path in [own, *(self.folder.glob(".skipped-*.csv") if not self.rank else ())]:
            if path.exists():
                with open(path, newline="", encoding="utf-8") as file:
                    written = [row for row in csv.reader(file) if len(row) == 2 and row != ["path", "reason"]]
                rows |= {unescaped(path): unescaped(reason) for path, reason in written}
        if rows:
            with written_whole(own) as path, open(path, "w", newline="", encoding="utf-8") as file:
                writer = CsvWriter(file)
                writer.writerow(("path", "reason"))
                writer.writerows(sorted(rows.items()))
        self._written = len(self.reasons)


TRIES = 64  # random bad videos in a row: practically impossible if fewer than half are bad


class ClipFormat(NamedTuple):
    """Format of a clip."""

    num_frames: int = 8
    fps: float = 16
    audio_duration: float = 2.0
    sample_rate: int = 24000
    size: int = 224
    sound: bool = True
    short: Short = "refuse"
    centered: bool = True

    @property
    def length(self) -> float:
        return self.num_frames / self.fps


class Visit(NamedTuple):
    """Clips of a video (empty if unreadable), all tried items, and reasons of the unusable ones."""

    item: int
    label: int
    clips: list[Clip]
    tried: list[int]
    bad: Bad


class ClipReader(Dataset[Any]):
    """Base class: clips of the videos of a list.

    Args:
        videos: The list.
        form: Format of the clips.
        noise: Wrong sounds.
        among: Items that may replace an unusable one. Default: None, all.
    """

    def __init__(
        self,
        videos: VideoList,
        form: ClipFormat,
        noise: NoisySounds | None = None,
        among: NDArray[np.int64] | None = None,
    ):
        self.videos, self.form, self.noise, self.among = videos, form, noise, among

    def __len__(self) -> int:
        return len(self.videos.paths)

    def visit(self, item: int, read: Callable[[int, Bad], list[Clip]], others: Iterable[int]) -> Visit:
        """Clips of the item, or of the first of the others that can be read.

        Unusable videos are retried on each visit, since a worker's choices must not depend on its history.
        """
        tried: list[int] = []
        bad: Bad = {}
        for candidate in chain((item,), others):
            tried.append(candidate)
            try:
                return Visit(candidate, int(self.videos.labels[candidate]), read(candidate, bad), tried, bad)
            except (BadVideo, OSError) as error:
                bad[candidate] = self._reason(candidate, error)
        return Visit(item, -1, [], tried, bad)

    def _reason(self, item: int, error: Exception) -> str:
        is_missing = isinstance(error, FileNotFoundError)
        return "does not exist" if is_missing else str(error).replace(self.videos.paths[item], "").strip()

    def read(
        self,
        item: int,
        shares: Sequence[float],
        transforms: Sequence[FrameTransform],
        bad: Bad,
        shifts: Sequence[float] | None = None,
        sound_shares: Sequence[float] | None = None,
        key: tuple[int, ...] = (),
    ) -> list[Clip]:
        """Clips at shares (0: first possible start, 1: last) of a video, with clean or noisy sounds.

        Args:
            item: The video.
            shares: Start of each clip, as a share.
            transforms: Crop of each clip.
            bad: Collects the reasons of unusable partners.
            shifts: Seconds by which the sound of each clip is shifted, within the limits of the file.
            sound_shares: Start of each sound of another video. Default: as ``shares``.
            key: Random key for choosing another partner if the partner's sound is unusable.
        """
        noise = self.noise
        if not self.form.sound or noise is None or not noise.hit[item]:
            return self._clips(item, shares, transforms, self.form.sound, shifts)
        clips = self._clips(item, shares, transforms, False)
        if noise.silent[item]:
            silence = np.zeros(round(self.form.audio_duration * self.form.sample_rate), np.float32)
            return [clip._replace(audio=silence) for clip in clips]
        sounds = self._noisy_sounds(item, shares, sound_shares or shares, key, bad)
        return [clip._replace(audio=sound) for clip, sound in zip(clips, sounds, strict=True)]

    def _clips(
        self,
        item: int,
        shares: Sequence[float],
        transforms: Sequence[FrameTransform],
        sound: bool,
        shifts: Sequence[float] | None = None,
    ) -> list[Clip]:
        form = self.form
        with VideoFile(self.videos.paths[item]) as file:
            if form.sound and file.soundtrack is None:
                raise BadVideo(f"{self.videos.paths[item]} has no sound")

            def clips_until(end: float, short: Short) -> list[Clip]:
                starts = self._starts(item, end, shares)
                settings = form.num_frames, form.fps, form.audio_duration, form.sample_rate
                return file.clips(starts, *settings, sound, short, transforms, shifts)

            try:
                return clips_until(file.duration, "refuse")
            except TooShort as error:  # the duration in the header may be too long
                fits = error.end >= form.length and np.isnan(self.videos.starts[item])
                return clips_until(error.end, "refuse" if fits else form.short)

    def _starts(self, item: int, end: float, shares: Sequence[float]) -> list[float]:
        fixed = float(self.videos.starts[item])
        latest = max(0.0, end - self.form.length)
        return [share * latest if np.isnan(fixed) else fixed for share in shares]

    def _noisy_sounds(
        self, item: int, shares: Sequence[float], partner_shares: Sequence[float], key: tuple[int, ...], bad: Bad
    ) -> list[Any]:
        """Sounds for clips of an item: shifted, or from a partner."""
        assert self.noise is not None
        partner, shift = int(self.noise.partner[item]), float(self.noise.shift[item])
        if partner == item:
            return self._sounds(item, shares, shift)
        for candidate in chain((partner,), self.others(key)):
            if candidate != item:
                try:
                    return self._sounds(candidate, partner_shares, shift)
                except (BadVideo, OSError) as error:
                    bad[candidate] = self._reason(candidate, error)
        raise BadVideo(f"{self.videos.paths[item]}: no other video has a usable sound")

    def _sounds(self, item: int, shares: Sequence[float], shift: float) -> list[Any]:
        form = self.form
        with VideoFile(self.videos.paths[item]) as file:
            starts = self._starts(item, file.duration, shares)
            middles = [start + form.length / 2 + shift for start in starts]
            return file.sounds(middles, form.audio_duration, form.sample_rate)

    def others(self, key: tuple[int, ...]) -> Iterator[int]:
        """Random replacement items."""
        random = np.random.default_rng(key)
        for _ in range(TRIES):
            index = int(random.integers(len(self) if self.among is None else len(self.among)))
            yield index if self.among is None else int(self.among[index])


class TrainingClips(ClipReader):
    """Random clips with random crops; keys are (position in the epoch, step).

    With several visits an epoch has more positions than items: item i is at i, i + items, i + 2 items, ...
    """

    def __init__(
        self,
        videos: VideoList,
        form: ClipFormat,
        crop: tuple[float, float],
        ratio: tuple[float, float],
        count: int,
        seed: int,
        noise: NoisySounds | None = None,
        among: NDArray[np.int64] | None = None,
    ):
        super().__init__(videos, form, noise, among)
        self.crop, self.ratio, self.count, self.seed = crop, ratio, count, seed

    def __getitem__(self, key: tuple[int, int]) -> Visit:
        place, step = key

        def read(item: int, bad: Bad) -> list[Clip]:
            key = (self.seed, step, place, item)
            shares = np.random.default_rng((*key, 2)).random(2 * self.count).tolist()
            transforms = [FrameTransform(self._box((*key, i, 3)), self.form.size) for i in range(self.count)]
            clip_shares, sound_shares = shares[: self.count], shares[self.count :]
            return self.read(item, clip_shares, transforms, bad, self.sound_shifts((*key, 5)), sound_shares, (*key, 4))

        return self.visit(place % len(self), read, self.others((self.seed, step, place, 1)))

    def sound_shifts(self, key: tuple[int, ...]) -> list[float] | None:
        """Seconds from the middle of each clip to the middle of its sound; None if they coincide.

        As in AVID, the clip lies anywhere in its sound or up to half a second outside.
        """
        if self.form.centered or not self.form.sound:
            return None
        reach = max(0.0, self.form.audio_duration - self.form.length) / 2 + 0.5
        return np.random.default_rng(key).uniform(-reach, reach, self.count).tolist()

    def _box(self, key: tuple[int, ...]) -> Callable[[int, int], Box]:
        return lambda width, height: crop_box(np.random.default_rng(key), width, height, self.crop, self.ratio)


class EvaluationClips(ClipReader):
    """``count`` center crops of clips of every video, evenly spaced in time. Unusable videos are left out."""

    def __init__(self, videos: VideoList, form: ClipFormat, count: int, noise: NoisySounds | None = None):
        super().__init__(videos, form, noise)
        self.count = count

    def __getitem__(self, item: int) -> Visit:
        shares = [0.5] if self.count == 1 else np.linspace(0, 1, self.count).tolist()
        transforms = [FrameTransform(center_box, self.form.size) for _ in shares]
        return self.visit(item, lambda item, bad: self.read(item, shares, transforms, bad, key=(item,)), ())


def center_box(width: int, height: int) -> Box:
    """Center of a frame: the area of a ``size`` crop after resizing the shorter side to ``size / 0.875``."""
    side = round(min(width, height) * 0.875)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


class Report(NamedTuple):
    """Tried items of a batch, reasons of the unusable ones, and whether every visit returned clips."""

    tried: list[int]
    bad: Bad
    complete: bool


def collate(
    visits: list[Visit], pairs: bool, cropped: bool, weights: Tensor | None = None
) -> tuple[PairBatch | ClipBatch | None, Report]:
    """Batch of all clips (None if there are none) and a report of the visits."""
    report = Report(
        tried=[item for visit in visits for item in visit.tried],
        bad={item: reason for visit in visits for item, reason in visit.bad.items()},
        complete=all(visit.clips for visit in visits),
    )
    clips = [clip for visit in visits for clip in visit.clips]
    if not clips:
        return None, report
    frames = torch.from_numpy(np.stack([clip.frames for clip in clips]))
    labels = torch.tensor([visit.label for visit in visits for _ in visit.clips])
    ids = torch.tensor([visit.item for visit in visits for _ in visit.clips])
    if not pairs:
        return ClipBatch(frames, labels, ids, cropped), report
    sounds = torch.from_numpy(np.stack([clip.audio for clip in clips if clip.audio is not None]))
    return PairBatch(frames, sounds, labels, ids, cropped, None if weights is None else weights[ids]), report


class ClipLoader:
    """Batches of a loader. Unusable videos are counted.

    Args:
        loader: Loader with :func:`collate`.
        part: Part of the data set.
        skipped: Record of unusable videos.
        strict: Raise an error for a batch with a visit without clips.
    """

    def __init__(self, loader: DataLoader[Any], part: str, skipped: Skipped, strict: bool = False):
        self.loader: Any = loader
        self.part, self.skipped, self.strict = part, skipped, strict

    def __len__(self) -> int:
        return len(self.loader)

    def close(self) -> None:
        """Stop the persistent workers."""
        self.loader = ()

    def __iter__(self) -> Iterator[PairBatch | ClipBatch]:
        skipped = self.skipped
        num_reported = len(skipped.reasons)
        for batch, report in self.loader:
            skipped.note(self.part, report.tried, report.bad)
            if self.strict and not report.complete:
                skipped.give_up(self.part)
            if batch is not None:
                yield batch
        skipped.write()
        if len(skipped.reasons) > num_reported:
            location = "" if skipped.folder is None else f"; {skipped.folder / 'skipped.csv'} lists the reasons"
            warnings.warn(f"{len(skipped.reasons)} videos could not be used{location}")
