import numpy as np
import pytest

from rince.data.images import Arrays


def write(path, **arrays):
    np.savez(path, **arrays)
    return str(path)


def test_every_tenth_image_is_the_default_test_split(tmp_path):
    images, labels = np.zeros((20, 6, 5, 3), np.uint8), np.arange(20)
    data = Arrays(write(tmp_path / "a.npz", images=images, labels=labels))
    assert data.split("train")[0].shape == (18, 3, 6, 5) and data.split("test")[1].tolist() == [9, 19]
    both = Arrays(
        write(tmp_path / "b.npz", images=images, labels=labels, test_images=images[:3], test_labels=labels[:3])
    )
    assert len(both.split("train")[0]) == 20 and len(both.split("test")[0]) == 3


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pictures": np.zeros((2, 4, 4), np.uint8)}, "no array 'images', only pictures"),
        ({"images": np.zeros((2, 4, 4))}, "must be uint8"),
        ({"images": np.zeros((2, 4, 4), np.uint8), "labels": np.zeros(3, int)}, "2 whole numbers"),
        ({"images": np.zeros((2, 4, 4), np.uint8), "labels": np.array([0, -2])}, "or -1 for none, got -2"),
        ({"images": np.array([{"code": 1}], dtype=object)}, "not a valid .npz file"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, arrays, message):
    with pytest.raises(ValueError, match=message):
        Arrays(write(tmp_path / "a.npz", **arrays)).setup()


def test_a_truncated_or_missing_file_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    write(path, images=np.zeros((20, 6, 5, 3), np.uint8))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"not a valid zip file"):
        Arrays(str(path)).setup()
    with pytest.raises(FileNotFoundError, match=r"does not exist"):
        Arrays(str(tmp_path / "b.npz")).setup()


def test_a_few_images_have_no_test_part_but_classes(tmp_path):
    path = write(tmp_path / "a.npz", images=np.zeros((5, 4, 4), np.uint8), labels=np.array([0, 1, 2, 1, 0]))
    assert Arrays(path).classes == 3
