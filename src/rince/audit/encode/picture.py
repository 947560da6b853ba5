"""Pictures: random whitened patches without a model, or an encoder exported by rince."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince.audit.encode.encoder import Encoder, file_stamp
from rince.errors import UsageError

SIDE = 32
WIDTH = 256
LARGEST = 4096  # pixels of a side, whatever a file says


class Patches(Encoder):
    """The patch stem on pictures of 32 x 32: what patches look like in terms of other patches of the same pictures.

    No model and no download; towers are fitted on top.
    """

    name = "a patch stem"
    learns = True

    def __init__(self, seed: int = 0):
        self.seed = seed

    def identity(self) -> str:
        return f"patches 1 {SIDE} {WIDTH} {self.seed}"

    def learn(self, sample: Sequence[Any]) -> None:
        from rince.encoders.patch_stem import PatchStem

        pictures = pixels(sample, SIDE)
        self._stem = PatchStem(min(WIDTH, len(sample) // 2, 2000 // 2)).fit(pictures, self.seed)

    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        return self._stem(pixels(items, SIDE)).numpy()


class Exported(Encoder):
    """An encoder of pictures written by ``rince export`` (or the ``encoder.safetensors`` of a run).

    The file says how inputs were normalised and how large they were.
    """

    comparable = True
    batch = 64

    def __init__(self, path: Path):
        from rince.encoders.files import load_encoder

        self.path, self.name = path, path.name
        self._network = load_encoder(path)
        facts: Any = getattr(self._network, "about", {}) or {}
        self._facts: dict[str, Any] = facts.get("normalise") or {}
        if not isinstance(self._facts, dict):
            raise UsageError(f"{path} does not say how its pictures were normalised: export it again")
        if "a" in self._facts or "sample_rate" in self._facts:
            raise UsageError(f"{path} is no encoder of single pictures: wrap it in a function and give module:function")
        self._side = self._checked_side()
        self._mean, self._std = (self._numbers(name, plain) for name, plain in (("mean", 0.0), ("std", 1.0)))

    def identity(self) -> str:
        return f"exported {file_stamp(self.path)}"

    @torch.no_grad()
    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        x = pixels(items, self._side).float() / 255
        if self._mean.numel() == 1:
            x = x.mean(1, keepdim=True) if self._grey() else x
        return self._network((x - self._mean) / self._std).flatten(1).float().numpy()

    def _checked_side(self) -> int:
        size = self._facts.get("size") or SIDE
        side = size[-1] if isinstance(size, list) else size
        if not isinstance(side, (int, float)) or not 1 <= side <= LARGEST:
            raise UsageError(f"{self.path} was trained on pictures of {str(size)[:80]}, not of 1 to {LARGEST} pixels")
        return int(side)

    def _numbers(self, name: str, plain: float) -> Tensor:
        value = self._facts.get(name, plain)
        numbers = value if isinstance(value, list) else [value]
        if len(numbers) not in (1, 3) or not all(isinstance(each, (int, float)) for each in numbers):
            raise UsageError(f"{self.path} says that its {name} is {str(value)[:80]}, not one number or three")
        return torch.tensor(numbers, dtype=torch.float32).reshape(-1, 1, 1)

    def _grey(self) -> bool:
        first = next((weight for weight in self._network.parameters() if weight.ndim == 4), None)
        return first is not None and first.shape[1] == 1


def pixels(pictures: Sequence[Any], side: int) -> Tensor:
    """Pictures of Pillow as bytes (n, 3, side, side); other shapes are squeezed, so that nothing is cut off."""
    small = [np.asarray(picture.convert("RGB").resize((side, side))) for picture in pictures]
    return torch.from_numpy(np.stack(small)).permute(0, 3, 1, 2).contiguous()
