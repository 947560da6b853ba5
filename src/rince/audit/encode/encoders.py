"""Encoders of raw items: from texts, images and audio to rows of numbers.

``encoder_for`` chooses one. ``NGrams``, ``Patches`` and ``Spectrogram`` need no model; ``SentenceModel``, ``Exported``,
``Onnx`` and ``Function`` wrap one.
"""

import hashlib
import importlib
import inspect
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.errors import MissingFile, UsageError
from rince.pairs.raw import Kind

if TYPE_CHECKING:
    from torch import Tensor

SAMPLE_RATE = 16_000
"""Samples per second of the audio that encoders get."""


class Encoder(ABC):
    """Turns decoded items into rows of numbers.

    Items are texts, images (Pillow, RGB), audio (mono float32 arrays at 16 kHz) or paths of videos.

    Attributes:
        name: Name in the summary.
        built_in: Whether it is one of rince's own, which needs no model and sees one side of the pairs only. Default:
            False.
        comparable: Whether both sides encoded by it lie in one space, so that their cosine is meaningful. If not, a
            common space is fitted (``fit=True``). Default: False.
        learns: Whether ``learn`` must see a sample before ``encode`` is called. Default: False.
        batch: Items per call of ``encode``. Default: 256.

    Example:
        >>> from rince.audit.encode import Encoder
        >>> class Lengths(Encoder):
        ...     name = "lengths of texts"
        ...
        ...     def encode(self, items):
        ...         return np.array([[len(text), text.count(" ")] for text in items], np.float32)
        ...
        ...     def identity(self):
        ...         return "lengths 1"
        >>> Lengths().encode(["a b", "abcd"]).tolist()
        [[3.0, 1.0], [4.0, 0.0]]
    """

    name: str
    built_in: bool = False
    comparable: bool = False
    learns: bool = False
    batch: int = 256

    def learn(self, sample: Sequence[Any]) -> None:  # noqa: B027 (optional)
        """Fit the encoder to a sample of the items. Called if ``learns`` is set."""

    def sample(self, items: Sequence[Any]) -> list[Any]:
        """Items as ``learn`` takes them, reduced to what it needs, so that many fit into memory. Default: unchanged."""
        return list(items)

    @abstractmethod
    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        """Items as rows (items, width)."""

    @abstractmethod
    def identity(self) -> str:
        """Everything besides the items that the rows depend on; part of the cache key."""


BUILT_IN: dict[str, Kind] = {"ngrams": "texts", "patches": "pictures", "spectrogram": "sounds"}


def encoder_for(kind: Kind, spec: str | None = None, seed: int = 0) -> Encoder:
    """The encoder for a column.

    Args:
        kind: What the column holds: ``"texts"``, ``"pictures"``, ``"sounds"`` or ``"videos"``.
        spec: ``"ngrams"``, ``"patches"`` or ``"spectrogram"`` (the defaults by kind), an ``encoder.safetensors`` of
            rince, an .onnx file, ``module:function``, or the name or folder of a sentence-transformers model.
        seed: Seed of encoders that learn from the items. Default: 0.

    Returns:
        An encoder that takes this kind of items.

    Raises:
        UsageError: The encoder does not exist, or does not take this kind.

    Example:
        >>> encoder_for("texts").name
        'hashed n-grams'
    """
    spec = spec or next((name for name, for_kind in BUILT_IN.items() if for_kind == kind), None)
    if spec is None:
        raise UsageError("videos have no built-in encoder: give module:function, which receives their paths")
    path = Path(spec)
    is_run = (path / "encoder.safetensors").is_file()
    takes: tuple[str, ...] = ("texts", "pictures")  # of a sentence-transformers model
    if spec in BUILT_IN:
        takes = (BUILT_IN[spec],)
    elif path.suffix.lower() in (".onnx", ".safetensors") or is_run:
        takes = ("pictures",)
    elif re.fullmatch(r"[^\W\d][\w.]*:[\w.]+", spec):
        return Function(spec)
    if kind not in takes:
        raise UsageError(f"the encoder {spec} takes {' or '.join(takes)}, but the column holds {kind}")
    if spec == "ngrams":
        return NGrams(seed=seed)
    if spec == "patches":
        return Patches(seed)
    if spec == "spectrogram":
        return Spectrogram()
    if path.suffix.lower() in (".onnx", ".safetensors") and not path.exists():
        raise MissingFile(f"{spec} does not exist")
    if path.suffix.lower() == ".onnx":
        return Onnx(path)
    if path.suffix.lower() == ".safetensors" or is_run:
        return Exported(path / "encoder.safetensors" if is_run else path)
    return SentenceModel(spec)


# --- texts ------------------------------------------------------------------------------------------------------------

NGRAM_WIDTH = 128
NGRAM_HASHES = 2**16
MAX_CHARACTERS = 20_000  # of a text


class NGrams(Encoder):
    """Words, word pairs and character n-grams: hashed, weighted by rarity, and reduced by a truncated SVD.

    Needs no model. It does not capture meaning, so a common space is fitted on top; with a few thousand pairs
    it learns which words go together, also across languages.
    """

    name = "hashed n-grams"
    built_in = True
    learns = True
    batch = 2048

    def __init__(self, width: int = NGRAM_WIDTH, seed: int = 0):
        self.width, self.seed = width, seed

    def identity(self) -> str:
        return f"ngrams 1 {self.width} {self.seed}"

    def learn(self, sample: Sequence[str]) -> None:
        decomposition = require("sklearn.decomposition", "audit")
        text = require("sklearn.feature_extraction.text", "audit")
        common = {"n_features": NGRAM_HASHES, "alternate_sign": False, "norm": None, "dtype": np.float32}
        self._vectorizers = [
            text.HashingVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", **common),
            text.HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), **common),
        ]
        counts = self._counts(sample)
        # Words and characters are weighted apart: the many character n-grams would outweigh the words.
        self._weights = [text.TfidfTransformer(sublinear_tf=True).fit(count) for count in counts]
        # An n-gram that occurs once carries no information on other texts, and the cost of the SVD grows with columns.
        self._columns = [np.flatnonzero(count.getnnz(0) > 1) for count in counts]
        rows = self._weighted(counts)
        width = min(self.width, len(sample) - 1, rows.shape[1] - 1)
        if width < 1 or not rows.nnz:
            raise UsageError(f"{len(sample)} texts with {rows.nnz} n-grams are too few for {self.name}")
        with np.errstate(divide="ignore", invalid="ignore"):  # of equal texts, which have no variance
            self._svd = decomposition.TruncatedSVD(width, n_iter=3, random_state=self.seed).fit(rows)

    def encode(self, items: Sequence[str]) -> NDArray[np.float32]:
        return self._svd.transform(self._weighted(self._counts(items))).astype(np.float32)

    def _counts(self, texts: Sequence[str]) -> list[Any]:
        cut = [text[:MAX_CHARACTERS] for text in texts]
        return [vectorizer.transform(cut) for vectorizer in self._vectorizers]

    def _weighted(self, counts: list[Any]) -> Any:
        sparse = require("scipy.sparse", "audit")
        parts = zip(self._weights, counts, self._columns, strict=True)
        return sparse.hstack([weight.transform(count).tocsc()[:, columns] for weight, count, columns in parts]).tocsr()


class SentenceModel(Encoder):
    """A sentence-transformers model for texts and, if the model takes them, images.

    Args:
        model: Name of a model (downloaded if needed) or folder.
    """

    comparable = True
    batch = 1024

    def __init__(self, model: str):
        self.model, self.name = model, f"the model {model}"
        self._loaded: Any = None

    def identity(self) -> str:
        path = Path(self.model)
        return f"sentence-transformers {self.model} {_file_stamp(path) if path.exists() else ''}"

    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        if self._loaded is None:
            transformers = require("sentence_transformers", "text")
            try:
                self._loaded = transformers.SentenceTransformer(self.model)
            except (OSError, ValueError) as error:
                why = " ".join(str(error).split())
                raise UsageError(
                    f"there is no encoder {self.model!r}: give the name or folder of a sentence-transformers model, a "
                    f".safetensors or .onnx file, module:function, or one of {', '.join(BUILT_IN)} ({why:.120})"
                ) from error
        return np.asarray(self._loaded.encode(list(items), batch_size=64, show_progress_bar=False), dtype=np.float32)


# --- images -----------------------------------------------------------------------------------------------------------

PATCH_SIDE = 32
PATCH_WIDTH = 256
MAX_SIDE = 4096  # pixels
ONNX_SIDE = 224  # of a network without a fixed input size
IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
IMAGENET_STD = np.array([0.229, 0.224, 0.225], np.float32)


def pixels(images: Sequence[Any], side: int) -> "Tensor":
    """Pillow images as bytes (n, 3, side, side); the aspect ratio is not kept, so that nothing is cut off."""
    import torch

    small = [np.asarray(image.convert("RGB").resize((side, side))) for image in images]
    return torch.from_numpy(np.stack(small)).permute(0, 3, 1, 2).contiguous()


class Patches(Encoder):
    """Whitened random patches of the images themselves as convolution filters, on 32 x 32 pixels.

    Needs no model; a common space is fitted on top.
    """

    name = "random patches of the images"
    built_in = True
    learns = True

    def __init__(self, seed: int = 0):
        self.seed = seed

    def identity(self) -> str:
        return f"patches 1 {PATCH_SIDE} {PATCH_WIDTH} {self.seed}"

    def sample(self, items: Sequence[Any]) -> list[Any]:
        return [image.convert("RGB").resize((PATCH_SIDE, PATCH_SIDE)) for image in items]

    def learn(self, sample: Sequence[Any]) -> None:
        from rince.encoders.images import PatchStem

        width = min(PATCH_WIDTH, len(sample) // 2)
        self._stem = PatchStem(width).fit(pixels(sample, PATCH_SIDE), self.seed)

    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        return self._stem(pixels(items, PATCH_SIDE)).numpy()


class Exported(Encoder):
    """An image encoder written by ``rince export``, or the ``encoder.safetensors`` of a run.

    The file says how the training images were normalized and how large they were.
    """

    comparable = True
    batch = 64

    def __init__(self, path: Path):
        import torch

        from rince.encoders.files import load_encoder

        self.path, self.name = path, path.name
        self._network = load_encoder(path)
        metadata: Any = getattr(self._network, "about", {}) or {}
        normalize: Any = metadata.get("normalize") or {}
        if not isinstance(normalize, dict):
            raise UsageError(f"{path} does not say how its images were normalized: export it again")
        if "a" in normalize or "sample_rate" in normalize:
            raise UsageError(f"{path} is not an encoder of single images: wrap it in a function, as module:function")
        size = normalize.get("size") or PATCH_SIDE
        side = size[-1] if isinstance(size, list) else size
        if not isinstance(side, (int, float)) or not 1 <= side <= MAX_SIDE:
            raise UsageError(f"{path} has the image size {str(size)[:80]}: it must be from 1 to {MAX_SIDE}")
        self._side = int(side)

        def channels(name: str, default: float) -> "Tensor":
            value = normalize.get(name, default)
            values = value if isinstance(value, list) else [value]
            if len(values) not in (1, 3) or not all(isinstance(x, (int, float)) for x in values):
                raise UsageError(f"{path} has the {name} {str(value)[:80]}: it must be one number or three")
            return torch.tensor(values, dtype=torch.float32).reshape(-1, 1, 1)

        self._mean, self._std = channels("mean", 0.0), channels("std", 1.0)
        first = next((weight for weight in self._network.parameters() if weight.ndim == 4), None)
        self._gray = self._mean.numel() == 1 and first is not None and first.shape[1] == 1

    def identity(self) -> str:
        return f"exported {_file_stamp(self.path)}"

    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        import torch

        with torch.no_grad():
            x = pixels(items, self._side).float() / 255
            x = x.mean(1, keepdim=True) if self._gray else x
            return self._network((x - self._mean) / self._std).flatten(1).float().numpy()


class Onnx(Encoder):
    """An ONNX network with one image input, (n, 3, side, side) or (n, side, side, 3), floats or bytes.

    Floats are normalized by the mean and standard deviation of ImageNet; wrap a network that expects something else in
    a function (``module:function``). The rows are the first output, averaged over its positions.
    """

    comparable = True
    batch = 32

    def __init__(self, path: Path):
        self.path, self.name = path, path.name
        runtime = require("onnxruntime", "onnx")
        try:
            self._session = runtime.InferenceSession(str(path), providers=runtime.get_available_providers())
        except Exception as error:  # its errors have no common class
            raise UsageError(f"onnxruntime cannot run {path}: {' '.join(str(error).split())}") from error
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            shapes = ", ".join(str(value.shape) for value in inputs)
            raise UsageError(f"{path} must have one image input (n, 3, side, side), it has {shapes}")
        self._input = inputs[0]
        self._channels_last = self._input.shape[3] == 3
        side = self._input.shape[1 if self._channels_last else 2]
        self._side = side if isinstance(side, int) else ONNX_SIDE
        self._fixed = self._input.shape[0] if isinstance(self._input.shape[0], int) else None

    def identity(self) -> str:
        return f"onnx 1 {_file_stamp(self.path)}"

    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        x: NDArray[Any] = pixels(items, self._side).permute(0, 2, 3, 1).numpy()
        if "uint8" not in self._input.type:
            x = (x.astype(np.float32) / 255 - IMAGENET_MEAN) / IMAGENET_STD
        x = x if self._channels_last else x.transpose(0, 3, 1, 2)
        x = x.astype(np.float16) if "float16" in self._input.type else x
        size, rows = self._fixed or len(x), []
        for start in range(0, len(x), size):
            part = x[start : start + size]
            full = np.concatenate([part, np.repeat(part[-1:], size - len(part), 0)])  # a fixed batch size is padded
            output = self._session.run(None, {self._input.name: np.ascontiguousarray(full)})[0][: len(part)]
            rows.append(output.reshape(*output.shape[:2], -1).mean(2).astype(np.float32))
        return np.concatenate(rows)


# --- audio ------------------------------------------------------------------------------------------------------------

WINDOW, HOP, BANDS, PARTS = 512, 160, 40, 8
DYNAMIC_RANGE = 80.0  # decibels
SILENCE = 0.05  # of the largest amplitude; what is below it at either end is cut off


class Spectrogram(Encoder):
    """Statistics of the log-mel spectrogram: 40 bands x (means of 8 parts, standard deviation, mean change).

    In decibels below the loudest point, at most 80, so the volume does not matter. Silence at either end is cut off, so
    the parts are those of what is heard. A common space is fitted on top.
    """

    name = "spectrogram statistics"
    built_in = True
    batch = 64

    def identity(self) -> str:
        return f"spectrogram 2 {WINDOW} {HOP} {BANDS} {PARTS}"

    def encode(self, items: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        import torch

        filters = mel_filters()
        rows = []
        for samples in items:
            loud = np.flatnonzero(np.abs(samples) > SILENCE * np.abs(samples).max(initial=0))
            audio = torch.from_numpy(samples[loud[0] : loud[-1] + 1] if len(loud) else samples)
            shortest = WINDOW + HOP * (PARTS - 1)  # one frame per part
            audio = torch.nn.functional.pad(audio, (0, max(0, shortest - len(audio))))
            window = torch.hann_window(WINDOW)
            spectrum = torch.stft(audio, WINDOW, HOP, window=window, center=False, return_complex=True)
            decibels = 10 * (filters @ spectrum.abs().square()).clamp_min(1e-10).log10()
            decibels = (decibels - decibels.max()).clamp_min(-DYNAMIC_RANGE) / DYNAMIC_RANGE
            parts = torch.nn.functional.adaptive_avg_pool1d(decibels[None], PARTS)[0]
            rows.append(torch.cat([parts.flatten(), decibels.std(1), decibels.diff(dim=1).abs().mean(1)]))
        return torch.stack(rows).numpy()


def mel_filters() -> "Tensor":
    """Triangles, evenly spaced on the mel scale: (bands, window / 2 + 1)."""
    import torch

    highest = 2595 * np.log10(1 + SAMPLE_RATE / 2 / 700)
    centers = 700 * (10 ** (torch.linspace(0, float(highest), BANDS + 2) / 2595) - 1)
    frequency = torch.linspace(0, SAMPLE_RATE / 2, WINDOW // 2 + 1)
    left, middle, right = centers[:-2, None], centers[1:-1, None], centers[2:, None]
    return torch.minimum((frequency - left) / (middle - left), (right - frequency) / (right - middle)).clamp_min(0)


# --- functions --------------------------------------------------------------------------------------------------------


class Function(Encoder):
    """A function from a list of items to an array (items, width), or a class whose instances are such functions.

    Args:
        spec: ``module:function``, found on the Python path or in the current folder.
    """

    comparable = True

    def __init__(self, spec: str):
        self.spec, self.name = spec, spec
        self._function = _imported(spec)

    def identity(self) -> str:
        try:
            file = inspect.getsourcefile(inspect.unwrap(self._function))
        except TypeError:
            file = inspect.getsourcefile(type(self._function))
        return f"function {self.spec} {_file_stamp(Path(file)) if file else ''}"

    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        output: Any = self._function(list(items))
        rows = np.asarray(output.detach().cpu() if hasattr(output, "detach") else output)
        if rows.ndim != 2 or len(rows) != len(items) or rows.dtype.kind not in "fiub":
            raise UsageError(
                f"{self.spec} must return numbers of shape (items, width): for {len(items)} items it returned "
                f"{rows.dtype} of shape {rows.shape}"
            )
        return rows.astype(np.float32)


def _imported(spec: str) -> Callable[[Any], Any]:
    """The function, or an instance of the class, behind ``module:function``."""
    module, _, name = spec.partition(":")
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        target: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # the module exists, but one of its imports does not
        raise UsageError(f"the module {module} of the encoder {spec} does not exist") from error
    finally:
        sys.path.remove(folder)
    for part in name.split("."):
        if not hasattr(target, part):
            raise UsageError(f"the module {module} has no {name}")
        target = getattr(target, part)
    target = target() if isinstance(target, type) else target
    if not callable(target):
        raise UsageError(f"{spec} must be a function of a list of items, got {type(target).__name__}")
    return target


def _file_stamp(path: Path) -> str:
    """A text that changes when the file, or any file of the folder, changes."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    stamps = [f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    return hashlib.blake2b("\n".join(stamps).encode(), digest_size=8).hexdigest()
