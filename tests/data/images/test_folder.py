import math
import os

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer
from PIL import Image

from rince import RINCE
from rince.data.image_folder import ImageFolder, crop_box
from rince.encoders.images import ConvNet
from rince.errors import UsageError
from rince.methods.simclr import SimCLR, SupCon
from rince.views.image import SimCLRViews


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    for part, count in (("train", 6), ("val", 2)):
        for label in ("cat", "dog"):
            (tmp_path / part / label).mkdir(parents=True)
            for i in range(count):
                pixels = random.integers(0, 256, (30 + i, 40, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / part / label / f"{i}.png")
    return tmp_path


def data(folder, **options):
    return ImageFolder(str(folder), size=16, batch_size=4, workers=0, **options)


def batches_of(module, method):
    trainer = Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, use_distributed_sampler=False,
    )  # fmt: skip
    module.pairing = method.pairing
    trainer.fit(method, datamodule=module)
    method._batches = 0
    return list(module.train_dataloader())


def make(kind):
    views = SimCLRViews(size=16)
    return kind(ConvNet(width=4), RINCE(), views, lambda p: torch.optim.Adam(p), hidden=8, width=4)


def test_batches_have_two_crops_per_image_and_are_reproducible(folder):
    module, method = data(folder), make(SimCLR)
    batches = batches_of(module, method)
    assert len(batches) == 3 and batches[0].cropped
    assert batches[0].images.shape == batches[0].partners.shape == (4, 3, 16, 16)
    assert not torch.equal(batches[0].images, batches[0].partners)
    assert sorted(torch.cat([b.ids for b in batches]).tolist()) == list(range(12))
    method._batches = 1  # as after a resume
    assert all(torch.equal(a.images, b.images) for a, b in zip(batches[1:], module.train_dataloader(), strict=True))


def test_partners_of_the_same_label_train_too(folder):
    assert len(batches_of(data(folder), make(SupCon))) == 3


def test_evaluation_sees_the_center_of_every_image(folder):
    module = data(folder)
    images, labels = module.split("test")
    assert images.shape == (4, 3, 16, 16) and labels.tolist() == [0, 0, 1, 1] and module.class_names == ("cat", "dog")


def test_undecodable_image_is_replaced_or_raises(folder):
    (folder / "val" / "cat" / "0.png").write_bytes(b"not an image")
    with pytest.warns(UserWarning, match="cat/0.png cannot be decoded"):
        images, _ = data(folder).split("test")
    assert torch.equal(images[0], images[1])
    with pytest.raises(ValueError, match=r"cat/0\.png cannot be decoded"):
        data(folder, strict=True).split("test")


def test_replacement_image_keeps_its_own_label(folder):
    (folder / "val" / "cat" / "1.png").write_bytes(b"not an image")
    with pytest.warns(UserWarning, match="cat/1.png cannot be decoded"):
        images, labels = data(folder).split("test")
    assert torch.equal(images[1], images[2]) and labels.tolist() == [0, 1, 1, 1]


def test_truncated_image_counts_as_undecodable(folder):
    path = folder / "val" / "cat" / "0.png"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.warns(UserWarning, match="cannot be decoded"):
        data(folder).split("test")


def test_missing_folder_or_class_or_images_are_named(folder, tmp_path):
    (folder / "train" / "emu").mkdir()
    with pytest.raises(ValueError, match="train/emu has no images"):
        data(folder).setup()
    (folder / "train" / "emu" / "0.jpg").write_bytes(b"x")
    with pytest.raises(ValueError, match="emu is in one of them only"):
        data(folder).setup()
    with pytest.raises(FileNotFoundError, match="does not exist"):
        data(tmp_path / "elsewhere").setup()


def test_crops_have_the_areas_and_ratios_asked_for():
    random = np.random.default_rng(0)
    boxes = np.array([crop_box(random, 400, 300, (0.2, 0.5), (3 / 4, 4 / 3)) for _ in range(2000)])
    w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    share = w * h / 120000
    assert share.min() > 0.19 and share.max() < 0.51 and abs(share.mean() - 0.35) < 0.01
    assert abs(np.log(w / h).mean()) < 0.02 and np.abs(np.log(w / h)).max() < math.log(4 / 3) + 0.02
    assert boxes.min() >= 0 and boxes[:, 2].max() <= 400 and boxes[:, 3].max() <= 300


def test_partner_of_a_replacement_image_has_its_label(tmp_path):
    """Cats are black and dogs are white; the last cat does not decode, so that the first dog stands in for it."""
    for part in ("train", "val"):
        for label, gray in (("cat", 0), ("dog", 255)):
            (tmp_path / part / label).mkdir(parents=True)
            for i in range(4):
                Image.new("RGB", (20, 20), (gray,) * 3).save(tmp_path / part / label / f"{i}.png")
    (tmp_path / "train" / "cat" / "3.png").write_bytes(b"nothing")
    (tmp_path / "train" / "dog" / "2.png").write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="cannot be decoded"):
        for batch in batches_of(data(tmp_path), make(SupCon)):
            shade = 255 * batch.labels[:, None, None, None].expand_as(batch.images)
            assert torch.equal(batch.images, shade.byte()) and torch.equal(batch.partners, shade.byte())


def test_pipes_and_devices_among_the_images_are_left_out(folder):
    """Opening one would wait for ever."""
    os.mkfifo(folder / "train" / "cat" / "pipe.png")
    (folder / "train" / "cat" / "zero.png").symlink_to("/dev/zero")
    module = data(folder)
    module.setup()
    assert not any(path.name in ("pipe.png", "zero.png") for path in module._lists["train"][0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"crop": (2, 1)}, r"crop must be .* in \(0, 1\], got \(2, 1\)"),
        ({"crop": (0.5, math.nan)}, "crop must be"),
        ({"ratio": (0, 1)}, "ratio must be .* above 0"),
    ],
)
def test_values_that_make_no_sense_are_one_sentence(folder, options, message):
    with pytest.raises(UsageError, match=message):
        ImageFolder(str(folder), **options)


@pytest.mark.parametrize("ratio", ((0.001, 0.001), (1000, 1000)))
def test_a_crop_of_an_extreme_ratio_is_a_pixel_wide(ratio):
    left, top, right, bottom = crop_box(np.random.default_rng(0), 40, 30, (0.5, 1), ratio)
    assert right > left and bottom > top


def test_evaluation_resizes_before_its_center_crop_as_asked(folder):
    from PIL import Image as image_file

    path = folder / "val" / "cat" / "0.png"  # 40 x 30
    image = image_file.open(path).convert("RGB")
    for resize, share in ((None, 0.875), (20, 16 / 20), (16, 1.0)):
        side = 30 * share
        box = ((40 - side) / 2, (30 - side) / 2, (40 + side) / 2, (30 + side) / 2)
        wanted = np.asarray(image.resize((16, 16), resample=2, box=box)).transpose(2, 0, 1)
        assert np.array_equal(data(folder, test_resize=resize).split("test")[0][0].numpy(), wanted)
    with pytest.raises(UsageError, match="test_resize"):
        data(folder, test_resize=8)


def test_gray_cmyk_palette_and_misnamed_images_become_rgb(folder):
    pixels = Image.fromarray(np.full((40, 30, 3), 90, np.uint8))
    kinds = {"L": "JPEG", "CMYK": "JPEG", "P": "PNG", "LA": "PNG"}  # ImageNet has all of these, named .JPEG
    for mode, kind in kinds.items():
        pixels.convert(mode).save(folder / "val" / "dog" / f"{mode}.JPEG", format=kind)
    images, _ = data(folder).split("test")
    others = images[[i for i, path in enumerate(data(folder).paths("test")) if path.suffix == ".JPEG"]]
    assert others.shape == (4, 3, 16, 16) and (others.int() - 90).abs().max() < 16  # palettes dither
