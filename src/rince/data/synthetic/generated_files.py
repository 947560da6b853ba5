"""The generated videos as files: real mp4 with H.264 and AAC, written once into a folder and checked on later use."""

import csv
import hashlib
import io
import json
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince._support.atomic_files import write_text
from rince._support.optional_imports import require
from rince._support.progress import track
from rince.data.synthetic.moving_shapes import CLASSES, FPS, SAMPLE_RATE, Scene, draw_scene, pictures, sound
from rince.errors import UsageError

VERSION = 1  # of what is drawn; raise it when the same seed gives other pictures or sounds
ANSWERS = ("file", "part", "class", "label", "motion", "shape", "period", "phase", "pitch", "loudness", "hits")


def write_videos(root: str | os.PathLike[str], train: int, test: int, seed: int = 0, size: int = 64) -> Path:
    """The folder with ``train/CLASS/*.mp4``, ``test/CLASS/*.mp4`` and ``answers.csv``; made if it is not there yet.

    Every class has equally many videos. The folder appears only when it is whole, under a name that tells its settings.
    """
    for name, count in (("train", train), ("test", test)):
        if count < len(CLASSES) or count % len(CLASSES):
            raise UsageError(f"{name} must be a multiple of the {len(CLASSES)} classes, got {count}")
    if size < 16 or size % 2:
        raise UsageError(f"size must be an even number of at least 16 pixels, got {size}")
    settings = {"version": VERSION, "train": train, "test": test, "seed": seed, "size": size}
    folder = Path(root) / f"v{VERSION}-{train}-{test}-{size}px-seed{seed}"
    if folder.exists():
        _check(folder, settings)
        return folder
    require("av", "video")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _fill(temporary, settings)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o777 & ~umask)  # mkdtemp makes private folders
        try:
            os.replace(temporary, folder)
        except OSError:
            if not folder.exists():
                raise
            _check(folder, settings)  # another process was faster: its videos are as good
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def encode(path: str | os.PathLike[str], frames: NDArray[np.uint8], samples: NDArray[np.float32]) -> None:
    """An mp4 file with H.264 (MPEG-4 where there is no encoder for it) and AAC, both starting at 0."""
    av = require("av", "video")
    with av.open(str(path), "w") as container:
        video = container.add_stream(_video_codec(av), rate=FPS)
        video.width, video.height, video.pix_fmt = frames.shape[2], frames.shape[1], "yuv420p"
        video.gop_size, video.thread_count, video.bit_rate = FPS, 1, 200_000  # one thread: the same bytes each time
        if video.codec.name == "libx264":
            video.options = {"preset": "superfast", "crf": "23"}
        audio = container.add_stream("aac", rate=SAMPLE_RATE, layout="mono")
        audio.bit_rate, audio.options = 64_000, {"aac_coder": "fast"}
        for number, picture in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        heard = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples[None]), format="fltp", layout="mono")
        heard.sample_rate, heard.pts, heard.time_base = SAMPLE_RATE, 0, Fraction(1, SAMPLE_RATE)
        container.mux(audio.encode(heard))
        container.mux(audio.encode(None))


def answers_of(folder: str | os.PathLike[str]) -> list[dict[str, str]]:
    """What is shown and heard in every video: one row per file, ``hits`` being the moments of impact in seconds."""
    with open(Path(folder) / "answers.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def scenes_of(settings: dict[str, int], part: str) -> list[Scene]:
    """The scenes of a part, classes in turn. Those of one part do not depend on how many the other has."""
    stream = ("train", "test").index(part) + 1
    return [
        draw_scene(i % len(CLASSES), np.random.default_rng((settings["seed"], stream, i)))
        for i in range(settings[part])
    ]


def _fill(folder: Path, settings: dict[str, int]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, ANSWERS, lineterminator="\n")
    writer.writeheader()
    jobs: list[tuple[Path, Scene]] = []
    for part in ("train", "test"):
        for i, scene in enumerate(scenes_of(settings, part)):
            path = folder / part / CLASSES[scene.label] / f"{i // len(CLASSES):04}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            jobs.append((path, scene))
            known: dict[str, Any] = {key: getattr(scene, key) for key in ("label", "motion", "shape")}
            known |= {key: f"{getattr(scene, key):.6f}" for key in ("period", "phase", "pitch", "loudness")}
            known |= {"file": path.relative_to(folder).as_posix(), "part": part, "class": CLASSES[scene.label]}
            writer.writerow(known | {"hits": " ".join(f"{hit:.4f}" for hit in scene.hits())})

    def work(job: tuple[Path, Scene]) -> None:
        encode(job[0], pictures(job[1], settings["size"]), sound(job[1]))

    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:  # numpy and FFmpeg let other threads run meanwhile
        for _ in track(pool.map(work, jobs), "drawing videos", total=len(jobs)):
            pass
    write_text(folder / "answers.csv", text.getvalue())
    write_text(folder / "whole.json", json.dumps({"settings": settings, "sha256": _digest(folder)}) + "\n")


def _check(folder: Path, settings: dict[str, int]) -> None:
    """These settings, and every byte as it was written."""
    try:
        known = json.loads((folder / "whole.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    if not isinstance(known, dict) or known.get("settings") != settings or known.get("sha256") != _digest(folder):
        raise UsageError(f"the generated videos in {folder} have been changed: delete the folder to make them again")


def _digest(folder: Path) -> str:
    """Of all names and contents: a few milliseconds for some ten megabytes."""
    digest = hashlib.sha256()
    for path in sorted([*folder.rglob("*.mp4"), folder / "answers.csv"]):
        content = path.read_bytes() if path.exists() else b""
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)} ".encode() + content)
    return digest.hexdigest()


def _video_codec(av: Any) -> str:
    try:
        av.codec.Codec("libx264", "w")
    except (ValueError, av.FFmpegError):
        return "mpeg4"
    return "libx264"
