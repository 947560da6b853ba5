import pytest
import torch
from rince.noise.crops import ExtraCrop
from rince.seeds import Draws, generator
from rince.views.image import Recipe

STILL = {"crop": None, "flip": 0, "jitter_chance": 0, "grey_chance": 0, "blur_chance": 0}


def test_only_the_views_that_it_reports_are_changed_and_at_its_rate():
    images = torch.randint(256, (600, 3, 16, 16), dtype=torch.uint8, generator=generator(3))
    noisy = Recipe(size=16, noise=ExtraCrop(0.3), **STILL)
    view = noisy(images, Draws(generator(5), 600))
    changed = ((view - noisy.plain(images)).abs().amax((1, 2, 3)) > 1e-4)
    assert torch.equal(changed, noisy.last_hit)
    assert abs(noisy.last_hit.float().mean() - 0.3) < 0.06


def test_the_crop_has_the_given_area():
    numbers = ExtraCrop(1.0, area=0.2).numbers(Draws(generator(0), 500), 32)
    share = numbers["noise_height"] * numbers["noise_width"] / 32**2
    assert 0.17 < share.min() and share.max() < 0.23


@pytest.mark.parametrize("options", [{"rate": 1.5}, {"rate": 0.5, "area": 0.0}])
def test_bad_rates_are_refused(options):
    with pytest.raises(ValueError, match="must lie in"):
        ExtraCrop(**options)
