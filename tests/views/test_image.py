import pytest
import torch

from rince._support.step_seeds import Draws, generator
from rince.noise.crops import ExtraCrop
from rince.views.image import MoCoV3Views, OwnViews, Recipe, SimCLRViews


def some_images(n=16, size=32, channels=3):
    return torch.randint(256, (n, channels, size, size), dtype=torch.uint8, generator=generator(n, size))


def draws(n, seed=0, rank=0, processes=1):
    return Draws(generator(seed), n, rank, processes)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    images, views = some_images(), SimCLRViews()
    first, again, other = (views(images, draws(16, seed)) for seed in (1, 1, 2))
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[0], other[0])
    assert not torch.equal(first[0], first[1])


def test_two_processes_make_the_views_that_one_would():
    images, views = some_images(), SimCLRViews(noise=ExtraCrop(0.5))
    whole = views(images, draws(16))
    parts = [views(images[8 * rank : 8 * rank + 8], draws(8, 0, rank, 2)) for rank in (0, 1)]
    for view in (0, 1):
        torch.testing.assert_close(torch.cat([part[view] for part in parts]), whole[view])


def test_pieces_of_a_batch_do_not_change_it(monkeypatch):
    images, recipe = some_images(), Recipe()
    whole = recipe(images, draws(16))
    monkeypatch.setattr("rince.views.image.PIXELS_AT_A_TIME", 5 * 32 * 32)
    torch.testing.assert_close(recipe(images, draws(16)), whole)


def test_without_chances_a_view_is_the_plain_image():
    recipe = Recipe(crop=None, flip=0, jitter_chance=0, gray_chance=0, blur_chance=0)
    images = some_images()
    torch.testing.assert_close(recipe(images, draws(16)), recipe.plain(images))
    expected = (images.float() / 255 - recipe.mean[:, None, None]) / recipe.std[:, None, None]
    torch.testing.assert_close(recipe.plain(images), expected)


def test_chances_are_kept():
    n = 4000
    numbers = Recipe(solarize_chance=0.1)._numbers(draws(n), n, 32, 32, False)
    for name, chance in {"flip": 0.5, "gray": 0.2, "blur": 0.5, "solarize": 0.1}.items():
        assert abs(numbers[name].float().mean() - chance) < 0.03
    assert abs((numbers["hue"] == 0).float().mean() - 0.2) < 0.03
    assert numbers["factors"].min() >= 0.6 - 1e-6 and numbers["factors"].max() <= 1.4 + 1e-6
    assert numbers["hue"].abs().max() <= 0.1 + 1e-6
    assert numbers["sigma"].min() >= 0.1 and numbers["sigma"].max() <= 2.0
    orders, counts = numbers["order"].unique(dim=0, return_counts=True)
    assert len(orders) == 24 and counts.min() > 0.6 * n / 24


def test_moco_v3_blurs_the_first_view_and_solarizes_the_second_only():
    views = MoCoV3Views(size=32)
    first, second = (r._numbers(draws(2000), 2000, 32, 32, False) for r in (views.first, views.second))
    assert first["blur"].all() and not first["solarize"].any()
    assert abs(second["blur"].float().mean() - 0.1) < 0.03 and abs(second["solarize"].float().mean() - 0.2) < 0.04
    pair = views(some_images(4), draws(4))
    assert pair[0].shape == pair[1].shape == (4, 3, 32, 32)


def test_gray_images_of_one_channel_and_other_sizes_work():
    views = SimCLRViews(size=8, mean=[0.3], std=[0.4])
    first, _ = views(some_images(5, 12, 1), draws(5))
    assert first.shape == (5, 1, 8, 8) and torch.isfinite(first).all()
    assert views.plain(some_images(5, 12, 1)).shape == (5, 1, 8, 8)


def test_partners_give_the_second_view():
    still = {"crop": None, "flip": 0, "jitter_chance": 0, "gray_chance": 0, "blur_chance": 0}
    views, images = SimCLRViews(**still), some_images()
    first, second = views(images, draws(16), partners=images.flip(0))
    torch.testing.assert_close(second, first.flip(0))


def test_custom_transform_of_batches_and_images():
    images = some_images(4)
    batch, _ = OwnViews(lambda x: x * 2)(images, draws(4))
    torch.testing.assert_close(batch, images.float() / 255 * 2)
    each, _ = OwnViews(lambda x: torch.from_numpy(x).permute(2, 0, 1).float(), each=True)(images, draws(4))
    torch.testing.assert_close(each, images.float())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blur_taps": 4}, "odd"),
        ({"gray_chance": 20}, "_chance"),
        ({"crop": (0.5, 0.2)}, "crop"),
        ({"mean": [0.5]}, "mean and std"),
    ],
)
def test_bad_options_are_refused_at_the_door(options, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**options)


def test_images_of_other_channels_are_refused():
    with pytest.raises(ValueError, match="3 channels, the images have 1"):
        Recipe()(some_images(2, 32, 1), draws(2))
