"""From a decoded frame to an array: the right way up, cropped and resized on the way."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.errors import UsageError

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
