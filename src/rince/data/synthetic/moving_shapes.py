"""Moving shapes and the sounds they make: small scenes whose answers are known, drawn with numpy alone.

What a scene shows is told by how a shape moves and which shape it is, never by colour, size, place or background. What
is heard goes with it: the shape gives the timbre, the motion the rhythm, and the sound is in time with the picture.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    centre: tuple[float, float]
    radius: float
    reach: float
    turn: float
    colours: NDArray[np.float64]  # (3, 3): of the shape, and of the background at its two ends
    slope: tuple[float, float]
    distractor: tuple[str, float, float, float]  # a shape that does not move: kind, place, size
    distractor_colour: NDArray[np.float64]
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
    colours = np.concatenate([random.uniform(0.5, 1, (1, 3)), behind.clip(0, 1)])
    angle = random.uniform(0, 2 * np.pi)
    return Scene(
        motion=motion,
        shape=shape,
        period=float(random.uniform(0.5, 0.8)),
        phase=float(random.uniform(0, 1)),
        centre=(float(random.uniform(0.44, 0.56)), float(random.uniform(0.44, 0.56))),
        radius=float(random.uniform(0.13, 0.19)),
        reach=float(random.uniform(0.22, 0.3)),
        turn=float(random.uniform(0, np.pi / 2)),
        colours=colours,
        slope=(float(np.cos(angle)), float(np.sin(angle))),
        distractor=(SHAPES[random.integers(2)], float(random.uniform(0.1, 0.9)), float(random.uniform(0.1, 0.9)), 0.12),
        distractor_colour=(behind[0] + random.uniform(-0.2, 0.3, 3)).clip(0, 1),
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
    behind = scene.colours[1] + along[..., None] * (scene.colours[2] - scene.colours[1])
    kind, left, top, width = scene.distractor
    still = _cover(kind, x - left, y - top, np.asarray(width), scene.turn, size)[..., None]
    behind = behind + still * (scene.distractor_colour - behind)
    place_x, place_y, radius = _path(scene, times)
    inside = _cover(scene.shape, x - place_x, y - place_y, radius, scene.turn, size)[..., None]
    behind, inside = behind.astype(np.float32) * 255, inside.astype(np.float32)
    shown = behind + inside * (scene.colours[0].astype(np.float32) * 255 - behind)
    shown += 3 * random.standard_normal((*shown.shape[:3], 1), dtype=np.float32)
    return shown.clip(0, 255, out=shown).astype(np.uint8)


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
    x, y = np.full_like(turn, scene.centre[0]), np.full_like(turn, scene.centre[1])
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
