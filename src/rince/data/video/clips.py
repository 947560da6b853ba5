"""Clips of a list of videos, read by a loader's workers; unreadable videos are replaced and counted."""

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
from rince.data.module import SeededBatches
from rince.data.video.decode import BadVideo, Box, Clip, FrameTransform, Short, TooShort, VideoFile
from rince.errors import MissingFile, UsageError
from rince.noise.pairs import NoisySounds
from rince.views.views import ClipBatch, PairBatch

ENDINGS = {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".flv", ".wmv", ".mpg", ".mpeg", ".ts", ".ogv", ".3gp"}


class VideoList(NamedTuple):
    """Files, their labels (-1: unknown) and where their clips start in seconds (not a number: anywhere)."""

    paths: list[str]
    labels: NDArray[np.int64]
    starts: NDArray[np.float64]

    def take(self, places: ArrayLike) -> "VideoList":
        chosen = np.asarray(places, dtype=np.int64)
        return VideoList([self.paths[i] for i in chosen], self.labels[chosen], self.starts[chosen])


def video_list(paths: Sequence[Path | str], labels: Sequence[int] | None = None) -> VideoList:
    known = np.full(len(paths), -1) if labels is None else np.asarray(labels)
    return VideoList([str(path) for path in paths], known.astype(np.int64), np.full(len(paths), np.nan))


def list_folder(folder: Path) -> tuple[tuple[str, ...], VideoList]:
    """Class names and files of ``folder/CLASS/*.mp4``; of ``folder/*.mp4``, without labels, if there are no classes."""
    if not folder.is_dir():
        raise MissingFile(f"there is no folder {folder}: videos belong into {folder}/CLASS/")
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    paths: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(names):
        found = _videos(folder / name, "**/*")
        if not found:
            raise UsageError(f"the class folder {folder / name} holds no videos: fill it or remove it")
        paths += found
        labels += [label] * len(found)
    if names:
        return tuple(names), video_list(paths, labels)
    paths = _videos(folder, "*")
    if not paths:
        raise UsageError(f"{folder} holds no videos and no class folders: videos belong into {folder}/CLASS/")
    return (), video_list(paths)


def _videos(folder: Path, pattern: str) -> list[Path]:
    return sorted(path for path in folder.glob(pattern) if path.suffix.lower() in ENDINGS and path.is_file())


def list_table(table: Path, root: Path) -> tuple[list[str], VideoList]:
    """The names of the labels ('' where it is empty or -1) and the files of a CSV file with the column ``path`` and, if
    you like, ``label`` and ``start``; paths are seen from ``root``. Labels are left at -1."""
    try:
        with open(table, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if "path" not in (reader.fieldnames or []):
                raise UsageError(f"{table} has no column 'path': its first line must name the columns")
            rows = [row for row in reader if row["path"]]
    except UnicodeDecodeError as error:
        raise UsageError(f"{table} is not a text file with columns: {error.reason}") from error
    if not rows:
        raise UsageError(f"{table} lists no videos")
    found = video_list([root / row["path"] for row in rows])
    starts = np.array([_start(row, table, line) for line, row in enumerate(rows, start=2)])
    labels = [(row.get("label") or "").strip() for row in rows]
    return ["" if label == "-1" else label for label in labels], found._replace(starts=starts)


def _start(row: dict[str, Any], table: Path, line: int) -> float:
    text = row.get("start") or "nan"
    try:
        start = float(text)
    except ValueError:
        start = -1.0
    if start < 0 or np.isinf(start):
        raise UsageError(f"{table}, line {line}: start must be seconds from 0 on, got '{text}'")
    return start


def list_tables(tables: dict[str, Path], root: Path) -> tuple[tuple[str, ...], dict[str, VideoList]]:
    """Class names, in the order of the alphabet or of numbers, and lists of several CSV files that share them."""
    found = {part: list_table(table, root) for part, table in tables.items()}
    known = {name for labels, _ in found.values() for name in labels if name}
    numbers = all(name.isdecimal() for name in known)
    names = sorted(known, key=int) if numbers else sorted(known)
    label = {name: i for i, name in enumerate(names)} | {"": -1}
    lists = {
        part: listed._replace(labels=np.array([label[name] for name in labels], dtype=np.int64))
        for part, (labels, listed) in found.items()
    }
    return tuple(names), lists


MIN_TRIED = 1000  # files tried from which on their share of bad ones stands for all


class Skipped:
    """Reasons by path. More than half of the files of a part bad is an error.

    With several processes every one keeps a list of its own (``.skipped-1.csv``), and the first joins them.
    """

    def __init__(self, totals: Mapping[str, int], folder: Path | None = None, rank: int = 0):
        self.totals, self.folder, self.rank = dict(totals), folder, rank
        self.reasons: dict[str, str] = {}
        self._tried: dict[str, set[int]] = {part: set() for part in totals}
        self._bad: dict[str, set[int]] = {part: set() for part in totals}
        self._written = 0

    def note(self, part: str, tried: Iterable[int], bad: Mapping[int, tuple[str, str]]) -> None:
        """Items that were tried, and those of them that are bad with their path and reason."""
        self._tried[part].update(tried)
        self._bad[part].update(bad)
        self.reasons.update(bad.values())
        if len(self.reasons) > 1.1 * self._written:
            self.write()
        bad_ones, tried_ones, whole = len(self._bad[part]), len(self._tried[part]), self.totals[part]
        if 2 * bad_ones > whole or (tried_ones >= MIN_TRIED and 2 * bad_ones > tried_ones):
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
        """Bring the list in the folder up to date."""
        if self.folder is None:
            return
        own = self.folder / (f".skipped-{self.rank}.csv" if self.rank else "skipped.csv")
        rows = dict(self.reasons)
        for path in [own, *(self.folder.glob(".skipped-*.csv") if not self.rank else ())]:
            rows |= read_skipped(path)
        if rows:
            with written_whole(own) as path, open(path, "w", newline="", encoding="utf-8") as file:
                writer = CsvWriter(file)
                writer.writerow(("path", "reason"))
                writer.writerows(sorted(rows.items()))
        self._written = len(self.reasons)

    def tell(self) -> None:
        """One line for all of them."""
        if self.reasons:
            where = "" if self.folder is None else f"; {self.folder / 'skipped.csv'} says why"
            warnings.warn(f"{len(self.reasons)} videos could not be used{where}")


def read_skipped(path: Path) -> dict[str, str]:
    """Reasons by path out of a ``skipped.csv``; none where there is no such file."""
    if not path.exists():
        return {}
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if len(row) == 2 and row != ["path", "reason"]]
    return {unescaped(path): unescaped(reason) for path, reason in rows}


TRIES = 64  # bad videos in a row, drawn at random: with fewer than half of all bad that does not happen


class ClipFormat(NamedTuple):
    """What a clip is made of."""

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


Bad = dict[int, tuple[str, str]]
"""Items that could not be used, with path and reason."""


class Visit(NamedTuple):
    """The clips of a video, or none; all the items that were tried for it, and the bad ones."""

    item: int
    label: int
    clips: list[Clip]
    tried: list[int]
    bad: Bad


class Report(NamedTuple):
    """What a loader wants to know of the visits of a batch; ``empty`` is how many of them found nothing."""

    tried: list[int]
    bad: Bad
    empty: int


class ClipReader(Dataset[Any]):
    """What training and evaluation share: clips of the videos of a list, at shares of their length.

    ``among`` are the items that may stand in for a bad one; all where it is None.
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

    def visit(self, item: int, read: Callable[[int, Bad], list[Clip]], others: Iterator[int]) -> Visit:
        """Clips of the item, or of the first of the others that can be read.

        A bad video is tried again when its turn comes: to remember it would make a worker's choices depend on its past.
        """
        tried: list[int] = []
        bad: Bad = {}
        for candidate in chain((item,), others):
            tried.append(candidate)
            try:
                return Visit(candidate, int(self.videos.labels[candidate]), read(candidate, bad), tried, bad)
            except (BadVideo, OSError) as error:
                bad[candidate] = self.reason(candidate, error)
        return Visit(item, -1, [], tried, bad)

    def reason(self, item: int, error: Exception) -> tuple[str, str]:
        """A path, and the rest of the sentence that it begins."""
        path = self.videos.paths[item]
        return path, "is not there" if isinstance(error, FileNotFoundError) else str(error).replace(path, "").strip()

    def clips(
        self,
        item: int,
        shares: Sequence[float],
        transforms: Sequence[FrameTransform],
        sound: bool,
        shifts: Sequence[float] | None = None,
    ) -> list[Clip]:
        """Clips that start at shares (0: first possible start, 1: last) of what the video has room for.

        ``shifts`` are seconds by which the sound of each clip is shifted, within the limits of the file.
        """
        form = self.form
        with VideoFile(self.videos.paths[item]) as file:
            if form.sound and file.soundtrack is None:
                raise BadVideo(f"{self.videos.paths[item]} has no sound")

            def read(end: float, short: Short) -> list[Clip]:
                starts = self._starts(item, end, shares)
                rest = form.num_frames, form.fps, form.audio_duration, form.sample_rate
                return file.clips(starts, *rest, sound, short, transforms, shifts)

            try:
                return read(file.duration, "refuse")
            except TooShort as error:  # a header may promise more than there is
                fits = error.end >= form.length and np.isnan(self.videos.starts[item])
                return read(error.end, "refuse" if fits else form.short)

    def _starts(self, item: int, end: float, shares: Sequence[float]) -> list[float]:
        fixed = float(self.videos.starts[item])
        if not np.isnan(fixed):
            return [fixed] * len(shares)
        room = max(0.0, end - self.form.length)
        return [share * room for share in shares]

    def hit(self, item: int) -> bool:
        """Whether an item gets another sound than its own."""
        return self.form.sound and self.noise is not None and bool(self.noise.hit[item])

    def noisy(
        self, item: int, own: Sequence[float], others: Sequence[float], key: tuple[int, ...], bad: Bad
    ) -> list[Any]:
        """The sounds that the noise gives to clips of an item at the shares ``own``; a partner's are at ``others``."""
        assert self.noise is not None
        if self.noise.silent[item]:
            return [np.zeros(round(self.form.audio_duration * self.form.sample_rate), np.float32) for _ in own]
        partner, shift = int(self.noise.partner[item]), float(self.noise.shift[item])
        if partner == item:
            return self._sounds(item, own, shift)
        for other in chain((partner,), self.others(key)):
            if other != item:
                try:
                    return self._sounds(other, others, shift)
                except (BadVideo, OSError) as error:
                    bad[other] = self.reason(other, error)
        raise BadVideo(f"{self.videos.paths[item]} finds no other video with a sound")

    def _sounds(self, item: int, shares: Sequence[float], shift: float) -> list[Any]:
        form = self.form
        with VideoFile(self.videos.paths[item]) as file:
            starts = self._starts(item, file.duration, shares)
            middles = [start + form.length / 2 + shift for start in starts]
            return file.sounds(middles, form.audio_duration, form.sample_rate)

    def others(self, key: tuple[int, ...]) -> Iterator[int]:
        """Items to take where one is bad, drawn when they are asked for."""
        random = np.random.default_rng(key)
        for _ in range(TRIES):
            place = int(random.integers(len(self) if self.among is None else len(self.among)))
            yield place if self.among is None else int(self.among[place])


class TrainingClips(ClipReader):
    """Random clips, each through a random crop; the key is a place in the epoch and the number of its batch.

    With several visits an epoch has more places than items: item i is at the places i, i + items, i + 2 items, ...
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
        others = self.others((self.seed, step, place, 1))
        item = place % len(self)
        return self.visit(item, lambda candidate, bad: self._read(candidate, step, place, bad), others)

    def _read(self, item: int, step: int, place: int, bad: Bad) -> list[Clip]:
        key = (self.seed, step, place, item)
        shares = np.random.default_rng((*key, 2)).random(2 * self.count).tolist()
        own, others = shares[: self.count], shares[self.count :]
        transforms = [FrameTransform(self._box((*key, i, 3)), self.form.size) for i in range(self.count)]
        if not self.hit(item):
            return self.clips(item, own, transforms, self.form.sound, self._shifts((*key, 5)))
        clips = self.clips(item, own, transforms, sound=False)
        return with_sounds(clips, self.noisy(item, own, others, (*key, 4), bad))

    def _shifts(self, key: tuple[int, ...]) -> list[float] | None:
        """As in AVID: the clip lies anywhere in its sound, and up to half a second further."""
        if self.form.centered or not self.form.sound:
            return None
        random = np.random.default_rng(key)
        room = max(0.0, self.form.audio_duration - self.form.length) / 2
        return (random.uniform(-room, room, self.count) + random.uniform(-0.5, 0.5, self.count)).tolist()

    def _box(self, key: tuple[int, ...]) -> Callable[[int, int], Box]:
        return lambda width, height: crop_box(np.random.default_rng(key), width, height, self.crop, self.ratio)


class EvaluationClips(ClipReader):
    """``count`` clips of every video, evenly spaced in time, each of them the middle of the picture. A bad video is
    left out."""

    def __init__(self, videos: VideoList, form: ClipFormat, count: int, noise: NoisySounds | None = None):
        super().__init__(videos, form, noise)
        self.count = count

    def __getitem__(self, item: int) -> Visit:
        return self.visit(item, self._read, iter(()))

    def _read(self, item: int, bad: Bad) -> list[Clip]:
        shares = [0.5] if self.count == 1 else np.linspace(0, 1, self.count).tolist()
        transforms = [FrameTransform(center_box, self.form.size) for _ in shares]
        if not self.hit(item):
            return self.clips(item, shares, transforms, self.form.sound)
        clips = self.clips(item, shares, transforms, sound=False)
        return with_sounds(clips, self.noisy(item, shares, shares, (item,), bad))


def with_sounds(clips: list[Clip], sounds: list[Any]) -> list[Clip]:
    return [clip._replace(audio=sound) for clip, sound in zip(clips, sounds, strict=True)]


def center_box(width: int, height: int) -> Box:
    """The middle of a picture: what a crop of ``size`` sees after resizing the short side to ``size / 0.875``."""
    side = round(min(width, height) * 0.875)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def collate(
    visits: list[Visit], pairs: bool, cropped: bool, weights: Tensor | None = None
) -> tuple[PairBatch | ClipBatch | None, Report]:
    """A batch of the visits that found something, if any, and what happened on the way."""
    tried = [item for visit in visits for item in visit.tried]
    bad = {item: why for visit in visits for item, why in visit.bad.items()}
    report = Report(tried, bad, sum(not visit.clips for visit in visits))
    visits = [visit for visit in visits if visit.clips]
    if not visits:
        return None, report
    clips = [clip for visit in visits for clip in visit.clips]
    frames = torch.from_numpy(np.stack([clip.frames for clip in clips]))
    labels = torch.tensor([visit.label for visit in visits for _ in visit.clips])
    ids = torch.tensor([visit.item for visit in visits for _ in visit.clips])
    if not pairs:
        return ClipBatch(frames, labels, ids, cropped), report
    sounds = torch.from_numpy(np.stack([clip.audio for clip in clips if clip.audio is not None]))
    return PairBatch(frames, sounds, labels, ids, cropped, None if weights is None else weights[ids]), report


class WithStep:
    """The same batches, every item with the number of its batch, from which a worker draws all that is random."""

    def __init__(self, batches: SeededBatches):
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for step, chosen in enumerate(self.batches, start=self.batches.seen()):
            yield [(item, step) for item in chosen]


class ClipLoader:
    """The batches of a loader; keeps account of the videos that its workers could not use."""

    def __init__(self, loader: DataLoader[Any], part: str, skipped: Skipped, strict: bool = False):
        self.loader: Any = loader
        self.part, self.skipped, self.strict = part, skipped, strict

    def __len__(self) -> int:
        return len(self.loader)

    def close(self) -> None:
        """Let the workers go, which otherwise wait for another epoch."""
        self.loader = ()

    def __iter__(self) -> Iterator[PairBatch | ClipBatch]:
        known = len(self.skipped.reasons)
        for batch, report in self.loader:
            self.skipped.note(self.part, report.tried, report.bad)
            if self.strict and report.empty:
                self.skipped.give_up(self.part)
            if batch is not None:
                yield batch
        self.skipped.write()
        if len(self.skipped.reasons) > known:
            self.skipped.tell()
