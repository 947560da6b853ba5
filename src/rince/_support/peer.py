"""Importing a peer, and what to install where it is missing."""

import importlib
from types import ModuleType


def peer(module: str, package: str) -> ModuleType:
    """Import a module of a peer, or say in one sentence what brings it.

    Args:
        module: What to import.
        package: What pip installs it by.

    Raises:
        ImportError: Where it is missing, or cannot be imported itself.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing == module.split(".")[0]:
            raise ImportError(f"this needs {package}: run pip install {package}") from error
        raise ImportError(f"{module} needs {missing}, which is missing: run pip install {missing}") from error
    except (ImportError, OSError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ImportError(f"{module} is installed but cannot be imported: {reason}") from error
