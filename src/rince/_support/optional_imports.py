"""Optional dependencies: import them where they are used, and say what to install where they are missing."""

import importlib
from types import ModuleType


def require(module: str, extra: str) -> ModuleType:
    """Import ``module``, or say in one sentence which extra of rince brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"this needs {module.split('.')[0]}: run pip install 'rince[{extra}]'") from error
