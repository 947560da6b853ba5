"""Which encoder is meant."""

import re
from pathlib import Path

from rince.audit.encode.encoder import Encoder
from rince.audit.input.raw import Kind
from rince.errors import MissingFile, UsageError

BUILT_IN = {"ngrams": "texts", "patches": "pictures", "spectrogram": "sounds"}


def encoder_for(kind: Kind, spec: str | None = None, seed: int = 0) -> Encoder:
    """The encoder for a column.

    Args:
        kind: What the column holds.
        spec: ``"ngrams"``, ``"patches"`` or ``"spectrogram"`` (the defaults by kind), an ``encoder.safetensors`` of
            rince, an .onnx file, ``module:function``, or the name or folder of a sentence-transformers model.
        seed: For what is random in encoders that learn from the items.

    Returns:
        The encoder.

    Raises:
        UsageError: There is no such encoder, or it does not take this kind.

    Example:
        >>> encoder_for("texts").name
        'hashed n-grams'
    """
    spec = spec or next((name for name, for_kind in BUILT_IN.items() if for_kind == kind), None)
    if spec is None:
        raise UsageError("videos have no encoder of their own: give module:function, which gets their paths")
    if spec in BUILT_IN:
        _check(kind, BUILT_IN[spec], spec)
        return _built_in(spec, seed)
    ending = Path(spec).suffix.lower()
    if ending == ".onnx" or ending == ".safetensors" or (Path(spec) / "encoder.safetensors").is_file():
        _check(kind, "pictures", spec)
        if not Path(spec).exists():
            raise MissingFile(f"there is no file {spec}")
        return _from_file(Path(spec), ending)
    if re.fullmatch(r"[\w.]+:[\w.]+", spec):
        from rince.audit.encode.function import Function

        return Function(spec)
    if kind not in ("texts", "pictures"):
        raise UsageError(f"a sentence-transformers model takes texts or pictures, not {kind}: {spec}")
    from rince.audit.encode.text import SentenceModel

    return SentenceModel(spec)


def _check(kind: Kind, wanted: str, spec: str) -> None:
    if kind != wanted:
        raise UsageError(f"the encoder {spec} takes {wanted}, but the column holds {kind}")


def _built_in(spec: str, seed: int) -> Encoder:
    if spec == "ngrams":
        from rince.audit.encode.text import NGrams

        return NGrams(seed=seed)
    if spec == "patches":
        from rince.audit.encode.picture import Patches

        return Patches(seed)
    from rince.audit.encode.sound import Spectrogram

    return Spectrogram()


def _from_file(path: Path, ending: str) -> Encoder:
    if ending == ".onnx":
        from rince.audit.encode.onnx import Onnx

        return Onnx(path)
    from rince.audit.encode.picture import Exported

    return Exported(path if path.is_file() else path / "encoder.safetensors")
