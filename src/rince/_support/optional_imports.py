"""Optional dependencies: import them where they are used, and say what to install where they are missing."""

import importlib
from types import ModuleType

from rince.errors import MissingExtra

EXTRAS = {  # package: the extra of rince that brings it
    "lightning": "train",
    "jsonargparse": "train",
    "yaml": "train",
    "sklearn": "train",
    "scipy": "train",
    "joblib": "train",
    "matplotlib": "train",
    "PIL": "train",
    "safetensors": "train",
    "tqdm": "train",
    "torch_geometric": "graph",
    "av": "video",
    "pyarrow": "audit",
    "dask": "cluster",
    "distributed": "cluster",
    "fsspec": "cluster",
    "sentence_transformers": "text",
}


def require(module: str, extra: str) -> ModuleType:
    """Import ``module``, or say in one sentence which extra of rince brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(_sentence(module, extra)) from error


def install_hint(module: str) -> str | None:
    """What to install where ``module`` is missing; None for a package that no extra of rince brings."""
    extra = EXTRAS.get(module.split(".")[0])
    return None if extra is None else _sentence(module, extra)


def _sentence(module: str, extra: str) -> str:
    return f"this needs {module.split('.')[0]}: run pip install 'rince[{extra}]'"


def peer(module: str, package: str) -> ModuleType:
    """Import a module of a peer, or say in one sentence what brings it.

    Args:
        module: What to import.
        package: What pip installs it by.

    Raises:
        MissingExtra: Where it is missing, or cannot be imported itself.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing == module.split(".")[0]:
            raise MissingExtra(f"this needs {package}: run pip install {package}") from error
        raise MissingExtra(f"{module} needs {missing}, which is missing: run pip install {missing}") from error
    except (ImportError, OSError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise MissingExtra(f"{module} is installed but cannot be imported: {reason}") from error
