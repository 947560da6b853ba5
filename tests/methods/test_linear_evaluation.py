"""Linear evaluation that streams, end to end on a folder of images: accuracies, resuming, several processes."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from rince import cli
from rince.encoders.files import save_encoder
from rince.encoders.images import ConvNet
from rince.methods.finetune import LinearEvaluation
from rince.train.load import load_run
from rince.views.image import Recipe
from support import ranks
from support.crashes import CRASHES, Crash

CLASSES = 7


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Seven shades with noise, so that some are mistaken for their neighbors."""
    folder, random = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for part, count in (("train", 8), ("val", 5)):
        for label in range(CLASSES):
            (folder / part / f"class{label}").mkdir(parents=True)
            for i in range(count):
                pixels = 30 * label + 20 + random.normal(0, 12) + random.normal(0, 20, (24, 30, 3))
                image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
                image.save(folder / part / f"class{label}" / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("encoder") / "encoder.safetensors"
    recipe = {"class_path": "rince.encoders.images.ConvNet", "init_args": {"width": 4}}
    save_encoder(path, ConvNet(width=4), recipe, {})
    return path


def command(encoder, images, out, name, *options):
    return [
        "finetune", str(encoder), "imagenet/linear", "--data.root", str(images), "--data.size", "16",
        "--views.size", "16", "--data.batch_size", "14", "--data.workers", "0", "--trainer.max_epochs", "3",
        "--optimizer.lr", "0.1",
        "--trainer.precision", "32-true", "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false",
        "--trainer.enable_model_summary", "false", "--trainer.log_every_n_steps", "1", "--out", str(out),
        "--name", name, *options,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def finished(encoder, images, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    assert cli.main(command(encoder, images, out, "whole")) == 0
    return out / "whole"


def test_top_1_and_top_5_are_those_of_the_test_images_one_by_one(finished, images):
    """Against the trained classifier applied to images that are read, cropped and counted here."""
    method, _, _ = load_run(finished)
    first = five = 0
    for label in range(CLASSES):
        for path in sorted((images / "val" / f"class{label}").iterdir()):
            image = Image.open(path).convert("RGB")
            side = 0.875 * min(image.size)
            left, top = (image.width - side) / 2, (image.height - side) / 2
            image = image.resize((16, 16), resample=2, box=(left, top, left + side, top + side))
            pixels = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)[None]
            with torch.no_grad():
                order = method.head(method.encoder(method.views.plain(pixels)))[0].argsort(descending=True).tolist()
            first, five = first + (order[0] == label), five + (label in order[:5])
    result = json.loads((finished / "result.json").read_text())
    assert result["accuracy"] == pytest.approx(100 * first / 35) and result["top5"] == pytest.approx(100 * five / 35)
    assert result["test_items"] == 35 and result["accuracy"] < result["top5"] and result["steps"] == 12


def test_the_encoder_stays_as_it_was_and_the_rate_falls_like_a_cosine(finished, encoder):
    import csv

    from rince import load_encoder

    before, after = load_encoder(encoder).state_dict(), load_encoder(finished).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    with open(finished / "metrics.csv", newline="") as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    assert len(losses) == 12 and sum(losses[-4:]) < sum(losses[:4])
    method = LinearEvaluation(ConvNet(width=4), torch.nn.CrossEntropyLoss(), Recipe(), torch.optim.SGD, classes=3)
    assert [method.lr_share(step, 100) for step in (0, 50, 100)] == pytest.approx([1, 0.5, 0])


def test_an_interrupted_evaluation_resumes_to_the_same_bits(finished, encoder, images, tmp_path, monkeypatch):
    monkeypatch.setattr(Crash, "at", 7)
    options = command(encoder, images, tmp_path, "broken", CRASHES, "--checkpoint_every", "3")
    with pytest.raises(RuntimeError, match="crash"):
        cli.main(options)
    monkeypatch.setattr(Crash, "at", -1)
    assert cli.main(options) == 0
    states = [
        torch.load(folder / "last.ckpt", weights_only=True)["state_dict"] for folder in (finished, tmp_path / "broken")
    ]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    kept = [json.loads((folder / "result.json").read_text()) for folder in (finished, tmp_path / "broken")]
    assert kept[0]["top5"] == kept[1]["top5"]


def test_two_processes_test_every_image_once_and_find_the_same(finished, encoder, images, tmp_path):
    options = ["--trainer.devices", "2", "--trainer.strategy", "ddp"]
    ranks.command(command(encoder, images, tmp_path, "two", *options))
    one, two = (json.loads((folder / "result.json").read_text()) for folder in (finished, tmp_path / "two"))
    assert two["test_items"] == 35
    assert (two["accuracy"], two["top5"]) == pytest.approx((one["accuracy"], one["top5"]), abs=100 / 35 + 0.01)


def test_nothing_of_a_part_is_read_before_it_is_needed(images, monkeypatch):
    """The test part of ImageNet does not fit into memory."""
    from rince.data import image_folder

    opened = []
    real = image_folder._decode
    watched = lambda paths, item, *rest: opened.append(item) or real(paths, item, *rest)  # noqa: E731
    monkeypatch.setattr(image_folder, "_decode", watched)
    data = image_folder.ImageFolder(str(images), size=16, workers=0, batch_size=14)
    loader = data.test_dataloader()
    assert len(loader) == 1 and not opened
    batch = next(iter(data.labeled_batches("test")))
    assert (
        len(opened) == 35
        and batch.images.shape == (35, 3, 16, 16)
        and batch.labels.tolist() == [i // 5 for i in range(35)]
    )
    halves = [next(iter(data.center_crops("test", rank, 2))) for rank in (0, 1)]
    assert sorted(torch.cat([half.ids for half in halves]).tolist()) == list(range(35))
    assert torch.equal(torch.cat([half.labels for half in halves]), torch.cat([half.ids for half in halves]) // 5)
