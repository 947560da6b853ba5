"""Views of 32 x 32 images a CPU-second: ours, kornia's and Pillow's, taking turns in one process on one thread.

    python benchmarks/views.py [--root FOLDER_WITH_CIFAR10] [--images 2048] [--rounds 5]

Everybody does SimCLR's whole recipe: random resized crop, flip, color jitter in random order, gray, blur, normalize.
"""

import argparse
import random
import time
from collections.abc import Callable

import numpy as np
import torch

from rince._support.step_seeds import Draws, generator
from rince.views.image import CIFAR10_MEAN, CIFAR10_STD, Recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="folder with CIFAR-10; random pixels without it")
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    found = parser.parse_args()
    torch.set_num_threads(1)
    images = real_images(found.root, found.images)
    contestants = {"rince": ours(images), "kornia": kornia_views(images), "Pillow, one by one": pillow_views(images)}
    speeds: dict[str, list[float]] = {name: [] for name, run in contestants.items() if run is not None}
    for name in speeds:
        contestants[name]()  # warm up
    for _ in range(found.rounds):  # in turn, so that a busy machine is busy for all
        for name in speeds:
            start = time.process_time()
            contestants[name]()
            speeds[name].append(found.images / (time.process_time() - start))
    print("views of 32 x 32 images a CPU-second, median (least to most)")
    for name, values in speeds.items():
        print(f"  {name:<20} {np.median(values):7.0f}  ({min(values):.0f} to {max(values):.0f})")
    if "kornia" in speeds:
        ratios = [a / b for a, b in zip(speeds["rince"], speeds["kornia"], strict=True)]
        print(f"  rince / kornia       {np.median(ratios):7.2f}  ({min(ratios):.2f} to {max(ratios):.2f})")


def real_images(root: str | None, count: int) -> torch.Tensor:
    if root is None:
        return torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8, generator=generator(0))
    from rince.data.images import CIFAR10

    return CIFAR10(root).split("train")[0][:count]


def ours(images: torch.Tensor) -> Callable[[], object]:
    recipe = Recipe(size=32)
    return lambda: [recipe(part, Draws(generator(1, i), len(part))) for i, part in enumerate(images.split(256))]


def kornia_views(images: torch.Tensor) -> Callable[[], object] | None:
    try:
        import kornia.augmentation as K
    except ImportError:
        print("kornia is not installed: pip install kornia to compare")
        return None
    chain = K.AugmentationSequential(
        K.RandomResizedCrop((32, 32), scale=(0.08, 1.0)),
        K.RandomHorizontalFlip(p=0.5),
        K.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        K.RandomGrayscale(p=0.2),
        K.RandomGaussianBlur((3, 3), (0.1, 2.0), p=0.5),
        K.Normalize(torch.tensor(CIFAR10_MEAN), torch.tensor(CIFAR10_STD)),
        data_keys=["input"],
    )
    return lambda: [chain(part.float() / 255) for part in images.split(256)]


def pillow_views(images: torch.Tensor) -> Callable[[], object]:
    from PIL import Image, ImageEnhance, ImageFilter

    from rince.data.image_folder import crop_box

    pictures = [Image.fromarray(image) for image in images.permute(0, 2, 3, 1).numpy()[:512]]
    boxes = np.random.default_rng(0)
    mean, std = np.array(CIFAR10_MEAN, np.float32), np.array(CIFAR10_STD, np.float32)

    def hue(image: Image.Image) -> Image.Image:
        h, s, v = image.convert("HSV").split()
        shift = np.uint8(random.uniform(-0.1, 0.1) * 255 % 256)
        return Image.merge("HSV", (Image.fromarray(np.asarray(h) + shift), s, v)).convert("RGB")

    def view(image: Image.Image) -> np.ndarray:
        image = image.resize((32, 32), 2, crop_box(boxes, 32, 32, (0.08, 1.0), (3 / 4, 4 / 3)))
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if random.random() < 0.8:
            steps = [
                lambda x: ImageEnhance.Brightness(x).enhance(random.uniform(0.6, 1.4)),
                lambda x: ImageEnhance.Contrast(x).enhance(random.uniform(0.6, 1.4)),
                lambda x: ImageEnhance.Color(x).enhance(random.uniform(0.6, 1.4)),
                hue,
            ]
            random.shuffle(steps)
            for step in steps:
                image = step(image)
        if random.random() < 0.2:
            image = image.convert("L").convert("RGB")
        if random.random() < 0.5:
            image = image.filter(ImageFilter.GaussianBlur(random.uniform(0.1, 2.0)))
        return (np.asarray(image, np.float32) / 255 - mean) / std

    return lambda: [np.stack([view(picture) for picture in pictures]) for _ in range(len(images) // len(pictures))]


if __name__ == "__main__":
    main()
