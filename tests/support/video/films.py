"""Videos made on the spot, with a flash and a beep at known times."""

import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

TONE = 1000  # Hz


def film(
    path,
    seconds=3.0,
    fps=30,
    video="libx264",
    audio="aac",
    flash=(1.0, 1.2),
    size=(64, 48),
    rate=44100,
    layout="mono",
    times=None,
    pixels="yuv420p",
    picture=None,
    sound=None,
    options=None,
    gop=15,
    bframes=2,
    container_options=None,
    sound_late=0.0,
):
    """Write a dark, silent video that is white and beeps from ``flash[0]`` to ``flash[1]`` seconds.

    ``times`` are the moments of the frames where they are not evenly spaced; ``picture(i, t)`` draws other frames and
    ``sound(t)`` other samples; the sound's first sample comes ``sound_late`` seconds after the first frame.
    """
    path = Path(path)
    with av.open(str(path), "w", options=container_options or {}) as container:
        streams = {}
        if video:
            stream = container.add_stream(video, rate=fps, options={"threads": "1", **(options or {})})
            stream.width, stream.height, stream.pix_fmt = *size, pixels
            stream.codec_context.gop_size = gop
            stream.codec_context.max_b_frames = bframes
            if times is not None:
                stream.codec_context.time_base = Fraction(1, 1000)
            streams["video"] = stream
        if audio:
            streams["audio"] = container.add_stream(audio, rate=rate, layout=layout)
        if video:
            moments = np.arange(round(seconds * fps)) / fps if times is None else np.asarray(times)
            _pictures(container, streams["video"], moments, fps, times is not None, flash, size, picture)
        if audio:
            _sound(container, streams["audio"], seconds, rate, layout, flash, sound, sound_late)
    return path


def _pictures(container, stream, moments, fps, variable, flash, size, picture):
    for i, moment in enumerate(moments):
        if picture is None:
            inside = flash[0] - 1e-6 <= moment < flash[1] - 1e-6
            array = np.full((size[1], size[0], 3), 235 if inside else 20, dtype=np.uint8)
        else:
            array = picture(i, moment)
        frame = av.VideoFrame.from_ndarray(array, format="rgb24")
        if variable:
            frame.pts, frame.time_base = round(moment * 1000), Fraction(1, 1000)
        else:
            frame.pts, frame.time_base = i, 1 / Fraction(fps)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def _sound(container, stream, seconds, rate, layout, flash, sound, late):
    first = round(late * rate)
    t = (first + np.arange(round(seconds * rate) - first)) / rate
    if sound is None:
        samples = np.where((t >= flash[0]) & (t < flash[1]), 0.5 * np.sin(2 * np.pi * TONE * t), 0.0)
    else:
        samples = sound(t)
    channels = 1 if layout == "mono" else 2
    whole = (
        np.repeat(samples.astype(np.float32)[None], channels, 0) if samples.ndim == 1 else samples.astype(np.float32)
    )
    resampler = av.AudioResampler(format=stream.codec_context.format.name, layout=layout, rate=rate)
    for start in range(0, whole.shape[1], 1024):
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(whole[:, start : start + 1024]), "fltp", layout)
        frame.sample_rate, frame.pts, frame.time_base = rate, first + start, Fraction(1, rate)
        for part in resampler.resample(frame):
            container.mux(stream.encode(part))
    for part in resampler.resample(None):
        container.mux(stream.encode(part))
    container.mux(stream.encode(None))


def turn(path, degrees, mirrored=False):
    """Write into an mp4 file's track header that it is shown turned against the clock, and mirrored first or not."""
    content = bytearray(Path(path).read_bytes())
    place = content.index(b"tkhd") + 4  # the first track is the video
    assert content[place] == 0
    matrix = {0: (1, 0, 0, 1), 90: (0, -1, 1, 0), 180: (-1, 0, 0, -1), 270: (0, 1, -1, 0)}[degrees]
    if mirrored:
        matrix = (-matrix[0], matrix[1], -matrix[2], matrix[3])
    a, b, c, d = (value * 65536 for value in matrix)
    content[place + 40 : place + 76] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    Path(path).write_bytes(bytes(content))
