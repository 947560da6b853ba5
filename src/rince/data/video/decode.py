"""Clips of a video file: the frames shown at given times, and the sound around them."""

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
    """A file that cannot be used, with the reason."""


class TooShort(BadVideo):
    """A clip that reaches past the last frame, which is over at ``end`` seconds."""

    def __init__(self, message: str, end: float):
        super().__init__(message)
        self.end = end

    def __reduce__(self) -> Any:  # so that it gets from a worker to its loader
        return TooShort, (str(self), self.end)


def open_local(av: Any, path: str) -> Any:
    """A video in a plain local file: no address, no pipe, no device, and nothing elsewhere that the file refers to."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise BadVideo(f"{path} is no plain file")
    # Until PyAV 19 a title in another encoding than UTF-8 was an error by default.
    older = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
    return av.open(os.path.abspath(path), options={"protocol_whitelist": "file"}, **older)


@contextmanager
def video_errors(path: str) -> Iterator[None]:
    """Turn what FFmpeg says about a file into one sentence."""
    av = require("av", "video")
    try:
        yield
    except FileNotFoundError:
        raise MissingFile(f"there is no video {path}") from None
    except (av.FFmpegError, IndexError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
        raise BadVideo(f"{path} does not decode as a video ({reason})") from error


Box = tuple[int, int, int, int]
"""Left, top, right and bottom, in pixels of the frame as it is shown."""


class FrameTransform:
    """Called with a frame of PyAV; returns its RGB bytes (height, width, 3), upright: a view of FFmpeg's memory.

    ``box`` is called with width and height and says which part is seen; ``size`` is the height and width that it is
    resized to. Nothing is done to pixels that nobody will see. Without a size, all frames get that of the first one.
    """

    def __init__(self, box: Callable[[int, int], Box] | None = None, size: int | None = None):
        if size is not None and size < 1:
            raise UsageError(f"the size of a clip must be at least 1 pixel, got {size}")
        self.box = box
        self._out = None if size is None else (size, size)
        self._made_for: tuple[Any, ...] = ()
        self._graph: Any = None
        self._turned = 0, False
        self._converter = require("av", "video").video.reformatter.VideoReformatter()

    def __call__(self, frame: Any) -> NDArray[np.uint8]:
        made_for = frame.width, frame.height, frame.format.name
        if made_for != self._made_for:  # some files change their size on the way
            self._turned = orientation(frame)
            self._graph, self._made_for = self._build(frame, *self._turned), made_for
        if self._graph is not None:
            self._graph.push(frame)
            frame = self._graph.pull()
        pixels = rgb_of(self._converter.reformat(frame, format="rgb24", threads=1))
        turns, mirrored = self._turned
        pixels = np.rot90(pixels, turns) if turns else pixels
        return pixels[:, ::-1] if mirrored else pixels

    def _build(self, frame: Any, turns: int, mirrored: bool) -> Any:
        """A filter graph that crops and resizes frames like this one as they are stored, before they are turned;
        ``None`` if there is nothing to do."""
        shown = (frame.height, frame.width) if turns % 2 else (frame.width, frame.height)
        box = (0, 0, *shown) if self.box is None else self.box(*shown)
        left, top, right, bottom = stored_box(box, frame.width, frame.height, turns, mirrored)
        width, height = max(2, right - left), max(2, bottom - top)
        self._out = self._out or (width, height)
        if (width, height) == self._out == (frame.width, frame.height):
            return None
        graph = require("av", "video").filter.Graph()
        graph.threads = 1
        tick = frame.time_base or Fraction(1, 1000)
        nodes = [
            graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=tick),
            graph.add("crop", f"{width}:{height}:{left}:{top}"),
            graph.add("scale", f"{self._out[0]}:{self._out[1]}:flags=bilinear:threads=1"),
        ]
        if frame.format.name != "yuv420p":  # there, to resize first and convert then takes two thirds of both at once
            nodes.append(graph.add("format", "rgb24"))
        nodes.append(graph.add("buffersink"))
        graph.link_nodes(*nodes).configure()
        return graph


def rgb_of(frame: Any) -> NDArray[np.uint8]:
    """The bytes of an RGB frame where they are."""
    plane = frame.planes[0]
    rows = np.frombuffer(plane, np.uint8).reshape(frame.height, plane.line_size)
    return rows[:, : 3 * frame.width].reshape(frame.height, frame.width, 3)


class ClipBuffer:
    """Clips that are filled frame by frame, in any order; place i is frame i % ``num_frames`` of its clip."""

    def __init__(self, transforms: Sequence[FrameTransform], num_frames: int):
        self.transforms, self.num_frames = transforms, num_frames
        self.clips: list[Any] = [None] * len(transforms)

    def put(self, place: int, frame: Any) -> None:
        clip, at = divmod(place, self.num_frames)
        pixels = self.transforms[clip](frame)
        if self.clips[clip] is None:
            self.clips[clip] = np.empty((self.num_frames, *pixels.shape), np.uint8)
        self.clips[clip][at] = pixels


def orientation(frame: Any) -> tuple[int, bool]:
    """How a frame is to be shown: quarter turns against the clock, then mirrored left to right or not."""
    data = frame.side_data.get("DISPLAYMATRIX")
    if data is None:
        return 0, False
    a, b, _, c, d = np.frombuffer(bytes(data), dtype=np.int32)[:5].astype(float)
    mirrored = a * d - b * c < 0
    angle = np.degrees(np.arctan2(-b, -a if mirrored else a))
    return round((-angle if mirrored else angle) / 90) % 4, bool(mirrored)


def stored_box(box: Box, width: int, height: int, turns: int, mirrored: bool) -> Box:
    """A box of the frame as shown, in the frame as stored, which is ``width`` x ``height``."""
    left, top, right, bottom = box
    shown = height if turns % 2 else width
    if mirrored:
        left, right = shown - right, shown - left
    if turns == 1:
        return width - bottom, left, width - top, right
    if turns == 2:
        return width - right, height - bottom, width - left, height - top
    if turns == 3:
        return top, height - right, bottom, height - left
    return left, top, right, bottom


ROUNDING = 1.5e-3  # seconds; Matroska stores whole milliseconds, so a frame may be stamped a little late
MAX_GAP = 10.0  # seconds between two requested frames; across a longer gap, seek instead of decoding on

Short = Literal["refuse", "hold", "loop"]


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
        >>> clip = rince.data.read_clip("clip.mp4", start=0.5, num_frames=8)
        >>> clip.frames.shape, clip.audio.shape
        ((8, 48, 64, 3), (48000,))
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
    """An open video file. Times are in seconds after its first frame; several clips are read in one forward pass.

    Args:
        path: The video file.
        threads: Decoding threads, 0 for one per core. One by default: a data loader has a process per core already.
    """

    def __init__(self, path: str | os.PathLike[str], threads: int = 1):
        self.path, self.threads = os.fspath(path), threads
        with video_errors(self.path):
            self._open()

    def _open(self) -> None:
        self.container = open_local(require("av", "video"), self.path)
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
        """End of the last frame according to the header, which may be a little late."""
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
        """Go to the first packet. Some containers seek by decoding time, which is earlier; some do not seek at all."""
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
        """Frames and the times at which they are shown, in order, from a key frame at ``time`` or before it."""
        if self._can_seek() and time > 0 and self._seek(int((time + self.origin) / self.stream.time_base)):
            frames = self._frames()
            first = next(frames, None)
            if first is not None and first[0] <= time + ROUNDING:
                yield first
                yield from frames
                return
        self._rewind()
        yield from self._frames()

    def _can_seek(self) -> bool:
        """Whether frames have reliable times after a seek. In MPEG program streams they have not. AVI only counts
        packets: where frames are reordered (HMDB-51) or left out, the count is right from the first packet on only."""
        if self.container.format.name == "avi":
            index = self.stream.index_entries
            gaps = len(index) > 0 and index[-1].timestamp - index[0].timestamp != len(index) - 1
            return not gaps and not self.stream.codec_context.has_b_frames
        return bool(self.container.format.name != "mpeg")

    def _frames(self) -> Iterator[tuple[float, Any]]:
        """Frames and their times, from the next key frame to the end of the file."""
        context, tick, now = self.stream.codec_context, float(self.stream.time_base), -1 / self.fps
        counted = self.container.format.name == "avi"  # the n-th frame shown is that of the n-th packet
        stamps: deque[int | None] = deque()
        with demuxed(self.container, self.stream) as packets:
            for packet in chain(dropwhile(lambda packet: not packet.is_keyframe, packets), [None]):
                if packet is not None:
                    stamps.append(packet.dts)
                for frame in decoded(context, packet):
                    stamp = (stamps.popleft() if stamps else None) if counted else frame.pts
                    now = now + 1 / self.fps if stamp is None else stamp * tick - self.origin
                    yield now, frame

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
        """As :func:`read_clip`, for several starts; ``transforms`` says how each clip is cropped and resized.

        ``shifts`` are seconds from the middle of each clip to that of its sound, which stays within the file.
        """
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
            if shifts is not None:
                half = audio_duration / 2
                last = max(half, self.duration - half)
                middles = [min(max(half, m + shift), last) for m, shift in zip(middles, shifts, strict=True)]
            sounds = list(self.sounds(middles, audio_duration, sample_rate))
        return [Clip(*both) for both in zip(frames, sounds, strict=True)]

    def sounds(self, middles: Sequence[float], duration: float, sample_rate: int) -> list[NDArray[np.float32]]:
        """The sound around each of the moments, ``duration`` seconds of it."""
        if self.soundtrack is None:
            raise BadVideo(f"{self.path} has no sound")
        with video_errors(self.path):
            return self.soundtrack.around(middles, duration, sample_rate)

    def _read_frames(self, times: NDArray[np.float64], buffer: ClipBuffer, short: Short) -> list[NDArray[np.uint8]]:
        """Put the frame shown at each of the times into its slot of the buffer."""
        if not np.isfinite(times).all() or times.min() < -ROUNDING:
            raise UsageError(f"a clip must start at 0 s or later, got {float(times.min())}")
        try:
            self._fill(times, buffer)
        except TooShort as error:
            if short == "refuse" or error.end <= 2 * ROUNDING:
                raise
            inside = times % error.end if short == "loop" else times
            self._fill(np.minimum(inside, error.end - 2 * ROUNDING), buffer)
        return buffer.clips

    def _fill(self, times: NDArray[np.float64], buffer: ClipBuffer) -> None:
        order = np.argsort(times, kind="stable")
        with video_errors(self.path):
            for run in np.split(order, np.flatnonzero(np.diff(times[order]) > MAX_GAP) + 1):
                self._fill_run(times, run.tolist(), buffer)

    def _fill_run(self, times: NDArray[np.float64], waiting: list[int], buffer: ClipBuffer) -> None:
        """Decode forward, and take the last frame at or before each of the times."""
        shown, end, last = None, 0.0, float(times[waiting[-1]])
        with closing(self._frames_from(float(times[waiting[0]]))) as frames:
            for now, frame in frames:
                while shown is not None and waiting and times[waiting[0]] < now - ROUNDING:
                    buffer.put(waiting.pop(0), shown)
                if not waiting:
                    return
                length = float(frame.duration * frame.time_base) if frame.duration and frame.time_base else 0.0
                shown, end = frame, now + (length or 1 / self.fps)
        if shown is None:
            raise BadVideo(f"{self.path} has no pictures that can be decoded")
        if last >= end - ROUNDING / 2:
            raise TooShort(
                f"{self.path} is too short: its last frame ends at {end:.3f} s, requested: {last:.3f} s", end
            )
        for place in waiting:
            buffer.put(place, shown)


def _is_cover(stream: Any) -> bool:
    """Whether a stream is one still picture, such as the cover of an album."""
    disposition = getattr(stream, "disposition", 0)  # a number or a flag, as the version of PyAV has it
    return bool(getattr(disposition, "value", disposition) & 0x400)
