import numpy as np
import pytest

from rince.data.synthetic.moving_shapes import CLASSES, FPS, SAMPLE_RATE, draw_scene, pictures, sound


def scene(name, number=0, **changes):
    found = draw_scene(CLASSES.index(name), np.random.default_rng((7, number)))
    return found._replace(**changes)


def centre_of(frames, background):
    """Where the moving shape is in every frame, in shares of the side: (frames, 2) as x, y."""
    size = frames.shape[1]
    weight = np.abs(frames.astype(float) - background).sum(3)
    weight = np.where(weight > 120, weight, 0)
    axis = (np.arange(size) + 0.5) / size
    total = weight.sum((1, 2))
    return np.stack([(weight * axis).sum((1, 2)), (weight * axis[:, None]).sum((1, 2))], 1) / total[:, None]


def plain(found):
    """Black on white with nothing else in the picture."""
    return found._replace(
        colours=np.array([[0.0] * 3, [1.0] * 3, [1.0] * 3]),
        distractor=("disc", 5.0, 5.0, 0.1),
        loudness=0.8,
        hiss=0.001,
    )


def test_the_same_draw_gives_the_same_bytes():
    for name in CLASSES:
        a, b = scene(name), scene(name)
        assert a.label == CLASSES.index(name)
        assert np.array_equal(pictures(a), pictures(b)) and np.array_equal(sound(a), sound(b))
        assert not np.array_equal(pictures(a), pictures(scene(name, 1)))


def test_shapes_of_pictures_and_sound():
    frames, samples = pictures(scene("orbit-disc"), 48, 2.0), sound(scene("orbit-disc"), 2.0)
    assert frames.shape == (32, 48, 48, 3) and frames.dtype == np.uint8
    assert samples.shape == (48000,) and samples.dtype == np.float32 and np.abs(samples).max() <= 1


@pytest.mark.parametrize("shape", ["disc", "cross"])
@pytest.mark.parametrize(("motion", "axis"), [("bounce", 1), ("slide", 0)])
def test_hits_are_where_the_shape_turns_round_and_where_the_sound_sets_in(motion, axis, shape):
    found = plain(scene(f"{motion}-{shape}", period=0.75))
    place = centre_of(pictures(found), 255.0)[:, axis]
    middle = (place.max() + place.min()) / 2
    samples, hits = sound(found), found.hits()
    assert len(hits) >= (3 if motion == "bounce" else 7)
    for hit in hits[(hits > 0.1) & (hits < 2.8)]:
        here = round(hit * FPS)
        assert abs(place[here] - middle) > 0.7 * (place.max() - middle)  # at the end of its way
        at, short = round(hit * SAMPLE_RATE), SAMPLE_RATE // 50
        before, after = samples[at - short : at - 24], samples[at : at + short]
        assert np.square(after).mean() > 5 * np.square(before).mean()
    if motion == "bounce":  # the ground is below
        assert place[round(hits[1] * FPS)] > middle


def test_the_pitch_of_an_orbit_rises_and_falls_with_the_shape():
    found = plain(scene("orbit-disc", 3, period=0.75))
    height = -centre_of(pictures(found), 255.0)[:, 1]
    samples = sound(found)
    crossings = np.diff(np.sign(samples)) != 0
    step = SAMPLE_RATE // FPS
    pitch = np.convolve(crossings, np.ones(step), "same")[::step][: len(height)]
    assert np.corrcoef(height[2:-2], pitch[2:-2])[0, 1] > 0.9


def test_a_pulse_is_loudest_when_it_is_largest():
    found = plain(scene("pulse-cross", 2, period=0.8))
    area = (pictures(found) < 100).mean((1, 2, 3))
    step = SAMPLE_RATE // FPS
    loud = np.convolve(np.square(sound(found)), np.ones(step), "same")[::step][: len(area)]
    assert np.corrcoef(area, loud)[0, 1] > 0.9


def test_a_cross_sounds_brighter_than_a_disc():
    def brightness(name):
        spectrum = np.abs(np.fft.rfft(sound(plain(scene(name, 4, pitch=300.0)))))
        return (spectrum * np.arange(len(spectrum))).sum() / spectrum.sum()

    for motion in ("bounce", "orbit", "pulse", "slide"):
        assert brightness(f"{motion}-cross") > 1.2 * brightness(f"{motion}-disc")


def test_colours_tell_nothing_of_the_class():
    import torch

    from rince.evaluate.knn import knn_accuracy

    labels = torch.arange(400) % len(CLASSES)
    scenes = [draw_scene(int(label), np.random.default_rng((9, i))) for i, label in enumerate(labels)]
    colours = torch.tensor(np.stack([pictures(s, 16, 1 / FPS).mean((0, 1, 2)) for s in scenes])).float()
    accuracy = knn_accuracy(colours[:300], labels[:300], colours[300:], labels[300:], k=10)
    assert accuracy < 0.25  # an eighth by chance
