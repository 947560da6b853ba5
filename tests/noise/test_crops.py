import pytest
import torch

from rince._support.step_seeds import Draws, generator
from rince.noise.crops import ExtraCrop
from rince.views.image import Recipe

STILL = {"crop": None, "flip": 0, "jitter_chance": 0, "gray_chance": 0, "blur_chance": 0}


def test_extra_crop_changes_reported_views_at_the_rate():
    images = torch.randint(256, (600, 3, 16, 16), dtype=torch.uint8, generator=generator(3))
    noisy = Recipe(size=16, noise=ExtraCrop(0.3), **STILL)
    view = noisy(images, Draws(generator(5), 600))
    changed = (view - noisy.plain(images)).abs().amax((1, 2, 3)) > 1e-4
    assert torch.equal(changed, noisy.last_hit)
    assert abs(noisy.last_hit.float().mean() - 0.3) < 0.06


def test_noise_count_of_a_resumed_run_equals_an_uninterrupted_run():
    images = torch.zeros(50, 3, 8, 8, dtype=torch.uint8)
    whole, before, after = (Recipe(size=8, noise=ExtraCrop(0.5), **STILL) for _ in range(3))
    hit = 0
    for step in range(4):
        whole(images, Draws(generator(step, 1), 50))
        hit += int(whole.last_hit.sum())
        if step == 2:
            after.load_state_dict(before.state_dict())
        (before if step < 2 else after)(images, Draws(generator(step, 1), 50))
    assert whole.hits.record() == after.hits.record() != before.hits.record()
    assert whole.hits.record()["hit"] == hit and whole.hits.record()["views"] == 200


def test_the_crop_has_the_given_area():
    numbers = ExtraCrop(1.0, area=0.2).numbers(Draws(generator(0), 500), 32)
    share = numbers["noise_height"] * numbers["noise_width"] / 32**2
    assert share.min() > 0.17 and share.max() < 0.23


def test_bad_rates_are_refused():
    with pytest.raises(ValueError, match="must be in"):
        ExtraCrop(1.5)


def test_extra_crop_comes_last_or_directly_after_the_first_crop():
    images = torch.randint(256, (64, 3, 16, 16), dtype=torch.uint8, generator=generator(3))

    def roughness(when, **options):
        view = Recipe(size=16, noise=ExtraCrop(1.0, when=when), **{**STILL, **options})(images, Draws(generator(5), 64))
        return float((view[..., 1:] - view[..., :-1]).abs().mean())

    assert roughness("last") == roughness("after_crop")  # without anything in between
    # Enlarging a blurred view makes it smoother still; a blur after enlarging changes little.
    assert roughness("last", blur_chance=1.0, blur_sigma=(2, 2)) < roughness(
        "after_crop", blur_chance=1.0, blur_sigma=(2, 2)
    )
