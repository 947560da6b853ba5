import base64
import io
import os

import numpy as np
import pytest
import torch

from rince.report.gallery import Arrays, Contents, Files, Texts, gallery_of, png


def pixels_of(item):
    """A shown picture as an array."""
    Image = pytest.importorskip("PIL.Image")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(item["image"].split(",")[1]))))


@pytest.mark.parametrize("shape", [(5, 7), (4, 6, 3), (4, 6, 4)])
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
    with pytest.raises(ValueError, match=r"show_a .* 3, got 2"):
        gallery_of(["a", "b"], 3, "show_a")
    with pytest.raises(ValueError, match="images must be"):
        Arrays(np.zeros((3, 2, 2, 5)))
    assert gallery_of(None, 3, "show_a") is None


@pytest.mark.parametrize("form", ["array", "last", "first", "bytes", "list", "normalized", "large"])
def test_image_arrays_and_tensors_are_shown(form):
    red = np.zeros((2, 64, 80, 3), np.float32)
    red[1, ..., 0] = 1
    tensor = torch.from_numpy(red)
    given = {
        "array": red,
        "last": tensor,
        "first": tensor.permute(0, 3, 1, 2),
        "bytes": (255 * tensor).to(torch.uint8).permute(0, 3, 1, 2),
        "list": [tensor[0].permute(2, 0, 1), red[1]],
        "normalized": tensor * 4 - 2,
        "large": np.tile(red, (1, 12, 12, 1)),
    }[form]
    found = pixels_of(gallery_of(given, 2, "show_a").item(1))
    assert (found[..., 0] == 255).all() and not found[..., 1:].any() and max(found.shape) < 700
    assert found.shape == (64, 80, 3) or form == "large"


def test_pillow_images_and_paths_are_shown_other_texts_stay_texts(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    file = tmp_path / "blue.png"
    Image.new("RGB", (50, 50), "blue").save(file)
    original = Image.new("RGB", (500, 500), "blue")
    given = [original, file, str(file), "blue.png", "a text", 7, None, tmp_path / "gone.jpg", float("nan")]
    items = gallery_of(given, 9, "show_a")
    for index in range(3):
        assert (np.abs(pixels_of(items.item(index)).astype(int) - [0, 0, 255]) < 8).all()
    texts = [items.item(index)["text"] for index in range(3, 9)]
    assert texts == ["blue.png", "a text", "7", "", "gone.jpg cannot be read", ""]
    assert original.size == (500, 500)  # the user's image is not made small


@pytest.mark.parametrize("wrong", [{}, b"bytes", [1, 2], object(), np.zeros((2, 3, 4, 5)), torch.zeros(7), len])
def test_what_cannot_be_shown_is_one_clear_error(wrong):
    with pytest.raises(TypeError, match=r"show_b must hold .* pair 1"):
        gallery_of(["fine", wrong], 2, "show_b")


def test_one_text_is_not_one_item_a_pair():
    for given in ("texts", {"a": 1}, 3, iter("ab")):
        with pytest.raises(TypeError, match="show_a must be a list or an array"):
            gallery_of(given, 2, "show_a")


WAV = b"RIFF\x00\x00\x00\x00WAVEfmt "
MP4 = b"\x00\x00\x00\x18ftypisom"


def test_small_media_are_embedded_and_large_ones_named(tmp_path):
    for name, content in (("a.wav", WAV), ("b.MP4", MP4), ("c.mp3", b"ID3" + bytes(1_000_000)), ("d.txt", b"hello")):
        (tmp_path / name).write_bytes(content)
    items = gallery_of(
        [tmp_path / "a.wav", str(tmp_path / "b.MP4"), tmp_path / "c.mp3", str(tmp_path / "d.txt")], 4, "a"
    )
    sound, video = (base64.b64encode(content).decode() for content in (WAV, MP4))
    assert items.item(0) == {"audio": f"data:audio/wav;base64,{sound}", "name": "a.wav"}
    assert items.item(1) == {"video": f"data:video/mp4;base64,{video}", "name": "b.MP4"}
    assert items.item(2) == {"text": "c.mp3"}
    assert items.item(3) == {"text": str(tmp_path / "d.txt")}


def test_sounds_fill_the_page_up_to_a_bound(tmp_path):
    (tmp_path / "a.wav").write_bytes(WAV + bytes(900_000 - len(WAV)))
    items = Files([tmp_path / "a.wav"] * 40)
    assert sum("audio" in items.item(index) for index in range(40)) == 22


def test_pipes_and_devices_are_rejected_without_blocking(tmp_path):
    os.mkfifo(tmp_path / "a.wav")
    os.mkfifo(tmp_path / "b.png")
    (tmp_path / "c.png").symlink_to("/dev/zero")
    items = Files([tmp_path / name for name in ("a.wav", "b.png", "c.png")])
    assert [items.item(k)["text"] for k in range(3)] == [
        f"{n} is not a regular file" for n in ("a.wav", "b.png", "c.png")
    ]


def test_private_file_named_like_audio_is_not_shown(tmp_path):
    (tmp_path / "private").write_bytes(b"the secret key")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.wav").symlink_to(tmp_path / "private")
    assert Files([tmp_path / "data" / "a.wav"]).item(0) == {"text": "a.wav cannot be read"}  # no sound by its content


def test_links_are_followed_only_inside_the_folder(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    (tmp_path / "data").mkdir()
    for folder in (tmp_path, tmp_path / "data"):
        Image.new("RGB", (9, 9), "red").save(folder / "real.png")
    (tmp_path / "data" / "in.png").symlink_to("real.png")
    (tmp_path / "data" / "out.png").symlink_to(tmp_path / "real.png")
    paths = [tmp_path / "data" / "in.png", tmp_path / "data" / "out.png", tmp_path / "data" / ".." / "real.png"]
    items = Files(paths, root=tmp_path / "data")
    assert "image" in items.item(0)
    assert items.item(1)["text"].startswith("out.png lies outside of") and "lies outside" in items.item(2)["text"]
    assert "image" in Files(paths).item(1), "what a user names is shown"


def test_bytes_of_a_table_are_shown_as_what_they_are(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    buffer = io.BytesIO()
    Image.new("RGB", (50, 50), "blue").save(buffer, "PNG")
    items = Contents([buffer.getvalue(), WAV, b"no such thing", None])
    assert (np.abs(pixels_of(items.item(0)).astype(int) - [0, 0, 255]) < 8).all()
    assert "audio" in items.item(1) and items.item(2) == {"text": "item 2 cannot be read"} and items.item(3) is None


def test_columns_of_pandas_are_shown_by_place_with_gaps():
    pandas = pytest.importorskip("pandas")
    items = gallery_of(pandas.Series(["x", None, "z"], index=[7, 0, 1], dtype="string"), 3, "show_a")
    assert [items.item(index)["text"] for index in range(3)] == ["x", "", "z"]


@pytest.fixture
def pictures(tmp_path):
    for name in ("item10.png", "item2.png", "item1.jpg", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    return tmp_path


def names(files):
    return [None if path is None else path.name for path in files.paths]


def test_files_without_ids_are_matched_by_number(pictures):
    files = Files.from_folder(pictures, None)
    assert names(files) == ["item1.jpg", "item2.png", "item10.png"]
    assert files.remark.endswith("were taken in the order of their names")


def test_ids_find_their_files_with_or_without_ending(pictures):
    files = Files.from_folder(pictures, ["item2", "item10.png", "item1", "item2"])
    assert names(files) == ["item2.png", "item10.png", "item1.jpg", "item2.png"] and not files.remark


def test_ids_without_a_file_are_reported(pictures):
    files = Files.from_folder(pictures, ["item10", "item7", None, "item1", "item8"])
    assert names(files) == ["item10.png", None, None, "item1.jpg", None]
    assert files.remark.startswith("3 of 5 pairs have no file in") and files.remark.endswith("the first is item7")
    assert files.item(1) is None


def test_files_are_matched_by_order_if_no_id_matches(pictures):
    files = Files.from_folder(pictures, [5, 6, 7])
    assert names(files) == ["item1.jpg", "item2.png", "item10.png"]
    assert files.remark.endswith("in the order of their names, since none is named like an id")


def test_a_folder_with_nothing_to_show_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no media files"):
        Files.from_folder(tmp_path, None)
