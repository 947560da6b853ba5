"""Clips a CPU-second: ours against a bare decoder, in one process and one thread.

    python benchmarks/clips.py [--root FOLDER_OF_VIDEOS] [--clips 96] [--rounds 5] [--memory 2000]

"whole" is ``read_clip``: eight frames as RGB arrays, as they are in the file. "training" is what a loader's worker
does: a random crop of them, resized to 224 x 224, in batches. "decoder to arrays" opens the same file, seeks before the
same moment, decodes forward to the same last frame and turns the same eight frames into RGB arrays, so it does what
"whole" does; "decoder alone" keeps nothing. All four read the same two seconds of sound where there is sound. Without
``--root``, videos of 340 x 256 pixels and ten seconds are made first (H.264 with AAC). With ``--memory``, so many clips
are read and the memory is watched.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from process_status import resident_megabytes

from rince.data.video.clips import ClipFormat, TrainingClips, VideoList, collate, list_folder, video_list
from rince.data.video.decode import VideoFile, read_clip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="folder of videos; made ones without it")
    parser.add_argument("--clips", type=int, default=96, help="clips in a round")
    parser.add_argument("--rounds", type=int, default=5, help="0 for the memory alone")
    parser.add_argument("--memory", type=int, default=0, help="read so many clips and watch the memory")
    found = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        videos = list_folder(Path(found.root) if found.root else made(Path(folder)))[1]
        for name, sound, chosen in kinds(videos) if found.rounds else ():
            compare(name, chosen, sound, found.clips, found.rounds)
        if found.memory:
            memory(videos, found.memory)


def kinds(videos: VideoList) -> Iterator[tuple[str, bool, VideoList]]:
    """The files with and without sound, by ending."""
    groups: dict[tuple[str, bool], list[int]] = {}
    for i, path in enumerate(videos.paths):
        with VideoFile(path) as file:
            groups.setdefault((Path(path).suffix[1:], file.soundtrack is not None), []).append(i)
    for (ending, sound), places in groups.items():
        yield f"{ending}, {'with 2 s of sound' if sound else 'no sound'}", sound, videos.take(places)
    yield "all, pictures only", False, videos


def compare(name: str, videos: VideoList, sound: bool, clips: int, rounds: int) -> None:
    reader = TrainingClips(videos, ClipFormat(sound=sound), (0.08, 1.0), (3 / 4, 4 / 3), 1, seed=0)
    keys = [(i % len(videos.paths), i) for i in range(clips)]
    moments = [(videos.paths[item], start_of(reader, item, step)) for item, step in keys]

    def training() -> None:
        for i in range(0, clips, 8):
            collate([reader[key] for key in keys[i : i + 8]], pairs=sound, cropped=True)

    def whole() -> None:
        for path, start in moments:
            read_clip(path, start, audio=sound)

    def bare(arrays: bool) -> None:
        for path, start in moments:
            decode(path, start, reader.form, sound, arrays)

    contestants = {
        "whole": whole,
        "training": training,
        "decoder to arrays": partial(bare, True),
        "decoder alone": partial(bare, False),
    }
    speeds: dict[str, list[float]] = {who: [] for who in contestants}
    for turn in range(rounds + 1):  # in turn, so that a busy machine is busy for all
        for who, run in contestants.items():
            begin = time.process_time()
            run()
            if turn:  # the first one warms up
                speeds[who].append(clips / (time.process_time() - begin))
    print(f"{name} ({len(videos.paths)} files): clips of 8 frames a CPU-second, and ours against the decoder's")
    print(f"  {'':<18} {'':7} {'whole':>23} {'training':>23}")
    for who, values in speeds.items():
        cells = [ratio(speeds[mine], values) if who.startswith("decoder") else "" for mine in ("whole", "training")]
        print(f"  {who:<18} {np.median(values):7.1f} {cells[0]:>23} {cells[1]:>23}", flush=True)


def ratio(mine: list[float], others: list[float]) -> str:
    """Median, least and most over the rounds."""
    ratios = np.array(mine) / np.array(others)
    return f"{np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})"


def start_of(reader: TrainingClips, item: int, step: int) -> float:
    """Where the reader's clip starts."""
    share = np.random.default_rng((reader.seed, step, item, item, 2)).random(2)[0]
    with VideoFile(reader.videos.paths[item]) as file:
        return share * max(0.0, file.duration - reader.form.length)


def decode(path: str, start: float, form: ClipFormat, sound: bool, arrays: bool) -> list[Any]:
    kept: list[Any] = []
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        container.seek(int(start / stream.time_base), stream=stream)
        wanted = list(start + np.arange(form.num_frames) / form.fps)
        length = 1 / float(stream.average_rate)
        for frame in container.decode(stream):
            while wanted and frame.time is not None and frame.time + length > wanted[0]:
                wanted.pop(0)
                if arrays:
                    kept.append(frame.to_ndarray(format="rgb24", threads=1))
            if not wanted:
                break
        if sound:
            stream = container.streams.audio[0]
            begin = start + form.length / 2 - form.audio_duration / 2
            container.seek(int(max(0.0, begin) / stream.time_base), stream=stream)
            for frame in container.decode(stream):
                if arrays:
                    kept.append(frame.to_ndarray())
                if frame.time is not None and frame.time > begin + form.audio_duration:
                    break
    return kept


def memory(videos: VideoList, clips: int) -> None:
    print(f"memory over {clips} clips of {len(videos.paths)} files, sound where there is some, in MB")
    readers = []
    for path in videos.paths:
        with VideoFile(path) as file:
            form = ClipFormat(sound=file.soundtrack is not None)
        readers.append(TrainingClips(video_list([path]), form, (0.08, 1.0), (3 / 4, 4 / 3), 1, seed=0))
    for k in range(clips):
        reader = readers[k % len(readers)]
        collate([reader[(0, k)]], pairs=reader.form.sound, cropped=True)
        if (k + 1) % 300 == 200 or k + 1 == clips:
            print(f"  after {k + 1:5d}  {resident_megabytes():7.1f}", flush=True)


def made(folder: Path) -> Path:
    for i in range(4):
        with av.open(str(folder / f"{i}.mp4"), "w") as container:
            stream = container.add_stream("libx264", rate=30)
            stream.width, stream.height, stream.pix_fmt = 340, 256, "yuv420p"
            sound = container.add_stream("aac", rate=44100, layout="mono")
            for packet in encoded(stream, sound, np.random.default_rng(i)):
                container.mux(packet)
    return folder


def encoded(stream: Any, sound: Any, random: np.random.Generator) -> Iterator[Any]:
    """Ten seconds of drifting blobs, and of noise."""
    texture = np.kron(random.integers(0, 256, (40, 50, 3)), np.ones((16, 16, 1))).astype(np.uint8)
    for k in range(300):
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(texture[k : k + 256, k : k + 340]), format="rgb24")
        frame.pts, frame.time_base = k, Fraction(1, 30)
        yield from stream.encode(frame)
    yield from stream.encode(None)
    for k in range(0, 441000, 1024):
        noise = random.normal(0, 0.1, (1, 1024)).astype(np.float32)
        part = av.AudioFrame.from_ndarray(noise, format="fltp", layout="mono")
        part.sample_rate, part.pts, part.time_base = 44100, k, Fraction(1, 44100)
        yield from sound.encode(part)
    yield from sound.encode(None)


if __name__ == "__main__":
    main()
