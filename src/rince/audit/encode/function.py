"""Any function as an encoder: ``module:function``."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince.audit.encode.encoder import Encoder, file_stamp
from rince.errors import UsageError


class Function(Encoder):
    """A function from a list of items to an array (items, width); a class is built once, without arguments, and called.

    Args:
        spec: ``module:function``; modules are found as Python finds them, and in the current folder.
    """

    comparable = True

    def __init__(self, spec: str):
        self.spec, self.name = spec, spec
        self._function = imported(spec)

    def identity(self) -> str:
        try:
            file = inspect.getsourcefile(inspect.unwrap(self._function))
        except TypeError:
            file = inspect.getsourcefile(type(self._function))
        return f"function {self.spec} {file_stamp(Path(file)) if file else ''}"

    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        found = self._function(list(items))
        rows = np.asarray(found.detach().cpu() if hasattr(found, "detach") else found)
        if rows.ndim != 2 or len(rows) != len(items) or rows.dtype.kind not in "fiub":
            raise UsageError(
                f"{self.spec} must return numbers of shape (items, width): for {len(items)} items it returned "
                f"{rows.dtype} of shape {rows.shape}"
            )
        return rows.astype(np.float32)


def imported(spec: str) -> Callable[[Any], Any]:
    """The function (or an instance of the class) behind ``module:function``."""
    module, _, name = spec.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise UsageError(f"the encoder {spec!r} must read module:function, such as my_encoders:embed")
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # the module is there, and something is missing inside of it
        raise UsageError(f"there is no module {module} for the encoder {spec}") from error
    finally:
        sys.path.remove(here)
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"the module {module} has no {name}")
        found = getattr(found, part)
    found = found() if isinstance(found, type) else found
    if not callable(found):
        raise UsageError(f"{spec} must be a function of a list of items, got {type(found).__name__}")
    return found
