"""Videos that tell what they are: each hums a tone of its own, and grows louder and brighter with time."""

import csv
from types import SimpleNamespace

import numpy as np
import torch

from rince.data.video.videos import Videos
from support.video.films import film

COUNT = 12


def tone_of(number):
    return 500 + 250 * number


def hum(number):
    """A tone that tells the video, louder and louder, so that it tells the moment too."""
    return lambda t: (0.1 + 0.2 * t) * np.sin(2 * np.pi * tone_of(number) * t)


def fade(number):
    """Gray that tells the moment."""

    def picture(i, t):
        array = np.zeros((36, 48, 3), dtype=np.uint8)
        array[:] = 40 + 50 * t
        return array

    return picture


def videos(root, **options):
    return Videos(str(root), **{"size": 16, "batch_size": 4, "workers": 0, "num_frames": 4, **options})


def equal(first, second):
    tensors = zip(first, second, strict=True)
    return all(torch.equal(a, b) for a, b in tensors if isinstance(a, torch.Tensor))


def trainer(seen=0, rank=0, processes=1):
    method = SimpleNamespace(batches_seen=lambda: seen)
    return SimpleNamespace(lightning_module=method, global_rank=rank, world_size=processes)


def heard(sound, rate=24000):
    """The number of the video whose tone is heard."""
    loudest = np.abs(np.fft.rfft(sound.numpy())).argmax() * rate / len(sound)
    return round((loudest - 500) / 250)


def moment(sound):
    """When the middle of a sound was, from how loud it is."""
    return (float(sound[24000 - 600 : 24000 + 600].square().mean().sqrt()) * 2**0.5 - 0.1) / 0.2


def number(data, item, part="train"):
    return int(data.videos(part).paths[item].rsplit("/", 1)[-1][:2])


def damage(root):
    """Break a truncated, an empty, a text, a sound-only, a mute and a short file into the training part."""
    files = sorted((root / "train").rglob("*.mp4"))
    content = files[0].read_bytes()
    files[0].write_bytes(content[: len(content) // 2])
    files[1].write_bytes(b"")
    files[2].write_text("not a video")
    film(files[3], video=None)
    film(files[4], audio=None)
    return {str(path): path for path in files[:5]}


def read_table(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))
