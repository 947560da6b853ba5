"""YAML files: read without running code, with one sentence about what is wrong with them."""

from pathlib import Path
from typing import Any

from rince._support.optional_imports import require
from rince.errors import MissingFile, UsageError

MAX_BYTES = 1 << 20
MAX_VALUES = 20_000  # with every alias counted as the values it stands for


def read_yaml(path: Path) -> dict[str, Any]:
    """Mapping in a file; an empty file is an empty mapping.

    Raises:
        UsageError: If the file is missing, is not YAML, is not a mapping, or sets a name twice.
    """
    yaml = require("yaml", "train")
    if not path.is_file():
        raise MissingFile(f"there is no file {path}")
    if path.stat().st_size > MAX_BYTES:
        raise UsageError(f"{path} has {path.stat().st_size} bytes, a configuration has at most {MAX_BYTES}")
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None and _check(root, path, {}) > MAX_VALUES:
            raise UsageError(f"{path} has more than {MAX_VALUES} values: its aliases multiply, or refer to themselves")
        values = yaml.safe_load(text)
    except UsageError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" in line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{path} is not valid YAML: {error.problem or error.context}{place}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: not UTF-8, or a date like 2024-13-45
        reason = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise UsageError(f"{path} is not valid YAML: {reason}") from error
    if not isinstance(values, dict | None):
        raise UsageError(f"{path} is not a configuration: it holds a {type(values).__name__}, not names with values")
    return values or {}


def _check(node: Any, path: Path, sizes: dict[int, int]) -> int:
    """Number of values that a node stands for. Raises an error for a mapping that sets a name twice."""
    if id(node) not in sizes:
        sizes[id(node)] = MAX_VALUES + 1  # for a node that contains itself
        pairs = [item for item in node.value if isinstance(item, tuple)] if isinstance(node.value, list) else []
        lines: dict[str, int] = {}
        for key, _ in pairs:
            if isinstance(key.value, str) and key.value != "<<":
                line = key.start_mark.line + 1
                if key.value in lines:
                    raise UsageError(
                        f"{path} sets {key.value} twice, in lines {lines[key.value]} and {line}: keep one of them"
                    )
                lines[key.value] = line
        children = [part for pair in pairs for part in pair] or (node.value if isinstance(node.value, list) else [])
        sizes[id(node)] = min(1 + sum(_check(child, path, sizes) for child in children), MAX_VALUES + 1)
    return sizes[id(node)]
