import numpy as np
import pytest
import torch
from PIL import Image

from rince._support import image_operations as op
from rince._support.step_seeds import Draws, generator
from rince.views.image import Recipe
from rince.views.pair import ClipRecipe

STILL = {"crop": None, "flip": 0.0, "jitter": (0.0, 0.0, 0.0, 0.0)}


def some_clips(n=6, frames=4, height=24, width=32):
    return torch.randint(256, (n, frames, height, width, 3), dtype=torch.uint8, generator=generator(n, frames, height))


def draws(n, seed=0, rank=0, processes=1):
    return Draws(generator(seed), n, rank, processes)


def in_bytes(views, recipe):
    return views * recipe.std[:, None, None, None] + recipe.mean[:, None, None, None]


def test_view_layout_and_seed():
    clips, recipe = some_clips(), ClipRecipe(16)
    first, again, other = (recipe(clips, draws(6, seed)) for seed in (1, 1, 2))
    assert first.shape == (6, 3, 4, 16, 16) and first.dtype == torch.float32
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_all_frames_of_a_clip_get_the_same_crop_flip_and_colors():
    clip = some_clips(8, 1).expand(8, 5, 24, 32, 3)
    views = ClipRecipe(16)(clip, draws(8))
    torch.testing.assert_close(views, views[:, :, :1].expand_as(views))
    assert not torch.allclose(views[0], views[1])


def test_a_clip_of_one_frame_is_the_view_of_an_image():
    clips = some_clips(8, 1)
    options = {"size": 16, "jitter": (0.4, 0.4, 0.4, 0.2), "jitter_chance": 1.0}
    clip_recipe = ClipRecipe(**options)
    image_recipe = Recipe(
        **options, gray_chance=0, blur_chance=0, mean=clip_recipe.mean.tolist(), std=clip_recipe.std.tolist()
    )
    images = clips[:, 0].permute(0, 3, 1, 2)
    torch.testing.assert_close(clip_recipe(clips, draws(8))[:, :, 0], image_recipe(images, draws(8)))


def test_contrast_is_changed_around_the_mean_of_the_whole_clip():
    dark, bright = (
        torch.full((1, 1, 8, 8, 3), 64, dtype=torch.uint8),
        torch.full((1, 1, 8, 8, 3), 128, dtype=torch.uint8),
    )
    recipe = ClipRecipe(8, crop=None, flip=0, jitter=(0, 0.4, 0, 0))
    view = in_bytes(recipe(torch.cat([dark, bright], 1), draws(1)), recipe)
    factor = recipe._numbers(draws(1), 1, 8, 8, True)["factors"][0, 1]
    mean = 96 / 255
    expected = torch.stack([mean + factor * (x / 255 - mean) for x in (64, 128)])
    torch.testing.assert_close(view[0, 0, :, 0, 0], expected)
    alone = in_bytes(recipe(dark, draws(1)), recipe)  # a mean for each frame would leave even frames as they are
    torch.testing.assert_close(alone[0, 0, 0, 0, 0], torch.tensor(64 / 255))


def test_clips_cropped_before_are_only_flipped_and_colored():
    clips, recipe = some_clips(8, 3, 16, 16), ClipRecipe(16, jitter=(0, 0, 0, 0))
    views = in_bytes(recipe(clips, draws(8), cropped=True), recipe)
    flip = recipe._numbers(draws(8), 8, 16, 16, True)["flip"]
    assert 0 < flip.sum() < 8
    expected = torch.where(flip[:, None, None, None, None], clips.flip(3), clips).permute(0, 4, 1, 2, 3) / 255
    torch.testing.assert_close(views, expected)
    by_resizing = recipe._cut(clips, recipe._numbers(draws(8), 8, 16, 16, True)).transpose(0, 1)
    torch.testing.assert_close(views, by_resizing)


def test_pieces_of_a_batch_and_several_processes_do_not_change_it(monkeypatch):
    clips, recipe = some_clips(8), ClipRecipe(16)
    whole = recipe(clips, draws(8))
    parts = [recipe(clips[4 * rank : 4 * rank + 4], draws(4, 0, rank, 2)) for rank in (0, 1)]
    torch.testing.assert_close(torch.cat(parts), whole)
    monkeypatch.setattr("rince.views.pair.PIXELS_AT_A_TIME", 3 * 4 * 16 * 16)
    torch.testing.assert_close(recipe(clips, draws(8)), whole)


@pytest.mark.parametrize(("height", "width"), [(40, 60), (60, 40)])
def test_evaluation_sees_the_middle_as_resizing_and_cutting_would(height, width):
    recipe = ClipRecipe(28)
    rows, columns = torch.linspace(0, 1, height)[:, None, None], torch.linspace(0, 1, width)[None, :, None]
    frame = (255 * (0.6 * rows + 0.4 * columns)).round().to(torch.uint8).expand(height, width, 3)
    plain = in_bytes(recipe.plain(frame[None, None]), recipe)[0, :, 0].permute(1, 2, 0)
    scale = 32 / min(height, width)  # the shorter side to 28 / 0.875
    resized = Image.fromarray(frame.numpy()).resize((round(width * scale), round(height * scale)), Image.BILINEAR)
    top, left = (resized.height - 28) // 2, (resized.width - 28) // 2
    expected = np.asarray(resized)[top : top + 28, left : left + 28] / 255
    np.testing.assert_allclose(plain.numpy(), expected, atol=0.01)
    fitting = some_clips(2, 3, 28, 28)
    torch.testing.assert_close(in_bytes(recipe.plain(fitting), recipe), fitting.permute(0, 4, 1, 2, 3) / 255)


def test_view_without_augmentation_is_the_plain_clip():
    clips, recipe = some_clips(3, 2, 16, 16), ClipRecipe(16, **STILL)
    before = clips.clone()
    torch.testing.assert_close(recipe(clips, draws(3)), recipe.plain(clips))
    floats = clips.float() / 255
    kept = floats.clone()
    torch.testing.assert_close(ClipRecipe(16)(floats, draws(3), True), ClipRecipe(16)(clips, draws(3), True))
    assert torch.equal(clips, before) and torch.equal(floats, kept)


def test_hue_turns_as_it_does_for_images():
    clips, recipe = some_clips(2, 2, 8, 8), ClipRecipe(8, crop=None, flip=0, jitter=(0, 0, 0, 0.2))
    numbers = recipe._numbers(draws(2), 2, 8, 8, True)
    frames = clips.permute(4, 1, 0, 2, 3) / 255
    expected = torch.stack([op.hue(frames[:, t], numbers["hue"]) for t in range(2)], 1)  # (3, frames, n, 8, 8)
    torch.testing.assert_close(in_bytes(recipe(clips, draws(2)), recipe), expected.permute(2, 0, 1, 3, 4))


def test_what_is_no_clip_is_named():
    with pytest.raises(ValueError, match=r"\(n, frames, height, width, 3\), got \(2, 3, 8, 8\)"):
        ClipRecipe(8)(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), draws(2))
    with pytest.raises(ValueError, match="normalize 3 channels"):
        ClipRecipe(8).plain(torch.zeros(2, 3, 8, 8, 1, dtype=torch.uint8))
