import torch

from rince._support.step_seeds import Draws, generator
from rince.views.pair import ClipRecipe, PairViews, SoundRecipe, Unchanged


def test_each_side_has_its_recipe_and_the_protocols_shapes():
    clips = torch.randint(256, (2, 8, 240, 320, 3), dtype=torch.uint8, generator=generator(0))
    sounds = torch.randn(2, 48000, generator=generator(1))
    a, b = PairViews(ClipRecipe(), SoundRecipe())(clips, sounds, Draws(generator(2), 2))
    assert a.shape == (2, 3, 8, 224, 224) and b.shape == (2, 1, 200, 257)


def test_only_the_first_side_is_told_that_it_was_cropped():
    class Told(torch.nn.Module):
        def forward(self, items, draw, cropped=False):
            return items + float(cropped)

    views = PairViews(Told(), Told())
    a, b = views(torch.zeros(1), torch.zeros(1), Draws(generator(0), 1), True)
    assert (float(a), float(b)) == (1.0, 0.0)


def test_features_pass_unchanged_or_normalized():
    items = torch.arange(6).view(2, 3)
    assert torch.equal(Unchanged()(items, Draws(generator(0), 2)), items.float())
    assert torch.equal(Unchanged(1.0, 2.0).plain(items), (items - 1) / 2)
