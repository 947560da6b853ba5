"""Tiny data sets in the file layout of the real ones."""

import pickle

import numpy as np

from support.tones import write_digits

CLASSES = ("ApplyEyeMakeup", "Archery")


def imagenet(root, train=8, test=4):
    """``train/CLASS/*.JPEG`` and ``val/CLASS/*.JPEG`` of different sizes."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for part, count in (("train", train), ("val", test)):
        for label, name in enumerate(("n01440764", "n01443537")):
            folder = root / part / name
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = rng.integers(0, 128, (48 + i, 64 - i, 3)) + 100 * label
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{name}_{i}.JPEG")
    return root


def cifar10(root, per_batch=10):
    """``cifar-10-batches-py`` with its five training batches and its test batch."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        count = 20 if name == "test_batch" else per_batch
        batch = {
            b"data": rng.integers(0, 256, (count, 3072), dtype=np.uint8),
            b"labels": [i % 10 for i in range(count)],
        }
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    return root


def _film(path, seed, sound=True):
    from support.video.films import film

    path.parent.mkdir(parents=True, exist_ok=True)
    audio = ("aac" if path.suffix == ".mp4" else "pcm_s16le") if sound else None
    start = 0.1 * (seed % 8)
    video = "libx264" if path.suffix == ".mp4" else "mpeg4"
    film(path, seconds=2.2, fps=25, size=(48, 36), rate=24000, flash=(start, start + 0.5), video=video, audio=audio)


def kinetics400(root, train=6, test=2):
    """``train/CLASS/*.mp4`` and ``val/CLASS/*.mp4`` with sound."""
    for part, count in (("train", train), ("val", test)):
        for i in range(count):
            _film(root / part / CLASSES[i % 2] / f"{i}.mp4", i)
    return root


def acav100m(root, count=6):
    """Videos with sound and ``list.txt`` with one path per line."""
    for i in range(count):
        _film(root / f"{i}.mp4", i)
    (root / "list.txt").write_text("".join(f"{i}.mp4\n" for i in range(count)))
    return root


def ucf101(root, count=4):
    """``CLASS/v_*.avi``, most of them silent as in the original, and the official lists."""
    lists = root / "ucfTrainTestlist"
    lists.mkdir(parents=True)
    files = [f"{CLASSES[i % 2]}/v_{CLASSES[i % 2]}_g{i:02}_c01.avi" for i in range(2 * count)]
    for i, file in enumerate(files):
        _film(root / file, i, sound=i == 0)
    (lists / "classInd.txt").write_text("".join(f"{i + 1} {name}\n" for i, name in enumerate(CLASSES)))
    for split in (1, 2, 3):
        (lists / f"trainlist0{split}.txt").write_text(
            "".join(f"{file} {CLASSES.index(file.split('/')[0]) + 1}\n" for file in files[:count])
        )
        (lists / f"testlist0{split}.txt").write_text("".join(f"{file}\n" for file in files[count:]))
    return root


def hmdb51(root, count=4):
    """``CLASS/*.avi`` without sound, and the official lists with 1 for training, 2 for test."""
    lists = root / "testTrainMulti_7030_splits"
    lists.mkdir(parents=True)
    for name in ("brush_hair", "wave"):
        for i in range(count):
            _film(root / name / f"{name}_{i}.avi", i, sound=False)
        for split in (1, 2, 3):
            lines = "".join(f"{name}_{i}.avi {1 + i % 2} \n" for i in range(count))
            (lists / f"{name}_test_split{split}.txt").write_text(lines)
    return root


def tudataset(root, name, node_labels, graphs=40):
    """``NAME/NAME_A.txt`` and so on: paths and rings, whose nodes have labels if the data set has any."""
    folder = root / name
    folder.mkdir(parents=True)
    pairs, indicator, first = [], [], 1
    for i in range(graphs):
        nodes = 6 + i % 3
        ring = [(first + k, first + (k + 1) % nodes) for k in range(nodes - i % 2)]
        pairs += [*ring, *((v, u) for u, v in ring)]
        indicator += [i + 1] * nodes
        first += nodes
    (folder / f"{name}_A.txt").write_text("".join(f"{u}, {v}\n" for u, v in pairs))
    (folder / f"{name}_graph_indicator.txt").write_text("".join(f"{g}\n" for g in indicator))
    (folder / f"{name}_graph_labels.txt").write_text("".join(f"{i % 2}\n" for i in range(graphs)))
    if node_labels > 1:
        labels = "".join(f"{i % node_labels}\n" for i in range(len(indicator)))
        (folder / f"{name}_node_labels.txt").write_text(labels)
    return root


def spoken_digits(root, takes=24):
    """``digit_speaker_take.wav``; takes 0 to 4 are the test part, 5 to 9 validation."""
    root.parent.mkdir(parents=True, exist_ok=True)
    return write_digits(root, takes=takes)
