"""Clips a CPU-second: ours (decoded, cropped, resized, with sound, in batches) and the bare decoder's, in one process.

    python benchmarks/clips.py [--root FOLDER_OF_VIDEOS] [--clips 200] [--rounds 5] [--memory 2000]

The bare decoder opens the same file, seeks before the same moment and decodes forward to the same last frame, then the same
two seconds of sound; it converts, crops and keeps nothing. Both use one thread. Without ``--root``, videos of 340 x 256
pixels and ten seconds are made first (H.264 with AAC). With ``--memory``, so many clips are read and the memory is watched.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch

from rince.data.clip_reader import ClipFormat, TrainingClips, collate
from rince.data.video import VideoFile
from rince.data.video_list import VideoList, list_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="folder of videos; made ones without it")
    parser.add_argument("--clips", type=int, default=200, help="clips in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=int, default=0, help="read so many clips and watch the memory")
    found = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        videos = list_folder(Path(found.root) if found.root else made(Path(folder)))[1]
        for sound, chosen in ((True, with_sound(videos)), (False, videos)):
            if len(chosen.paths) > 1:
                compare(chosen, sound, found.clips, found.rounds)
        if found.memory:
            memory(videos, found.memory)


def compare(videos: VideoList, sound: bool, clips: int, rounds: int) -> None:
    reader = TrainingClips(videos, ClipFormat(sound=sound), (0.08, 1.0), (3 / 4, 4 / 3), 1, seed=0)
    keys = [(i % len(videos.paths), i) for i in range(clips)]
    moments = [(videos.paths[item], start_of(reader, item, step)) for item, step in keys]
    times: dict[str, list[float]] = {"rince": [], "bare": []}
    for turn in range(rounds + 1):  # in turn, so that a busy machine is busy for both
        begin = time.process_time()
        for i in range(0, clips, 8):
            collate([reader[key] for key in keys[i : i + 8]], pairs=sound, cropped=True)
        middle = time.process_time()
        for path, start in moments:
            bare(path, start, reader.form, sound)
        if turn:  # the first one warms up
            times["rince"].append(clips / (middle - begin))
            times["bare"].append(clips / (time.process_time() - middle))
    ratios = [a / b for a, b in zip(times["rince"], times["bare"], strict=True)]
    print(f"clips of 8 frames {'with 2 s of sound' if sound else 'without sound'}, {len(videos.paths)} files, a CPU-second")
    for name, values in times.items():
        print(f"  {name:<12} {np.median(values):7.1f}  ({min(values):.1f} to {max(values):.1f})")
    print(f"  rince / bare {np.median(ratios):7.2f}  ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def start_of(reader: TrainingClips, item: int, step: int) -> float:
    """Where the reader's clip starts."""
    share = np.random.default_rng((reader.seed, step, item, item, 2)).random(2)[0]
    with VideoFile(reader.videos.paths[item]) as file:
        return share * max(0.0, file.duration - reader.form.length)


def bare(path: str, start: float, form: ClipFormat, sound: bool) -> None:
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        container.seek(int(start / stream.time_base), stream=stream)
        last = start + (form.num_frames - 1) / form.fps
        for frame in container.decode(stream):
            if frame.time is not None and frame.time + 1 / 30 > last:
                break
        if sound:
            stream = container.streams.audio[0]
            stream.codec_context.thread_count = 1
            begin = start + form.length / 2 - form.audio_duration / 2
            container.seek(int(max(0.0, begin) / stream.time_base), stream=stream)
            for frame in container.decode(stream):
                if frame.time is not None and frame.time > begin + form.audio_duration:
                    break


def memory(videos: VideoList, clips: int) -> None:
    reader = TrainingClips(videos, ClipFormat(sound=False), (0.08, 1.0), (3 / 4, 4 / 3), 1, seed=0)
    print(f"memory over {clips} clips of {len(videos.paths)} files, in MB")
    for i, step in enumerate(range(0, clips, 8)):
        collate([reader[(k % len(videos.paths), k)] for k in range(step, step + 8)], pairs=False, cropped=True)
        done = step + 8
        if done == 200 or done % 600 == 200 or done >= clips:
            print(f"  after {done:5d}  {resident():7.1f}", flush=True)
        if i > clips:
            break


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def with_sound(videos: VideoList) -> VideoList:
    def has(path: str) -> bool:
        with VideoFile(path) as file:
            return file.soundtrack is not None

    return videos.take([i for i, path in enumerate(videos.paths) if has(path)])


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
