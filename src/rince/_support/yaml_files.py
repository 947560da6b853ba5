"""YAML files: read without running code, with one sentence about what is wrong with them."""

from pathlib import Path
from typing import Any

from rince._support.optional_imports import require
from rince.errors import MissingFile, UsageError


def read_yaml(path: Path) -> dict[str, Any]:
    """Mapping in a file; an empty file is an empty mapping.

    Raises:
        UsageError: If the file is missing, is not YAML, is not a mapping, or sets a name twice.
    """
    yaml = require("yaml", "train")
    if not path.is_file():
        raise MissingFile(f"there is no file {path}")
    try:
        text = path.read_text(encoding="utf-8")
        _check_duplicates(yaml.compose(text, Loader=yaml.SafeLoader), path)
        values = yaml.safe_load(text)
    except UsageError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" in line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{path} is not valid YAML: {error.problem or error.context}{place}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # such as text that is not UTF-8
        raise UsageError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict | None):
        raise UsageError(f"{path} is not a configuration: it holds a {type(values).__name__}, not names with values")
    return values or {}


def _check_duplicates(node: Any, path: Path) -> None:
    """Reject a mapping that sets a name twice."""
    lines: dict[str, int] = {}
    for child in node.value if node is not None and isinstance(node.value, list) else []:
        if not isinstance(child, tuple):
            _check_duplicates(child, path)
            continue
        key, value = child
        line = key.start_mark.line + 1
        if key.value != "<<" and isinstance(key.value, str):
            if key.value in lines:
                raise UsageError(f"{path} sets {key.value} twice, in lines {lines[key.value]} and {line}: keep one")
            lines[key.value] = line
        _check_duplicates(value, path)
