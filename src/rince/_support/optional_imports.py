"""Import of optional dependencies, with errors that name the command to install them."""

import importlib
from types import ModuleType

from rince.errors import MissingExtra

EXTRAS = {  # package: extra of rince
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
    """Import ``module``. The error names the extra of rince to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(_sentence(module, extra)) from error


def install_hint(module: str) -> str | None:
    """Sentence with the extra of rince to install for a module; None if no extra has it."""
    extra = EXTRAS.get(module.split(".")[0])
    return None if extra is None else _sentence(module, extra)


def _sentence(module: str, extra: str) -> str:
    return f"this needs {module.split('.')[0]}: run pip install 'rince[{extra}]'"


def import_library(module: str, package: str) -> ModuleType:
    """Import a module of a third-party library. The error names the package to install.

    Args:
        module: Module to import.
        package: Name of its package for pip.

    Raises:
        MissingExtra: If it is missing or cannot be imported.
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
