"""Clips of a video file: the frames shown at given moments, and the sound around them."""

import math
import os
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.data.video.frame_transform import ClipBuffer, FrameTransform
from rince.data.video.local_file import BadVideo, TooShort, open_local, video_errors
from rince.data.video.packets import ROUNDING, Clock, Packets
from rince.data.video.soundtrack import Soundtrack, decoded, demuxed
from rince.errors import UsageError

APART = 10.0  # seconds between two wanted frames from which on a seek beats reading on

Short = Literal["refuse", "hold", "loop"]
Places = NDArray[np.int64]


class Clip(NamedTuple):
    """Frames and the sound around the middle of them.

    Attributes:
        frames: (T, height, width, 3) bytes.
        audio: (samples,) in [-1, 1], mono; None where the file has no sound, or none was asked for.
    """

    frames: NDArray[np.uint8]
    audio: NDArray[np.float32] | None


class Probe(NamedTuple):
    """What the header of a file tells. ``frames`` is 0 where it does not say, ``sample_rate`` 0 without sound."""

    duration: float
    frames: int
    fps: float
    width: int
    height: int
    sample_rate: int


def read_clip(
    path: str | os.PathLike[str],
    start: float,
    num_frames: int = 8,
    fps: float = 16,
    audio_duration: float = 2.0,
    sample_rate: int = 24000,
    audio: bool = True,
    short: Short = "refuse",
) -> Clip:
    """Frames of a video file at given moments, and the sound around the middle of the clip.

    A frame is the one a player would show at its moment, whatever the file's frame rate. Sound outside is silence.

    Args:
        path: The video file.
        start: The moment of the first frame of the clip, in seconds after the file's first frame.
        num_frames: How many frames the clip has.
        fps: Frames per second of the clip; that of the file does not matter.
        audio_duration: Seconds of sound around the middle of the clip.
        sample_rate: Samples per second of the sound.
        audio: Whether to read the sound.
        short: What happens to a clip that reaches past the last frame: ``"refuse"``, ``"hold"`` the last frame, or
            ``"loop"`` back to the first one.

    Returns:
        Frames and sound.

    Raises:
        UsageError: If the file cannot be read, or is too short for the clip.

    Example:
        >>> data = rince.data.GeneratedVideo("generated", train=8, test=8)
        >>> data.prepare_data()
        >>> path = data.videos("train").paths[0]
        >>> clip = rince.data.read_clip(path, start=0.5, num_frames=8)
        >>> clip.frames.shape, clip.audio.shape
        ((8, 64, 64, 3), (48000,))
    """
    with VideoFile(path) as file:
        return file.clips([start], num_frames, fps, audio_duration, sample_rate, audio, short)[0]


def probe(path: str | os.PathLike[str]) -> Probe:
    """Duration, frames and sizes from the header; nothing is decoded."""
    with VideoFile(path) as file:
        context = file.stream.codec_context
        rate = file.soundtrack.rate if file.soundtrack else 0
        return Probe(file.duration, file.stream.frames, file.fps, context.width, context.height, rate)


class VideoFile:
    """An open video file. Times are seconds from its first frame on; several clips are read in one go forwards.

    One thread decodes unless ``threads`` says otherwise (0: as many as there are cores), since a loader has a process
    for every core already.
    """

    def __init__(self, path: str | os.PathLike[str], threads: int = 1):
        self.path, self.threads = os.fspath(path), threads
        with video_errors(self.path):
            self._open()

    def _open(self) -> None:
        av = require("av", "video")
        self.container = open_local(av, self.path)
        try:
            streams = [s for s in self.container.streams.video if not _is_cover(s)]
            if not streams or streams[0].codec_context is None:
                raise BadVideo(f"{self.path} has no pictures that can be decoded")
            self.stream = streams[0]
            self.stream.codec_context.thread_count = self.threads
            self.stream.thread_type = "SLICE" if self.threads == 1 else "AUTO"
            self.origin = float((self.stream.start_time or 0) * self.stream.time_base)
            sounds = [s for s in self.container.streams.audio if getattr(s.codec_context, "sample_rate", 0)]
            self.soundtrack = Soundtrack(self.container, sounds[0], self.origin) if sounds else None
            self.origin += self._held()
        except BaseException:
            self.container.close()
            raise

    def _held(self) -> float:
        """How much too late all frames but the first are: FFmpeg writes them into AVI files later, by whole frames, by
        as much as coding puts before the sound. Where frames are reordered that is part of their delay."""
        if not self.numbered or self.soundtrack is None or self.stream.codec_context.has_b_frames:
            return 0.0
        index, frames = self.stream.index_entries, math.ceil(self.soundtrack.late * self.fps - 1e-6)
        held = len(index) > 1 and index[1].timestamp - index[0].timestamp == frames + 1
        return frames / self.fps if held else 0.0

    def close(self) -> None:
        self.container.close()

    def __enter__(self) -> "VideoFile":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def fps(self) -> float:
        return float(self.stream.average_rate or self.stream.guessed_rate or 25)

    @property
    def duration(self) -> float:
        """When the last frame is over, as the header says; it may promise a little too much."""
        if self.stream.duration:
            return float(self.stream.duration * self.stream.time_base)
        if self.container.duration:
            return (self.container.duration + (self.container.start_time or 0)) / 1e6 - self.origin
        with video_errors(self.path):
            return Packets(self, 0.0, float("inf")).end

    @property
    def numbered(self) -> bool:
        """Whether the container numbers frames in the order of decoding and does not say when they are shown."""
        return self.container.format.name == "avi"

    def rewind(self) -> None:
        """Go to the first packet. Some containers seek by the time of decoding, which is before that of showing, and
        some do not seek at all."""
        first = self.stream.start_time or 0
        if not any(self._seek(stamp) for stamp in (first - int(10 / self.stream.time_base), first)):
            self.close()
            self._open()

    def seek(self, time: float) -> None:
        """Go to a packet before the time, a key frame if the container knows them."""
        # FFmpeg begins in the middle of a frame of an MPEG program stream and gives the next ones wrong stamps.
        astray = self.container.format.name == "mpeg"
        if astray or not self._seek(int((time + self.origin) / self.stream.time_base)):
            self.rewind()

    def _seek(self, stamp: int) -> bool:
        try:
            self.container.seek(stamp, stream=self.stream)
        except require("av", "video").FFmpegError:
            return False
        return True

    @cached_property
    def delay(self) -> int:
        """How many packets the decoder takes before it gives the first frame, beyond the frame's own."""
        self.rewind()
        context = self.stream.codec_context
        first: int | None = None
        with demuxed(self.container, self.stream) as packets:
            for packet in chain(packets, (None,)):
                first = packet.dts if first is None and packet is not None else first
                for frame in decoded(context, packet):
                    return 0 if first is None or frame.dts is None else max(0, frame.dts - first)
        return 0

    def clips(
        self,
        starts: Sequence[float],
        num_frames: int = 8,
        fps: float = 16,
        audio_duration: float = 2.0,
        sample_rate: int = 24000,
        audio: bool = True,
        short: Short = "refuse",
        transforms: Sequence[FrameTransform] | None = None,
    ) -> list[Clip]:
        """As :func:`read_clip`, for several starts; ``transforms`` says how each clip is cropped and resized."""
        if num_frames < 1 or fps <= 0:
            raise UsageError(f"a clip needs at least 1 frame and more than 0 fps, got {num_frames} and {fps}")
        if short not in get_args(Short):
            raise UsageError(f"short must be one of {', '.join(get_args(Short))}, got {short!r}")
        steps = np.arange(num_frames) / fps
        times = np.concatenate([start + steps for start in starts])
        transforms = [FrameTransform() for _ in starts] if transforms is None else transforms
        frames = self._read_frames(times, ClipBuffer(transforms, num_frames), short)
        sounds: list[NDArray[np.float32] | None] = [None] * len(starts)
        if audio and self.soundtrack is not None:
            middles = [start + num_frames / fps / 2 for start in starts]
            sounds = list(self.sounds(middles, audio_duration, sample_rate))
        return [Clip(*both) for both in zip(frames, sounds, strict=True)]

    def sounds(self, middles: Sequence[float], duration: float, sample_rate: int) -> list[NDArray[np.float32]]:
        """The sound around each of the moments, ``duration`` seconds of it."""
        if self.soundtrack is None:
            raise BadVideo(f"{self.path} has no sound")
        with video_errors(self.path):
            return self.soundtrack.around(middles, duration, sample_rate)

    def _read_frames(self, times: NDArray[np.float64], buffer: ClipBuffer, short: Short) -> list[NDArray[np.uint8]]:
        """The frame shown at each of the times, put at its place of the buffer."""
        if not np.isfinite(times).all() or times.min() < -ROUNDING:
            raise UsageError(f"a clip must start at 0 s or later, got {float(times.min())}")
        try:
            with video_errors(self.path):
                self._fill(times, buffer)
        except TooShort as error:
            if short == "refuse":
                raise
            if error.end <= 2 * ROUNDING:
                raise
            inside = times % error.end if short == "loop" else times
            with video_errors(self.path):
                self._fill(np.minimum(inside, error.end - 2 * ROUNDING), buffer)
        return buffer.clips

    def _fill(self, times: NDArray[np.float64], buffer: ClipBuffer) -> None:
        order = np.argsort(times, kind="stable")
        breaks = np.flatnonzero(np.diff(times[order]) > APART) + 1
        for run in np.split(order, breaks):
            packets = Packets(self, float(times[run[0]]), float(times[run[-1]]))
            if not packets.list:
                raise BadVideo(f"{self.path} has no pictures that can be decoded")
            if times[run[-1]] >= packets.end - ROUNDING / 2:
                raise TooShort(
                    f"{self.path} is too short: its last frame is over at {packets.end:.3f} s, "
                    f"and {times[run[-1]]:.3f} s was asked for",
                    packets.end,
                )
            keep = packets.shown(times[run])
            if keep is None or not self._exactly(packets, keep, run, buffer):
                self._forwards(packets, times, run, buffer)

    def _exactly(self, packets: Packets, keep: Places, run: Places, buffer: ClipBuffer) -> bool:
        """Decode the frames with the stamps ``keep`` and as little else as possible; tell whether all were there."""
        wanted: dict[Any, list[int]] = {}
        for stamp, place in zip(keep.tolist(), run.tolist(), strict=True):
            wanted.setdefault(stamp, []).append(place)
        for stamp, frame in packets.pick(set(wanted)):
            for place in wanted.pop(stamp, ()):
                buffer.put(place, frame)
            if not wanted:
                return True
        return False

    def _forwards(self, packets: Packets, times: NDArray[np.float64], run: Places, buffer: ClipBuffer) -> None:
        """Decode everything and take the last frame before each of the times: for files with unreliable stamps."""
        clock, before, waiting = Clock(self, packets.list[0]), None, run.tolist()
        for frame in packets.decode():
            now = clock(frame)
            while waiting and before is not None and times[waiting[0]] < now - ROUNDING:
                buffer.put(waiting.pop(0), before)
            before = frame
            if not waiting:
                return
        if before is None or (waiting and times[waiting[-1]] > clock.now + max(3 / self.fps, 0.25)):
            raise BadVideo(f"{self.path} does not decode at {times[waiting[-1] if waiting else run[0]]:.3f} s")
        for place in waiting:
            buffer.put(place, before)


def _is_cover(stream: Any) -> bool:
    """Whether a stream is one still picture, such as the cover of an album."""
    disposition = getattr(stream, "disposition", 0)  # a number or a flag, as the version of PyAV has it
    return bool(getattr(disposition, "value", disposition) & 0x400)
