"""Clips of a video file: the frames shown at given times, and the sound around them."""

import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import cached_property
from itertools import chain
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


ROUNDING = 1.5e-3  # seconds; Matroska keeps whole milliseconds, so a frame may be stamped a little late
# Decoders that leave out frames which no other frame needs when they are told to.
SKIPPING = {"h264", "hevc", "mpeg4", "mpeg2video"}
# Decoders that hold back one frame at most, and give every frame with the packet in whose place it is shown.
ONE_LATE = {"mpeg4", "mpeg2video"}
PLACEHOLDER = 10  # bytes at most of a packet without a picture of its own


class Packets:
    """The packets of the pictures from a key frame before ``first`` to the last one that may be shown at ``last``.

    AVI stores no display times. For files of HMDB-51 (MPEG-4 with B-frames in AVI), the time stamps of PyAV's frames
    are one to three frames late and do not rise, so frames are counted by the packets they come out with.
    """

    def __init__(self, file: Any, first: float, last: float):
        self.file, self.tick = file, float(file.stream.time_base)
        self.list: list[Any] = []
        self.end = float("inf")
        context = file.stream.codec_context
        # Where packets are only numbered, a frame is known by the one that it comes out with.
        self.late = file.numbered and context.name in ONE_LATE and bool(context.has_b_frames)
        self.first = self._first_stamp() if self.late else 0
        back = 0.0
        while not self._read(first - back, first, last) and back <= first:
            back = max(1.0, back * 4)  # the seek came down too late

    def _first_stamp(self) -> int:
        """With which packet the file's first frame comes out, counted from the first one: the second, unless that one
        only holds a place, as in files that pack two frames into one packet."""
        index = self.file.stream.index_entries
        if len(index) < 2 or index[1].size < 2 * PLACEHOLDER:
            return self.file.delay
        return index[1].timestamp - index[0].timestamp

    def seconds(self, stamp: Any) -> Any:
        return (stamp - self.first) * self.tick - self.file.origin

    def _read(self, target: float, first: float, last: float) -> bool:
        """Read from a key frame before ``target``; tell whether that is one before ``first``."""
        self.list, self.end = [], float("inf")
        if target > 0:
            self.file.seek(target)
        else:
            self.file.rewind()
        with demuxed(self.file.container, self.file.stream) as packets:
            for packet in packets:
                if not self.list and target > 0:
                    if not packet.is_keyframe:
                        continue
                    if self.file.numbered and self._miscounted(packet):
                        return self._read(0.0, first, last)
                self.list.append(packet)
                order = packet.dts if packet.dts is not None else packet.pts
                if order is not None and self.seconds(order) > last + ROUNDING:
                    break
            else:
                self.end = self._end()
        stamp = stamp_of(self.list[0]) if self.list else None
        return stamp is not None and self.seconds(stamp) <= first + ROUNDING

    def _miscounted(self, packet: Any) -> bool:
        """Whether a packet got the wrong number: FFmpeg loses count on its way to a frame of an AVI file where others
        were left out. The index knows at which byte the frame of that number begins, 8 of header before."""
        index = self.file.stream.index_entries
        place = -1 if packet.dts is None else index.search_timestamp(packet.dts)
        return place < 0 or index[place].timestamp != packet.dts or index[place].pos + 8 != packet.pos

    def _end(self) -> float:
        """When the last frame is over."""
        if self.late and len(numbers := [p.dts for p in self.list if p.dts is not None]) > 1:
            return self.seconds(3 * numbers[-1] - 2 * numbers[-2])  # each of the two steps after it as long as before
        over = 1 / self.file.fps
        stamps = ((stamp_of(p), float(p.duration) * self.tick if p.duration else over) for p in self.list)
        return max((self.seconds(stamp) + length for stamp, length in stamps if stamp is not None), default=0.0)

    def shown(self, times: NDArray[np.float64]) -> NDArray[np.int64] | None:
        """The stamps by which :meth:`pick` knows the frames shown at the times, where the file's can be relied on."""
        used = [p for p in self.list if not p.is_discard]
        if self.late:
            if any(p.dts is None for p in used) or len(used) < 2:
                return None
            stamps = np.array([p.dts for p in used][1:])
            shown = self.seconds(stamps)
            if self.end < float("inf"):  # the last frame comes out when there are no more packets
                stamps = np.append(stamps, self._after())
                shown = np.append(shown, self.seconds(2 * used[-1].dts - used[-2].dts))
        else:
            if any(p.pts is None or (self.file.numbered and p.pts != p.dts) for p in self.list) or not used:
                return None
            stamps = np.unique([p.pts for p in used])
            shown = self.seconds(stamps)
        places = np.searchsorted(shown, times + ROUNDING, side="right") - 1
        return stamps[places.clip(0)]  # before the first frame there is the first frame

    def _after(self) -> int:
        return self.list[-1].dts + 1

    def decode(self) -> Iterator[Any]:
        """All frames, in the order in which they are shown."""
        context = self.file.stream.codec_context
        context.flush_buffers()
        for packet in [*self.list, None]:
            yield from decoded(context, packet)

    def pick(self, keep: set[int]) -> Iterator[tuple[int | None, Any]]:
        """Frames with their stamps, those of ``keep`` and as few others as possible, in the order in which they are
        shown."""
        context = self.file.stream.codec_context
        context.flush_buffers()
        can_skip, skips = context.name in SKIPPING, False
        try:
            for group, joined in self._groups(keep):
                if not joined:
                    yield from self._stamped(decoded(context, None))
                    context.flush_buffers()
                for packet in group:
                    skip = can_skip and (packet.dts if self.late else packet.pts) not in keep
                    if skip != skips:
                        context.skip_frame, skips = "NONREF" if skip else "DEFAULT", skip
                    yield from self._stamped(decoded(context, packet))
            yield from self._stamped(decoded(context, None))
        finally:
            context.skip_frame = "DEFAULT"

    def _stamped(self, frames: Iterable[Any]) -> Iterator[tuple[int | None, Any]]:
        if not self.late:
            return ((frame.pts, frame) for frame in frames)
        return ((self._after() if frame.dts is None else frame.dts, frame) for frame in frames)

    def _groups(self, keep: set[int]) -> Iterator[tuple[list[Any], bool]]:
        """Key frames with what hangs on them, without those that hold nothing to keep; and whether one was left out
        before."""
        if self.late:  # a frame comes out with a packet that may be of the next group
            yield self.list, True
            return
        heads = [i for i, packet in enumerate(self.list) if packet.is_keyframe or i == 0]
        groups = [self.list[a:b] for a, b in zip(heads, [*heads[1:], len(self.list)], strict=True)]
        needed = [any(p.pts in keep for p in group) for group in groups]
        for i in range(len(groups) - 1, 0, -1):  # frames shown before their key frame lean on the group before
            if needed[i] and any(p.pts in keep and p.pts < groups[i][0].pts for p in groups[i]):
                needed[i - 1] = True
        joined = True
        for group, need in zip(groups, needed, strict=True):
            if need:
                yield group, joined
            joined = need


class Clock:
    """When a frame is shown. AVI numbers frames in the order of decoding: they come out a fixed number later."""

    def __init__(self, file: Any, first: Any):
        self.file, self.tick, self.now = file, float(file.stream.time_base), -float("inf")
        self.first, self.delay = first, 0
        if file.numbered and first.dts != (file.stream.start_time or 0):
            self.first, self.delay = None, file.delay

    def __call__(self, frame: Any) -> float:
        if not self.file.numbered:
            stamp = frame.pts
        else:
            if self.first is not None and frame.dts is not None:  # the file's first frame: what file.delay would find
                self.first, self.delay = None, max(0, frame.dts - self.first.dts)
            stamp = None if frame.dts is None else frame.dts - self.delay
        if stamp is None:
            self.now = max(0.0, self.now + 1 / self.file.fps)
        else:
            self.now = stamp * self.tick - self.file.origin
        return self.now


def stamp_of(packet: Any) -> int | None:
    return packet.pts if packet.pts is not None else packet.dts


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
