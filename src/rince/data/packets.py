"""The packets of a video file that a clip needs, and the frames that come out of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince.data.soundtrack import decoded
from rince.extras import require

ROUNDING = 1.5e-3  # seconds; Matroska keeps whole milliseconds, so a frame may be stamped a little late
# Decoders that leave out frames which no other frame needs when they are told to.
SKIPPING = {"h264", "hevc", "mpeg4", "mpeg2video"}


class Packets:
    """The packets of the pictures from a key frame before ``first`` to the last one that may be shown at ``last``."""

    def __init__(self, file: Any, first: float, last: float):
        self.file, self.tick = file, float(file.stream.time_base)
        self.list: list[Any] = []
        self.end = float("inf")
        back = 0.0
        while not self._read(first - back, first, last) and back <= first:
            back = max(1.0, back * 4)  # the seek came down too late

    def seconds(self, stamp: int) -> float:
        return stamp * self.tick - self.file.origin

    def _read(self, target: float, first: float, last: float) -> bool:
        """Read from a key frame before ``target``; tell whether that is one before ``first``."""
        self.list, self.end = [], float("inf")
        if target > 0:
            self.file.seek(target)
        else:
            self.file.rewind()
        for packet in self._demuxed():
            if not self.list and not packet.is_keyframe and target > 0:
                continue
            self.list.append(packet)
            order = packet.dts if packet.dts is not None else packet.pts
            if order is not None and self.seconds(order) > last + ROUNDING:
                break
        else:
            self.end = self._end()
        stamp = stamp_of(self.list[0]) if self.list else None
        return stamp is not None and self.seconds(stamp) <= first + ROUNDING

    def _demuxed(self) -> Iterator[Any]:
        av = require("av", "video")
        try:
            yield from (packet for packet in self.file.container.demux(self.file.stream) if packet.size)
        except av.FFmpegError:  # a file that breaks off is at its end there
            return

    def _end(self) -> float:
        over = 1 / self.file.fps
        stamps = ((stamp_of(p), float(p.duration) * self.tick if p.duration else over) for p in self.list)
        return max((self.seconds(stamp) + length for stamp, length in stamps if stamp is not None), default=0.0)

    def shown(self, times: NDArray[np.float64]) -> NDArray[np.int64] | None:
        """The stamps of the frames shown at the times, where the file's stamps can be relied on."""
        if any(p.pts is None for p in self.list):
            return None
        if self.file.numbered and any(p.pts != p.dts for p in self.list):
            return None
        stamps = np.unique([p.pts for p in self.list if not p.is_discard])
        if not len(stamps):
            return None
        seconds = stamps * self.tick - self.file.origin
        places = np.searchsorted(seconds, times + ROUNDING, side="right") - 1
        return stamps[places.clip(0)]  # before the first frame there is the first frame

    def decode(self, keep: set[int] | None) -> Iterator[Any]:
        """Frames in the order in which they are shown; ``keep`` names the stamps that are enough."""
        context = self.file.stream.codec_context
        context.flush_buffers()
        skipping = keep is not None and context.name in SKIPPING
        try:
            for group, joined in self._groups(keep):
                if not joined:
                    yield from decoded(context, None)
                    context.flush_buffers()
                for packet in group:
                    if skipping:
                        context.skip_frame = "DEFAULT" if packet.pts in keep else "NONREF"  # type: ignore[operator]
                    yield from decoded(context, packet)
            yield from decoded(context, None)
        finally:
            context.skip_frame = "DEFAULT"

    def _groups(self, keep: set[int] | None) -> Iterator[tuple[list[Any], bool]]:
        """Key frames with what hangs on them, without those that hold nothing to keep; and whether one was left out
        before."""
        if keep is None:
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
