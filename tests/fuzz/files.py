"""Files of every format that the project reads, to be damaged."""

import gzip
import hashlib
import io
import json
import pickle
import tarfile
import wave
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import columns
import numpy as np
import torch

Read = Callable[[Path], object]


def formats(folder: Path) -> dict[str, tuple[bytes, Read]]:
    """Good content of every format, and what reads a file of it."""
    from PIL import Image
    from safetensors.torch import save_file

    from rince.data.graphs import tudataset
    from rince.data.image_folder import _decode
    from rince.data.images import load_harmless, read_npz
    from rince.data.pairs import PairedArrays
    from rince.data.spoken_digits import read_recordings
    from rince.data.video.clips import list_table
    from rince.encoders.files import load_encoder
    from rince.encoders.images import ConvNet
    from rince.train.checkpoints import read_checkpoint
    from rince.train.run_folder import read_yaml
    from rince.train.short_names import CONFIGS

    random_numbers = np.random.default_rng(0)
    pixels = random_numbers.integers(0, 256, (40, 8, 8), dtype=np.uint8)
    found: dict[str, tuple[bytes, Read]] = {}
    for name, save in (("npz", np.savez), ("compressed npz", np.savez_compressed)):
        buffer = io.BytesIO()
        save(buffer, images=pixels, labels=np.arange(40))
        found[name] = buffer.getvalue(), lambda path: read_npz(path)
    recipe = {"class_path": "rince.encoders.images.ConvNet", "init_args": {"channels": 1, "width": 2}}
    about = {"rince_encoder": json.dumps({"encoder": recipe, "about": {}})}
    save_file(ConvNet(1, 2).state_dict(), folder / "e", metadata=about)
    found["safetensors"] = (folder / "e").read_bytes(), lambda path: load_encoder(path)
    torch.save({"state_dict": {"x": torch.ones(9)}, "global_step": 1, "batches_seen": 1}, folder / "c")
    found["checkpoint"] = (folder / "c").read_bytes(), lambda path: read_checkpoint(path)
    found["yaml"] = (CONFIGS / "digits/simclr.yaml").read_bytes(), lambda path: read_yaml(path)
    for kind in ("png", "jpeg", "gif", "bmp", "tiff", "webp"):
        buffer = io.BytesIO()
        Image.fromarray(np.stack([pixels[0]] * 3, 2)).save(buffer, kind)
        found[kind] = buffer.getvalue(), lambda path: _decode([path], 0, False, lambda: [0])
    batch = {b"data": random_numbers.integers(0, 256, (5, 3072), dtype=np.uint8), b"labels": [1, 2, 3, 4, 5]}
    found["pickle"] = pickle.dumps(batch, 2), lambda path: load_harmless(path.read_bytes(), path.name)
    found["TU zip"] = _graphs(), lambda path: tudataset("X", path)
    found["zip of wav"] = _sounds(), lambda path: read_recordings(path)
    found["list of videos"] = (
        b"path,label,start\na.mp4,cat,1.5\nb.mp4,dog,\n",
        lambda path: list_table(path, path.parent),
    )
    found["CIFAR-10 tar"] = _archive(found["pickle"][0]), _read_archive
    found["result"] = b'{"run": "a", "steps": 3, "loss": 0.5}', _read_result
    pairs = io.BytesIO()
    np.savez(pairs, a=random_numbers.normal(size=(30, 3)), b=random_numbers.normal(size=(30, 4)), ids=np.arange(30))
    found["npz of pairs"] = pairs.getvalue(), lambda path: PairedArrays(str(path)).setup()
    return found | columns.formats(random_numbers) | _videos(folder)


def _videos(folder: Path) -> dict[str, tuple[bytes, Read]]:
    try:
        from support.video import films
    except ImportError:
        return {}
    from rince.data.video.decode import read_clip

    found = {}
    for ending in (".mp4", ".avi"):
        path = folder / f"film{ending}"
        films.film(path)

        def read(path: Path, ending: str = ending) -> object:
            video = path.rename(path.with_suffix(ending))
            return read_clip(video, 0.2)

        found[ending[1:]] = path.read_bytes(), read
    return found


def _graphs() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("X/X_A.txt", "1, 2\n2, 1\n3, 4\n4, 3\n")
        archive.writestr("X/X_graph_indicator.txt", "1\n1\n2\n2\n")
        archive.writestr("X/X_graph_labels.txt", "1\n-1\n")
        archive.writestr("X/X_node_labels.txt", "0\n1\n2\n0\n")
    return buffer.getvalue()


def _sounds() -> bytes:
    buffer, sound = io.BytesIO(), io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", "not compressed"))
        file.writeframes(bytes(range(200)) * 4)
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("7_jackson_1.wav", sound.getvalue())
    return buffer.getvalue()


def _archive(batch: bytes) -> bytes:
    """Of all batches of CIFAR-10 in little, as its tar.gz is laid out."""
    from rince.data.images import FOLDER, TEST, TRAIN

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:") as archive:
        for name in TRAIN + TEST:
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size = len(batch)
            archive.addfile(entry, io.BytesIO(batch))
    return buffer.getvalue()


def _read_archive(path: Path) -> object:
    """As CIFAR10 does, whose checksum would otherwise refuse every change before it is looked at."""
    from rince.data import images as cifar10

    content = path.read_bytes()
    if zlib.crc32(content) % 2:  # the archive is packed; the fuzzing of a packed one would end at its checksum
        content = gzip.compress(content, 1)
    cifar10.MD5 = hashlib.md5(content).hexdigest()
    path.with_name(cifar10.ARCHIVE).write_bytes(content)
    return cifar10.CIFAR10(str(path.parent), batch_size=2).setup()


def _read_result(path: Path) -> object:
    from rince.train.run_folder import RunFolder

    path.rename(path.with_name("result.json"))
    return RunFolder(path.parent).read_result()
