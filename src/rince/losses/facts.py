"""What a loss is made of, as integers that processes can compare.

Compared is what rince itself knows, and of that numbers and texts: what a user adds may differ for reasons that only
the user knows, or hold an address.
"""

import dataclasses
import numbers
import zlib
from collections.abc import Iterable
from functools import partial
from typing import Any

from torch import Tensor, nn

from rince.losses.contrast.agreement import REDUCTIONS, Known, as_fact
from rince.losses.temperature import number_of

OWN_FACTS = {"temperature", "contrast", "reduction", "bias"}


def known_of(loss: Any, contrast: Any, weights: Tensor | None) -> Known:
    """What all processes must have the same of, for a call of a loss with that contrast."""
    kind, temperature = _class_of(loss), loss.temperature
    bias = loss.bias if "bias" in kind._checks else None
    facts = {
        "loss": _checksum(kind.__qualname__),
        "contrast": _checksum(_class_of(contrast).__qualname__),
        "settings_of_contrast": _checksum(_settings(contrast, getattr(_class_of(contrast), "_settings", ()))),
        "weights": int(weights is not None),
        "reduction": REDUCTIONS.index(loss.reduction),
        "temperature": as_fact(temperature),
        "learned_temperature": as_fact(number_of(temperature)) if isinstance(temperature, Tensor) else 0,
        "q": as_fact(getattr(loss, "q", None)),
        "bias": as_fact(number_of(bias)) if isinstance(bias, Tensor) else 0,
        "settings": _checksum(_objective_of(loss) + _settings(loss, set(kind._checks) - OWN_FACTS)),
    }
    of_loss, of_contrast = partial(_in_words, loss), partial(_in_words, contrast)
    words = {"loss": of_loss, "settings": of_loss, "contrast": of_contrast, "settings_of_contrast": of_contrast}
    return Known(facts, words)


def _class_of(part: Any) -> Any:
    """The nearest class of rince's: one that is derived from it may add what does not change the loss."""
    return next((kind for kind in type(part).__mro__ if kind.__module__.startswith("rince.")), object)


def _objective_of(loss: Any) -> str:
    function = loss._objective.function
    if isinstance(function, partial) and function.args:  # a function of two scores
        function = function.args[0]
    ours = str(getattr(function, "__module__", "")).startswith("rince.")
    return str(getattr(function, "__qualname__", "")) if ours else ""


def _settings(part: Any, names: Iterable[str]) -> str:
    return "; ".join(f"{name} {_in_text(getattr(part, name, None))}" for name in sorted(names))


def _in_text(value: Any) -> str:
    if isinstance(value, numbers.Real):
        return f"{float(value):.9g}"
    if isinstance(value, str):
        return value
    return repr(value) if dataclasses.is_dataclass(value) and _class_of(value) is type(value) else ""


def _checksum(text: str) -> int:
    return zlib.crc32(text.encode())


def _in_words(part: Any) -> str:
    inside = part.extra_repr() if isinstance(part, nn.Module) else ""
    return f"{type(part).__name__}({inside})"
