"""Clips of a video file: the frames at given times, and the sound around them."""

import os
import stat
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from fractions import Fraction
from itertools import chain, dropwhile
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.data.video.soundtrack import Soundtrack, decoded, demuxed
from rince.errors import MissingFile, UsageError


class BadVideo(UsageError):
    """A file that cannot be used. The message is the reason."""


class TooShort(BadVideo):
    """Clip that reaches past the last frame, which ends at ``end`` seconds."""

    def __init__(self, message: str, end: float = 0.0):
        super().__init__(message)
        self.end = end


def open_local(av: Any, path: str) -> Any:
    """Open a local regular file: no URL, pipe or device, and no external references."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise BadVideo(f"{path} is not a regular file")
    # Before PyAV 19, titles not in UTF-8 were an error by default.
    older = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
    return av.open(os.path.abspath(path), options={"protocol_whitelist": "file"}, **older)


@contextmanager
def video_errors(path: str) -> Iterator[None]:
    """Raise errors of FFmpeg about a file as :class:`BadVideo`."""
    av = require("av", "video")
    try:
        yield
    except FileNotFoundError:
        raise MissingFile(f"{path} does not exist") from None
    except (av.FFmpegError, IndexError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
        raise BadVideo(f"{path} does not decode as a video ({reason})") from error


Box = tuple[int, int, int, int]
"""Left, top, right and bottom, in pixels of the upright frame."""


class FrameTransform:
    """Crop and resize decoded frames: called with a frame of PyAV, returns its RGB bytes (height, width, 3), upright.

    The result is a view of FFmpeg's memory.

    Args:
        box: Called with width and height of the upright frame; returns the part to keep. Default: None, all of it.
        size: Height and width of the result. Default: None, those of the first frame.
    """

    def __init__(self, box: Callable[[int, int], Box] | None = None, size: int | None = None):
        self.box = box
        self._out = None if size is None else (size, size)
        self._made_for: tuple[Any, ...] = ()
        self._graph: Any = None
        self._converter = require("av", "video").video.reformatter.VideoReformatter()

    def __call__(self, frame: Any) -> NDArray[np.uint8]:
        made_for = frame.width, frame.height, frame.format.name
        if made_for != self._made_for:  # the size of frames may change within a file
            self._graph, self._made_for = self._build(frame), made_for
        if self._graph is not None:
            self._graph.push(frame)
            frame = self._graph.pull()
        frame = self._converter.reformat(frame, format="rgb24", threads=1)
        plane = frame.planes[0]
        rows = np.frombuffer(plane, np.uint8).reshape(frame.height, plane.line_size)
        return rows[:, : 3 * frame.width].reshape(frame.height, frame.width, 3)

    def _build(self, frame: Any) -> Any:
        """Filter graph that turns, crops and resizes frames of this format; ``None`` for the identity."""
        turns, mirrored = orientation(frame)
        upright = (frame.height, frame.width) if turns % 2 else (frame.width, frame.height)
        left, top, right, bottom = (0, 0, *upright) if self.box is None else self.box(*upright)
        width, height = max(2, right - left), max(2, bottom - top)
        self._out = self._out or (width, height)
        filters: list[tuple[str, str]] = []
        if turns or mirrored:
            filters = [("format", "rgb24"), *[("transpose", "cclock")] * turns, *[("hflip", "")] * mirrored]
        if (width, height) != upright:
            filters.append(("crop", f"{width}:{height}:{left}:{top}"))
        if (width, height) != self._out:
            filters.append(("scale", f"{self._out[0]}:{self._out[1]}:flags=bilinear:threads=1"))
        if not filters:
            return None
        if frame.format.name != "yuv420p":  # for yuv420p, scaling before the conversion takes two thirds of the time
            filters.append(("format", "rgb24"))
        graph = require("av", "video").filter.Graph()
        graph.threads = 1
        tick = frame.time_base or Fraction(1, 1000)
        source = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=tick)
        nodes = [graph.add(name, arguments) if arguments else graph.add(name) for name, arguments in filters]
        graph.link_nodes(source, *nodes, graph.add("buffersink")).configure()
        return graph


def orientation(frame: Any) -> tuple[int, bool]:
    """Orientation of a frame: counterclockwise quarter turns, then whether it is mirrored left to right."""
    data = frame.side_data.get("DISPLAYMATRIX")
    if data is None:
        return 0, False
    a, b, _, c, d = np.frombuffer(bytes(data), dtype=np.int32)[:5].astype(float)
    mirrored = a * d - b * c < 0
    angle = np.degrees(np.arctan2(-b, -a if mirrored else a))
    return round((-angle if mirrored else angle) / 90) % 4, bool(mirrored)


ROUNDING = 1.5e-3  # seconds; Matroska stores whole milliseconds, so a frame may be stamped a little late
MAX_GAP = 10.0  # seconds between two requested frames; across a longer gap, seek instead of decoding on

Short = Literal["refuse", "hold", "loop"]


class Clip(NamedTuple):
    """Frames and sound of a clip.

    Attributes:
        frames: (T, height, width, 3) bytes.
        audio: (samples,) mono sound in [-1, 1]; None if the file has none, or it was not requested.
    """

    frames: NDArray[np.uint8]
    audio: NDArray[np.float32] | None


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
    """Read a clip of a video file: evenly spaced frames, and the sound around its middle.

    Frames are those displayed at the requested times, independent of the file's frame rate. The sound is silent
    outside of the file.

    Args:
        path: The video file.
        start: Time of the first frame of the clip, in seconds after the first frame of the file.
        num_frames: Number of frames.
        fps: Frames per second of the clip.
        audio_duration: Seconds of sound around the middle of the clip.
        sample_rate: Samples per second of the sound.
        audio: Whether to read the sound.
        short: For a clip that reaches past the last frame: ``"refuse"`` it, ``"hold"`` the last frame, or ``"loop"`` to
            the first one.

    Returns:
        Frames and sound.

    Raises:
        UsageError: If the file cannot be read, or is too short for the clip.

    Example:
        >>> clip = rince.data.read_clip("clip.mp4", start=0.5, num_frames=8)
        >>> clip.frames.shape, clip.audio.shape
        ((8, 48, 64, 3), (48000,))
    """
    with VideoFile(path) as file:
        return file.clips([start], num_frames, fps, audio_duration, sample_rate, audio, short)[0]


class VideoFile:
    """An open video file. Times are in seconds after its first frame.

    Args:
        path: The video file.
        threads: Number of decoding threads, 0 for one per core. Default: 1, as a data loader has a process per core.
    """

    def __init__(self, path: str | os.PathLike[str], threads: int = 1):
        self.path, self.threads = os.fspath(path), threads
        with video_errors(self.path):
            self._open()

    def _open(self) -> None:
        self.container = open_local(require("av", "video"), self.path)
        try:
            self.stream, sound = (self.container.streams.best(kind) for kind in ("video", "audio"))
            if self.stream is None or self.stream.codec_context is None:
                raise BadVideo(f"{self.path} has no pictures that can be decoded")
            self.stream.codec_context.thread_count = self.threads
            self.stream.thread_type = "SLICE" if self.threads == 1 else "AUTO"
            self.origin = float((self.stream.start_time or 0) * self.stream.time_base)
            is_sound = bool(getattr(sound and sound.codec_context, "sample_rate", 0))
            self.soundtrack = Soundtrack(self.container, sound, self.origin) if is_sound else None
            # AVI numbers frames in the order of decoding, which is not that of display with B-frames (HMDB-51).
            self.counted = self.container.format.name == "avi" and self.stream.codec_context.has_b_frames
        except BaseException:
            self.container.close()
            raise

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
        """End of the last frame in seconds according to the header, which may be slightly late."""
        if self.stream.duration:
            return float(self.stream.duration * self.stream.time_base)
        if self.container.duration:
            return (self.container.duration + (self.container.start_time or 0)) / 1e6 - self.origin
        with video_errors(self.path):
            self._rewind()
            with demuxed(self.container, self.stream) as packets:
                ends = [(p.pts + (p.duration or 0)) * p.time_base for p in packets if p.pts is not None]
            return float(max(ends, default=0)) - self.origin

    def _rewind(self) -> None:
        """Go to the first packet. Some containers seek by decoding time, which is earlier; some cannot seek."""
        first = self.stream.start_time or 0
        if not any(self._seek(stamp) for stamp in (first - int(10 / self.stream.time_base), first)):
            self.close()
            self._open()

    def _seek(self, stamp: int) -> bool:
        try:
            self.container.seek(stamp, stream=self.stream)
        except require("av", "video").FFmpegError:
            return False
        return True

    def _frames_from(self, time: float) -> Generator[tuple[float, Any], None, None]:
        """Frames and their times in order, from a key frame at ``time`` or before."""
        can_seek = not self.counted and self.container.format.name != "mpeg"  # MPEG timestamps are wrong after a seek
        if can_seek and time > 0 and self._seek(int((time + self.origin) / self.stream.time_base)):
            frames = self._frames()
            first = next(frames, None)
            if first is not None and first[0] <= time + ROUNDING:
                yield first
                yield from frames
                return
        self._rewind()
        yield from self._frames()

    def _frames(self) -> Iterator[tuple[float, Any]]:
        """Frames and their times, from the next key frame to the end of the file."""
        context, tick, time = self.stream.codec_context, float(self.stream.time_base), -1 / self.fps
        stamps: deque[int | None] = deque()  # of packets: the n-th frame shown is that of the n-th packet
        with demuxed(self.container, self.stream) as packets:
            for packet in chain(dropwhile(lambda packet: not packet.is_keyframe, packets), [None]):
                if packet is not None:
                    stamps.append(packet.dts)
                for frame in decoded(context, packet):
                    stamp = (stamps.popleft() if stamps else None) if self.counted else frame.pts
                    time = time + 1 / self.fps if stamp is None else stamp * tick - self.origin
                    yield time, frame

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
        shifts: Sequence[float] | None = None,
    ) -> list[Clip]:
        """As :func:`read_clip`, for several starts; ``transforms`` crop and resize each clip.

        ``shifts`` are seconds from the middle of each clip to that of its sound, which stays within the file.
        """
        if short not in get_args(Short):
            raise UsageError(f"short must be one of {', '.join(get_args(Short))}, got {short!r}")
        steps = np.arange(num_frames) / fps
        times = np.concatenate([start + steps for start in starts])
        transforms = [FrameTransform() for _ in starts] if transforms is None else transforms
        if not times.min() >= -ROUNDING:
            raise UsageError(f"a clip must start at 0 s or later, got {float(times.min())}")
        try:
            frames = self._read_frames(times, transforms)
        except TooShort as error:
            if short == "refuse" or error.end <= 2 * ROUNDING:
                raise
            inside = times % error.end if short == "loop" else times
            frames = self._read_frames(np.minimum(inside, error.end - 2 * ROUNDING), transforms)
        sounds: list[NDArray[np.float32] | None] = [None] * len(starts)
        if audio and self.soundtrack is not None:
            middles = [start + num_frames / fps / 2 for start in starts]
            if shifts is not None:
                half = audio_duration / 2
                last = max(half, self.duration - half)
                middles = [min(max(half, m + shift), last) for m, shift in zip(middles, shifts, strict=True)]
            sounds = list(self.sounds(middles, audio_duration, sample_rate))
        return [Clip(*both) for both in zip(frames, sounds, strict=True)]

    def sounds(self, middles: Sequence[float], duration: float, sample_rate: int) -> list[NDArray[np.float32]]:
        """``duration`` seconds of sound around each of the times ``middles``."""
        if self.soundtrack is None:
            raise BadVideo(f"{self.path} has no sound")
        with video_errors(self.path):
            return self.soundtrack.around(middles, duration, sample_rate)

    def _read_frames(self, times: NDArray[np.float64], transforms: Sequence[FrameTransform]) -> list[NDArray[np.uint8]]:
        """Frames of each clip, one transform per clip, at its share of the times."""
        clips: list[Any] = [None] * len(transforms)
        num_frames = len(times) // len(transforms)
        order = np.argsort(times, kind="stable")
        with video_errors(self.path):
            for run in np.split(order, np.flatnonzero(np.diff(times[order]) > MAX_GAP) + 1):
                for i, frame in self._shown_at(times, run.tolist()):
                    clip, place = divmod(i, num_frames)
                    pixels = transforms[clip](frame)
                    if clips[clip] is None:
                        clips[clip] = np.empty((num_frames, *pixels.shape), np.uint8)
                    clips[clip][place] = pixels
        return clips

    def _shown_at(self, times: NDArray[np.float64], waiting: list[int]) -> Iterator[tuple[int, Any]]:
        """Decode forward; yield the last frame at or before each of the waiting times, with its index."""
        current, end, last = None, 0.0, float(times[waiting[-1]])
        with closing(self._frames_from(float(times[waiting[0]]))) as frames:
            for now, frame in frames:
                while current is not None and waiting and times[waiting[0]] < now - ROUNDING:
                    yield waiting.pop(0), current
                if not waiting:
                    return
                length = float(frame.duration * frame.time_base) if frame.duration and frame.time_base else 0.0
                current, end = frame, now + (length or 1 / self.fps)
        if current is None:
            raise BadVideo(f"{self.path} has no pictures that can be decoded")
        if last >= end - ROUNDING / 2:
            raise TooShort(
                f"{self.path} is too short: its last frame ends at {end:.3f} s, requested: {last:.3f} s", end
            )
        yield from ((i, current) for i in waiting)
