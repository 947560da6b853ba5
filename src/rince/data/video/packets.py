"""The packets of a video file that a clip needs, and the frames that come out of them."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince.data.video.soundtrack import decoded, demuxed

ROUNDING = 1.5e-3  # seconds; Matroska keeps whole milliseconds, so a frame may be stamped a little late
# Decoders that leave out frames which no other frame needs when they are told to.
SKIPPING = {"h264", "hevc", "mpeg4", "mpeg2video"}
# Decoders that hold back one frame at most, and give every frame with the packet in whose place it is shown.
ONE_LATE = {"mpeg4", "mpeg2video"}
PLACEHOLDER = 10  # bytes at most of a packet without a picture of its own


class Packets:
    """The packets of the pictures from a key frame before ``first`` to the last one that may be shown at ``last``."""

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
