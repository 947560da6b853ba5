"""YAML files of users: read without running anything, within bounds, and with one sentence on what is wrong."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rince._support.optional_imports import require
from rince.errors import MissingFile, UsageError

LARGEST = 1 << 20  # bytes of a file
MOST = 20_000  # values, with every alias counted as what it stands for
DEEPEST = 100  # lists and mappings within each other
LONGEST_NUMBER = 1000  # characters: to turn more of them into a number, or back into text, takes time without bounds


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a file holds; an empty file is an empty mapping."""
    yaml = require("yaml", "train")
    values = yaml.safe_load(_checked_text(path))
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UsageError(f"{path} is no configuration: it holds a {type(values).__name__}, not names with values")
    return values


def read_yaml_text(path: Path) -> str:
    """The text of a YAML file with options in it, which can be parsed and is small enough to be worked with."""
    yaml = require("yaml", "train")
    text = _checked_text(path)
    if yaml.safe_load(text) is None:
        raise UsageError(f"{path} is empty: write options into it, such as seed: 1, or leave it out")
    return text


def _checked_text(path: Path) -> str:
    yaml = require("yaml", "train")
    if not path.is_file():
        raise MissingFile(f"there is no file {path}")
    if path.stat().st_size > LARGEST:
        raise UsageError(f"{path} has {path.stat().st_size} bytes, and a configuration has at most {LARGEST}")
    try:
        text = path.read_text(encoding="utf-8")
        check_events(yaml, text, path)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if count_values(root) > MOST:
            raise UsageError(f"{path} stands for more than {MOST} values: its aliases multiply, or refer to themselves")
        check_keys(yaml, root, path)
        yaml.safe_load(text)  # not before: what is merged (<<) multiplies while it is read
    except UsageError:
        raise
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" in line {mark.line + 1}" if mark is not None else ""
        raise UsageError(f"{path} is no YAML: {error.problem or error.context}{place}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # a date such as 2024-13-45 is a ValueError
        why = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise UsageError(f"{path} is no YAML: {why}") from error
    return text


def check_events(yaml: Any, text: str, path: Path) -> None:
    """Refuse too many values, and numbers of too many digits, as soon as they come up and before anything is made."""
    depth = 0
    for number, event in enumerate(_events(yaml, text)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise UsageError(f"{path} is nested too deeply: more than {DEEPEST} lists and mappings in each other")
        if number > 2 * MOST + 10:  # every list and mapping has an end, too
            raise UsageError(f"{path} holds more than {MOST} values, and so is no configuration")
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > LONGEST_NUMBER and _is_number(event.value):
            raise UsageError(f"{path} holds a number of {len(event.value)} digits, which nothing here takes")


def _events(yaml: Any, text: str) -> Iterator[Any]:
    """Up to the first mistake, which the reader itself explains better."""
    with contextlib.suppress(yaml.YAMLError):
        yield from yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _is_number(text: str) -> bool:
    return not set(text) - set("0123456789abcdefABCDEFxob+-._:")


def _inner(node: Any) -> list[Any]:
    """The keys and values of a mapping, the items of a sequence."""
    if isinstance(node.value, str):
        return []
    return [each for item in node.value for each in (item if isinstance(item, tuple) else (item,))]


def count_values(root: Any) -> int:
    """How many values a composed file stands for once its aliases are spelt out; one too many for a circle."""
    sizes: dict[int, int] = {}
    under_way: set[int] = set()
    stack = [root] if root is not None else []
    while stack:
        node = stack[-1]
        inner = _inner(node)
        new = [each for each in inner if id(each) not in sizes]
        if id(node) in sizes:
            stack.pop()
        elif not new:
            sizes[id(node)] = min(1 + sum(sizes[id(each)] for each in inner), MOST + 1)
            under_way.discard(id(node))
            stack.pop()
        elif any(id(each) in under_way for each in new):
            return MOST + 1
        else:
            under_way.add(id(node))
            stack += new
    return sizes[id(root)] if root is not None else 0


def check_keys(yaml: Any, root: Any, path: Path) -> None:
    """Refuse a name that a mapping has twice, of which only the last one would count."""
    seen: set[int] = set()
    stack = [root] if root is not None else []
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack += _inner(node)
        first: dict[tuple[str, str], int] = {}
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":  # several may be merged
                continue
            name, line = (key.tag, key.value), key.start_mark.line + 1
            if name in first:
                raise UsageError(f"{path} sets {key.value} twice, in lines {first[name]} and {line}: keep one of them")
            first[name] = line


def check_text(option: str, value: str | None) -> None:
    """Refuse a name that YAML takes for nothing, so that it would be another one."""
    if option in ("name", "out") and value is not None and value.strip() in ("~", "null", "Null", "NULL"):
        raise UsageError(f"--{option} must be a name, got {value}, which means nothing at all: spell out another one")
