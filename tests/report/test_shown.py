import base64
import io

import numpy as np
import pytest

from rince.report.shown import Arrays, Files, Texts, png, shown


@pytest.mark.parametrize("shape", [(5, 7), (4, 6, 3)])
def test_a_png_reads_back_as_the_same_pixels(shape):
    Image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    assert (np.asarray(Image.open(io.BytesIO(png(pixels)))) == pixels).all()


def test_a_file_is_shown_small_and_a_broken_one_is_named(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    Image.new("RGB", (1000, 500), "red").save(tmp_path / "red.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    items = Files([tmp_path / "red.png", tmp_path / "broken.png", tmp_path / "missing.png"])
    content = base64.b64decode(items.item(0)["image"].split(",")[1])
    assert Image.open(io.BytesIO(content)).size == (160, 80)
    assert items.item(1) == {"text": "broken.png cannot be read"}
    assert items.item(2) == {"text": "missing.png cannot be read"}


def test_long_texts_are_cut():
    assert len(Texts(["x" * 5000]).item(0)["text"]) < 700


def test_what_is_shown_must_have_one_item_a_pair():
    with pytest.raises(ValueError, match="show_a must have one item a pair: expected 3, got 2"):
        shown(["a", "b"], 3, "show_a")
    with pytest.raises(ValueError, match="images must be"):
        Arrays(np.zeros((3, 2, 2, 5)))
    assert shown(None, 3, "show_a") is None
