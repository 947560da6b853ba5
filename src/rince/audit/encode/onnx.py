"""Pictures through a network in an ONNX file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.audit.encode.encoder import Encoder, file_stamp
from rince.audit.encode.picture import pixels
from rince.errors import UsageError

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
FREE_SIDE = 224


class Onnx(Encoder):
    """A network with one input of pictures, (n, 3, side, side) or (n, side, side, 3), in floats or bytes.

    Floats are normalised by the mean and deviation of ImageNet, as most exported networks want it; for anything else
    wrap the network in a function and give ``module:function``. The first output counts; maps are averaged.
    """

    comparable = True
    batch = 32

    def __init__(self, path: Path):
        self.path, self.name = path, path.name
        runtime = require("onnxruntime", "onnx")
        try:
            self._session = runtime.InferenceSession(str(path), providers=runtime.get_available_providers())
        except Exception as error:  # its errors share no class of their own
            raise UsageError(
                f"{path} is no network that onnxruntime can run: {' '.join(str(error).split())}"
            ) from error
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            shapes = ", ".join(str(one.shape) for one in inputs)
            raise UsageError(f"{path} must have one input of pictures (n, 3, side, side), it has {shapes}")
        self._input = inputs[0]
        self._last = self._input.shape[3] == 3
        side = self._input.shape[1 if self._last else 2]
        self._side = side if isinstance(side, int) else FREE_SIDE
        self._fixed = self._input.shape[0] if isinstance(self._input.shape[0], int) else None

    def identity(self) -> str:
        return f"onnx 1 {file_stamp(self.path)}"

    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        x = pixels(items, self._side).permute(0, 2, 3, 1).numpy()
        if "uint8" not in self._input.type:
            x = (x.astype(np.float32) / 255 - MEAN) / STD
        x = x if self._last else x.transpose(0, 3, 1, 2)
        x = x.astype(np.float16) if "float16" in self._input.type else x
        step = self._fixed or len(x)
        return np.concatenate([self._run(x[start : start + step], step) for start in range(0, len(x), step)])

    def _run(self, x: NDArray[Any], step: int) -> NDArray[np.float32]:
        full = np.concatenate([x, np.repeat(x[-1:], step - len(x), 0)])  # a network may want so many at once
        found = self._session.run(None, {self._input.name: np.ascontiguousarray(full)})[0][: len(x)]
        return found.reshape(*found.shape[:2], -1).mean(2).astype(np.float32)
