"""Sound of an open file around given times, as mono samples."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.errors import UsageError

LEAD = 0.25  # seconds decoded before the requested ones, for codecs with overlapping windows
GAP = 0.02  # shortest hole between two packets in seconds; less is rounding of their times
EDGE = 0.02  # seconds on both sides for the resampling filter


class Soundtrack:
    """Audio stream. ``origin`` is the file's timestamp of the first frame in seconds."""

    def __init__(self, container: Any, stream: Any, origin: float):
        self.container, self.stream = container, stream
        stream.codec_context.thread_count = 1
        self.tick = float(stream.time_base)
        self.rate = int(stream.codec_context.sample_rate)
        self.origin = origin

    def around(self, middles: Sequence[float], duration: float, sample_rate: int) -> list[NDArray[np.float32]]:
        """``duration`` seconds of sound around each time, with silence where the file has none."""
        count = round(duration * sample_rate)
        if count < 1 or not np.isfinite(list(middles)).all():
            raise UsageError(f"a sound must last longer than 0 s around a finite moment, got {duration} s")
        sounds: list[Any] = [None] * len(middles)
        order = sorted(range(len(middles)), key=lambda i: middles[i])
        while order:
            first = last = order[0]
            run = []
            while order and middles[order[0]] - middles[last] <= duration + LEAD:  # overlapping: decoded once
                last = order.pop(0)
                run.append(last)
            begin = middles[first] - duration / 2 - EDGE
            samples = self._samples(begin, middles[last] + duration / 2 + EDGE)
            length = round((duration + 2 * EDGE) * self.rate)
            for i in run:
                offset = round((middles[i] - middles[first]) * self.rate)
                part = resample(samples[offset : offset + length], self.rate, sample_rate)
                part = part[round(EDGE * sample_rate) :][:count]
                sounds[i] = np.pad(part, (0, count - len(part)))
        return sounds

    def _samples(self, begin: float, end: float) -> NDArray[np.float32]:
        """Mono samples at the rate of the stream from ``begin`` to ``end``."""
        samples = np.zeros(round((end - begin) * self.rate), dtype=np.float32)
        following: int | None = None
        for frame in self._decoded(begin, end):
            sound = mono(frame)
            offset = following
            if frame.pts is not None:
                stated = round((frame.pts * self.tick - self.origin - begin) * self.rate)
                if following is None or abs(stated - following) > GAP * self.rate:
                    offset = stated
            if offset is None:
                continue
            following = offset + len(sound)
            low, high = max(0, offset), min(len(samples), following)
            if low < high:
                samples[low:high] = sound[low - offset : high - offset]
        return samples

    def _decoded(self, begin: float, end: float) -> Iterator[Any]:
        for packet in self._packets(begin - LEAD, end):
            yield from decoded(self.stream.codec_context, packet)

    def _packets(self, begin: float, end: float) -> Iterator[Any]:
        """Packets from ``begin`` to ``end``, and ``None`` at the end of the file to flush the decoder."""
        beginning = self.stream.start_time or 0
        target = max(beginning, int((begin + self.origin) / self.tick))
        for timestamp in (target, beginning):
            self.container.seek(timestamp, stream=self.stream)
            with demuxed(self.container, self.stream) as packets:
                first = next(packets, None)
                if first is not None and timestamp != beginning and self._time(first) > begin + LEAD:
                    continue  # the seek ended too late
                for packet in chain((first,), packets) if first is not None else ():
                    time = self._time(packet)
                    if time > end:
                        return
                    if time + (packet.duration or 0) * self.tick >= begin:
                        yield packet
            break
        yield None

    def _time(self, packet: Any) -> float:
        stamp = packet.pts if packet.pts is not None else packet.dts
        return (stamp or 0) * self.tick - self.origin


@contextmanager
def demuxed(container: Any, stream: Any) -> Iterator[Iterator[Any]]:
    """Non-empty packets of a stream, up to the end of the file or to the first error.

    The iterator of PyAV is closed, since it leaks memory if it is not exhausted.
    """
    broken = (require("av", "video").FFmpegError, IndexError)
    source = container.demux(stream)

    def packets() -> Iterator[Any]:
        try:
            yield from (packet for packet in source if packet.size)
        except broken:
            return

    try:
        yield packets()
    finally:
        source.close()


def decoded(context: Any, packet: Any) -> Sequence[Any]:
    """Frames of a packet; empty if it is damaged."""
    try:
        return context.decode(packet)
    except Exception as error:
        av = require("av", "video")
        if isinstance(error, (av.error.InvalidDataError, av.error.EOFError)):
            return ()
        raise


def mono(frame: Any) -> NDArray[np.float32]:
    """Mean of the channels of a frame, in [-1, 1]."""
    values = frame.to_ndarray()
    if not frame.format.is_planar:
        values = values.reshape(-1, len(frame.layout.channels)).T
    if values.dtype == np.uint8:
        values = values.astype(np.float32) - 128
        scale = 128.0
    else:
        scale = 1.0 if values.dtype.kind == "f" else float(-np.iinfo(values.dtype).min)
    sound = values[0] if len(values) == 1 else values.mean(0)
    return (sound / scale).astype(np.float32, copy=False)


def resample(sound: NDArray[np.float32], rate: int, new: int) -> NDArray[np.float32]:
    if rate == new or not len(sound):
        return sound
    av = require("av", "video")
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(sound)[None], format="flt", layout="mono")
    frame.sample_rate = rate
    resampler = av.AudioResampler(format="flt", layout="mono", rate=new)
    parts = [*resampler.resample(frame), *resampler.resample(None)]
    return np.concatenate([part.to_ndarray()[0] for part in parts])
