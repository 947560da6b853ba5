"""Generated videos: moving shapes with the sounds they make, as mp4 files that are made on first use.

The class of a scene is told by how a shape moves and which shape it is, never by color, size, place or background. The
sound goes with it: the shape gives the timbre, the motion the rhythm, and it is in time with the picture.
"""

import csv
import io
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.atomic_files import write_text
from rince._support.optional_imports import require
from rince._support.progress import track
from rince.data.video.clips import VideoList
from rince.data.video.videos import Videos
from rince.errors import UsageError

MOTIONS = ("bounce", "orbit", "pulse", "slide")
SHAPES = ("cross", "disc")
CLASSES = tuple(f"{motion}-{shape}" for motion in MOTIONS for shape in SHAPES)

FPS, SECONDS, SAMPLE_RATE = 16, 3.0, 24_000


class Scene(NamedTuple):
    """All that is random in a video; places and sizes are shares of the picture's side, times are seconds."""

    motion: str
    shape: str
    period: float
    phase: float
    center: tuple[float, float]
    radius: float
    reach: float
    turn: float
    colors: NDArray[np.float64]  # (3, 3): of the shape, and of the background at its two ends
    slope: tuple[float, float]
    distractor: tuple[str, float, float, float]  # a shape that does not move: kind, place, size
    distractor_color: NDArray[np.float64]
    pitch: float
    loudness: float
    hiss: float
    grain: int  # seed of the noise in pictures and sound

    @property
    def label(self) -> int:
        return CLASSES.index(f"{self.motion}-{self.shape}")

    def hits(self, seconds: float = SECONDS) -> NDArray[np.float64]:
        """When something strikes: the ground for a bounce, either wall for a slide; none for the other motions."""
        per_turn = {"bounce": 1, "slide": 2}.get(self.motion, 0)
        if not per_turn:
            return np.zeros(0)
        number = np.arange(np.ceil(self.phase * per_turn), (seconds / self.period + self.phase) * per_turn)
        return (number / per_turn - self.phase) * self.period


def draw_scene(label: int, random: np.random.Generator) -> Scene:
    motion, shape = CLASSES[label].split("-")
    behind = random.uniform(0, 0.4) + random.uniform(-0.08, 0.08, (2, 3))  # dark, so that the shape stands out
    colors = np.concatenate([random.uniform(0.5, 1, (1, 3)), behind.clip(0, 1)])
    angle = random.uniform(0, 2 * np.pi)
    return Scene(
        motion=motion,
        shape=shape,
        period=float(random.uniform(0.5, 0.8)),
        phase=float(random.uniform(0, 1)),
        center=(float(random.uniform(0.44, 0.56)), float(random.uniform(0.44, 0.56))),
        radius=float(random.uniform(0.13, 0.19)),
        reach=float(random.uniform(0.22, 0.3)),
        turn=float(random.uniform(0, np.pi / 2)),
        colors=colors,
        slope=(float(np.cos(angle)), float(np.sin(angle))),
        distractor=(SHAPES[random.integers(2)], float(random.uniform(0.1, 0.9)), float(random.uniform(0.1, 0.9)), 0.12),
        distractor_color=(behind[0] + random.uniform(-0.2, 0.3, 3)).clip(0, 1),
        pitch=float(220 * 2 ** random.uniform(0, 1)),
        loudness=float(random.uniform(0.25, 0.8)),
        hiss=float(10 ** random.uniform(-2.5, -1.3)),
        grain=int(random.integers(2**31)),
    )


def pictures(scene: Scene, size: int = 64, seconds: float = SECONDS) -> NDArray[np.uint8]:
    """(frames, size, size, 3): the scene as bytes, at 16 frames per second."""
    times = np.arange(round(seconds * FPS)) / FPS
    random = np.random.default_rng((scene.grain, 1))
    axis = (np.arange(size) + 0.5) / size
    y, x = axis[:, None], axis[None, :]
    along = ((x - 0.5) * scene.slope[0] + (y - 0.5) * scene.slope[1] + 0.75) / 1.5
    behind = scene.colors[1] + along[..., None] * (scene.colors[2] - scene.colors[1])
    kind, left, top, width = scene.distractor
    still = _cover(kind, x - left, y - top, np.asarray(width), scene.turn, size)[..., None]
    behind = behind + still * (scene.distractor_color - behind)
    place_x, place_y, radius = _path(scene, times)
    inside = _cover(scene.shape, x - place_x, y - place_y, radius, scene.turn, size)[..., None]
    behind, inside = behind.astype(np.float32) * 255, inside.astype(np.float32)
    canvas = behind + inside * (scene.colors[0].astype(np.float32) * 255 - behind)
    canvas += 3 * random.standard_normal((*canvas.shape[:3], 1), dtype=np.float32)
    return canvas.clip(0, 255, out=canvas).astype(np.uint8)


def sound(scene: Scene, seconds: float = SECONDS) -> NDArray[np.float32]:
    """(samples,) at 24 kHz, in [-1, 1]."""
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    random = np.random.default_rng((scene.grain, 2))
    turns = 2 * np.pi * (time / scene.period + scene.phase)
    if scene.motion in ("bounce", "slide"):
        heard = _strikes(scene, time)
    elif scene.motion == "orbit":  # the pitch rises and falls with the shape
        heard = 0.6 * _tone(scene, scene.pitch * 2 ** (0.5 * np.sin(turns)))
    else:  # the larger, the louder
        heard = (0.1 + 0.9 * ((1 - np.cos(turns)) / 2) ** 2) * _tone(scene, np.full_like(time, scene.pitch))
    heard = scene.loudness * heard + scene.hiss * random.standard_normal(len(time), dtype=np.float32)
    return heard.clip(-1, 1).astype(np.float32)


def _path(scene: Scene, times: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Place (x, y; y points down) and radius at the given times, each (frames, 1, 1)."""
    turn = times / scene.period + scene.phase
    x, y = np.full_like(turn, scene.center[0]), np.full_like(turn, scene.center[1])
    radius = np.full_like(turn, scene.radius)
    if scene.motion == "bounce":  # up and down a parabola, on the ground at whole turns
        part = turn % 1
        y = y + scene.reach * (1 - 8 * part * (1 - part))
    elif scene.motion == "slide":  # from wall to wall at a constant speed, at a wall at every half turn
        x = x + scene.reach * (4 * np.abs(turn % 1 - 0.5) - 1)
    elif scene.motion == "orbit":
        x, y = x + scene.reach * np.cos(2 * np.pi * turn), y - scene.reach * np.sin(2 * np.pi * turn)
    else:
        radius = radius * (1 - 0.5 * np.cos(2 * np.pi * turn))
    return x[:, None, None], y[:, None, None], radius[:, None, None]


def _cover(
    kind: str, x: NDArray[np.float64], y: NDArray[np.float64], radius: NDArray[np.float64], turn: float, size: int
) -> NDArray[np.float64]:
    """How much of each pixel the shape covers: 1 inside, 0 outside, a smooth edge of one pixel."""
    if kind == "disc":
        outside = np.hypot(x, y) - 0.87 * radius  # of about the same area as the cross
    else:
        u = np.abs(np.cos(turn) * x + np.sin(turn) * y)
        v = np.abs(np.cos(turn) * y - np.sin(turn) * x)
        arm = 0.4 * radius
        outside = np.minimum(np.maximum(u - 1.15 * radius, v - arm), np.maximum(v - 1.15 * radius, u - arm))
    return np.clip(0.5 - outside * size, 0, 1)


def _tone(scene: Scene, frequency: NDArray[np.float64]) -> NDArray[np.float64]:
    """A tone of changing frequency: soft for a disc, with strong overtones for a cross."""
    angle = 2 * np.pi * np.cumsum(frequency) / SAMPLE_RATE
    overtones = {"disc": (1.0, 0.2), "cross": (0.4, 0.0, 0.4, 0.0, 0.4, 0.0, 0.3)}[scene.shape]
    parts = [weight * np.sin((i + 1) * angle) for i, weight in enumerate(overtones) if weight]
    return np.sum(parts, 0) / sum(overtones)


def _strikes(scene: Scene, time: NDArray[np.float64]) -> NDArray[np.float64]:
    """A short note at every hit: falling on the ground, rising at a wall."""
    heard = np.zeros_like(time)
    glide = -1.0 if scene.motion == "bounce" else 1.0
    since = np.arange(round(0.25 * SAMPLE_RATE)) / SAMPLE_RATE
    fade = np.minimum(1, since / 0.002) * np.exp(-since / 0.06)
    note = fade * _tone(scene, scene.pitch * 2 ** (glide * since / 0.12))
    for moment in scene.hits(len(time) / SAMPLE_RATE):
        first = round(moment * SAMPLE_RATE)
        part = heard[first : first + len(note)]
        part += note[: len(part)]
    return heard


VERSION = 1  # of what is drawn; raise it when the same seed gives other pictures or sounds
ANSWERS = ("file", "part", "class", "label", "motion", "shape", "period", "phase", "pitch", "loudness", "hits")


def write_videos(root: str | os.PathLike[str], train: int, test: int, seed: int = 0, size: int = 64) -> Path:
    """Folder with ``train/CLASS/*.mp4``, ``test/CLASS/*.mp4`` and ``answers.csv``; made if it is not there yet.

    Every class has equally many videos. The folder appears only when it is whole, under a name that tells its settings.
    """
    for name, count in (("train", train), ("test", test)):
        if count < len(CLASSES) or count % len(CLASSES):
            raise UsageError(f"{name} must be a multiple of the {len(CLASSES)} classes, got {count}")
    folder = Path(root) / f"v{VERSION}-{train}-{test}-{size}px-seed{seed}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _fill(temporary, {"train": train, "test": test}, seed, size)
        temporary.chmod(0o755)  # mkdtemp makes private folders
        os.replace(temporary, folder)
    except OSError:
        if not folder.exists():  # else another process was faster
            raise
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


def _fill(folder: Path, counts: dict[str, int], seed: int, size: int) -> None:
    """Classes in turn. The scenes of one part do not depend on the number of the other's."""
    text = io.StringIO()
    writer = csv.DictWriter(text, ANSWERS, lineterminator="\n")
    writer.writeheader()
    jobs: list[tuple[Path, Scene]] = []
    for stream, (part, count) in enumerate(counts.items(), start=1):
        for i in range(count):
            scene = draw_scene(i % len(CLASSES), np.random.default_rng((seed, stream, i)))
            path = folder / part / CLASSES[scene.label] / f"{i // len(CLASSES):04}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            jobs.append((path, scene))
            row: dict[str, Any] = {key: getattr(scene, key) for key in ("label", "motion", "shape")}
            row |= {key: f"{getattr(scene, key):.6f}" for key in ("period", "phase", "pitch", "loudness")}
            row |= {"file": path.relative_to(folder).as_posix(), "part": part, "class": CLASSES[scene.label]}
            writer.writerow(row | {"hits": " ".join(f"{hit:.4f}" for hit in scene.hits())})

    def work(job: tuple[Path, Scene]) -> None:
        encode(job[0], pictures(job[1], size), sound(job[1]))

    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:  # numpy and FFmpeg let other threads run meanwhile
        for _ in track(pool.map(work, jobs), "drawing videos", total=len(jobs)):
            pass
    write_text(folder / "answers.csv", text.getvalue())


def _video_codec(av: Any) -> str:
    try:
        av.codec.Codec("libx264", "w")
    except (ValueError, av.FFmpegError):
        return "mpeg4"
    return "libx264"


class GeneratedVideo(Videos):
    """Eight classes: four motions (bounce, orbit, pulse, slide) of two shapes (cross, disc), 3 s at 16 frames per
    second.

    Colors, sizes, places, backgrounds, pitch and loudness are random, and another shape stands still nearby. The sound
    belongs to the class and is in time with the motion. ``answers.csv`` beside the videos tells all of it.

    Further options are those of :class:`rince.data.Videos`.

    Example:
        >>> data = GeneratedVideo("generated", train=8, test=8)
        >>> data.classes
        8
    """

    tables = ()

    def __init__(
        self,
        root: str = "data/generated_video",
        train: int = 480,
        test: int = 160,
        per_class: int | None = None,
        videos_seed: int = 0,
        size: int = 32,
        crop: tuple[float, float] = (0.8, 1.0),
        sample_rate: int = 12000,
        batch_size: int = 16,
        workers: int = 2,
        **options: Any,
    ):
        """
        Args:
            root: Folder of the generated videos.
            train: Number of training videos over all classes.
            test: Number of test videos.
            per_class: Train only on this number of videos per class, drawn by the seed of the run.
            videos_seed: Seed of what the videos show.
            size: Height and width of the clips; the videos have 64 pixels.
            crop: Smallest and largest area of a crop, as a share of the image.
            sample_rate: Samples per second of the sound; the videos have 24,000.
            batch_size: Clips in a batch of all processes together.
            workers: Processes that decode, for each training process.

        Raises:
            UsageError: If there are fewer videos of a class than per_class.
        """
        super().__init__(
            root, size=size, crop=crop, sample_rate=sample_rate, batch_size=batch_size, workers=workers, **options
        )
        max_per_class = train // len(CLASSES)
        if per_class is not None and not 1 <= per_class <= max_per_class:
            raise UsageError(f"per_class must lie between 1 and the {max_per_class} videos of a class, got {per_class}")
        self.store, self.counts, self.per_class, self.videos_seed = Path(root), (train, test), per_class, videos_seed

    def prepare_data(self) -> None:
        """Make the videos if they are not there yet; with several processes, one per machine does."""
        write_videos(self.store, *self.counts, seed=self.videos_seed)

    def read(self) -> tuple[tuple[str, ...], dict[str, VideoList]]:
        self.root = write_videos(self.store, *self.counts, seed=self.videos_seed)
        names, lists = super().read()
        if self.per_class is not None:
            random = np.random.default_rng((self.seed, 1))
            labels = lists["train"].labels
            chosen = [random.permutation(np.flatnonzero(labels == c))[: self.per_class] for c in range(len(names))]
            lists["train"] = lists["train"].take(np.sort(np.concatenate(chosen)))
        return names, lists
