"""Reads the clips of one visit to a video, in a loader's worker; another video stands in for one that is bad."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from rince.data.images.crops import crop_box
from rince.data.video.decode import Clip, Short, VideoFile
from rince.data.video.frame_transform import Box, FrameTransform
from rince.data.video.local_file import BadVideo, TooShort
from rince.data.video.video_list import VideoList
from rince.noise.sounds import NoisySounds
from rince.views.batch import ClipBatch, PairBatch

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
        self, item: int, shares: Sequence[float], transforms: Sequence[FrameTransform], sound: bool
    ) -> list[Clip]:
        """Clips that start at shares (0: first possible start, 1: last) of what the video has room for."""
        form = self.form
        with VideoFile(self.videos.paths[item]) as file:
            if form.sound and file.soundtrack is None:
                raise BadVideo(f"{self.videos.paths[item]} has no sound")

            def read(end: float, short: Short) -> list[Clip]:
                starts = self._starts(item, end, shares)
                rest = form.num_frames, form.fps, form.audio_duration, form.sample_rate
                return file.clips(starts, *rest, sound, short, transforms)

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
            return self.clips(item, own, transforms, self.form.sound)
        clips = self.clips(item, own, transforms, sound=False)
        return with_sounds(clips, self.noisy(item, own, others, (*key, 4), bad))

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
        transforms = [FrameTransform(centre_box, self.form.size) for _ in shares]
        if not self.hit(item):
            return self.clips(item, shares, transforms, self.form.sound)
        clips = self.clips(item, shares, transforms, sound=False)
        return with_sounds(clips, self.noisy(item, shares, shares, (item,), bad))


def with_sounds(clips: list[Clip], sounds: list[Any]) -> list[Clip]:
    return [clip._replace(audio=sound) for clip, sound in zip(clips, sounds, strict=True)]


def centre_box(width: int, height: int) -> Box:
    """The middle of a picture: what a crop of ``size`` sees after resizing the short side to ``size / 0.875``."""
    side = round(min(width, height) * 0.875)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def collate(
    visits: list[Visit], pairs: bool, cropped: bool, trust: Tensor | None = None
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
    return PairBatch(frames, sounds, labels, ids, cropped, None if trust is None else trust[ids]), report
