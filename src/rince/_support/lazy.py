"""Public names of a package that are imported on first use, so that importing the package is cheap."""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], dict[str, str]]:
    """``__getattr__`` and ``__dir__`` of a package, and the module that defines each of its public names.

    The names are those that the package imports under ``if TYPE_CHECKING``.

    Args:
        package: ``__name__`` of the package.
        file: ``__file__`` of the package.
    """
    statements = ast.parse(Path(file).read_text(encoding="utf-8")).body
    block = next(node for node in statements if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.asname or alias.name: (str(node.module), alias.name) for node in imports for alias in node.names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = homes[name]
        if module == package:  # a package within this one
            return importlib.import_module(f"{package}.{attribute}")
        value = getattr(importlib.import_module(module), attribute)
        setattr(sys.modules[package], name, value)
        return value

    relative = {name: module.removeprefix(f"{package}.") for name, (module, _) in homes.items()}
    return find, lambda: sorted({*vars(sys.modules[package]), *homes}), relative
