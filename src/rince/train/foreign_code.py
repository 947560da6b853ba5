"""Whose code a configuration may run.

A configuration names classes, and naming a class runs its code. `rince train` takes the user's own configuration, so it
imports what it names. `rince evaluate`, `export` and `finetune` also take run folders of others: there only rince's own
classes and torch's networks, losses and optimizers are imported, unless the user says otherwise.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rince.errors import UsageError
from rince.train.config_errors import may_import

ALLOWED = ("rince", "torch.nn", "torch.optim")
# What belongs to rince and does more than make a part of a run: it reads files, fetches, or starts commands.
DENIED: tuple[str, ...] = (
    "rince.cli",
    "rince.commands",
    "rince.reproduce",
    "rince.train",
    "rince._support",
    "rince.encoders.files",
)
DENIED += ("rince.data.download", "rince.data.video.decode", "torch.nn.parallel")
DENIED += ("rince.audit", "rince.compare", "rince.report", "rince.trust")
# Arguments that fetch something, and what they are where nobody has asked for that.
FETCHING = {"download": False, "pretrained": False}


def foreign_classes(values: Any) -> list[str]:
    """The classes named anywhere in plain values that are neither rince's nor torch's, in order, each once."""
    found: dict[str, None] = {}

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            path = value.get("class_path")
            if isinstance(path, str) and not allowed(path):
                found[path] = None
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(values)
    return list(found)


def without_fetching(values: Any) -> Any:
    """The same settings, none of which downloads anything: a file of somebody else's does not send you to a server."""
    if isinstance(values, dict):
        quiet = {name: without_fetching(value) for name, value in values.items()}
        arguments = quiet.get("init_args")
        if isinstance(arguments, dict):
            quiet["init_args"] = {name: _quiet(quiet, name, value) for name, value in arguments.items()}
        return quiet
    return [without_fetching(value) for value in values] if isinstance(values, list) else values


def _quiet(part: dict[str, Any], name: str, value: Any) -> Any:
    if name == "weights" and str(part.get("class_path")).endswith("TorchvisionEncoder"):
        return None
    return FETCHING.get(name, value) if value is True else value


def dotted_names(arguments: list[str], settings: Any = None) -> tuple[str, ...]:
    """Everything in a user's own words and settings that could be an import path."""
    found: set[str] = set()

    def see(value: Any) -> None:
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                see(inner)
        elif isinstance(value, str) and all(word.isidentifier() for word in value.split(".")):
            found.add(value)

    see(settings)
    see([word.rpartition("=")[2] for word in arguments])
    return tuple(sorted(found - {"jsonargparse"}))


def allowed(path: str) -> bool:
    def below(roots: tuple[str, ...]) -> bool:
        return any(path == root or path.startswith(f"{root}.") for root in roots)

    return below(ALLOWED) and not below(DENIED)


@contextlib.contextmanager
def trusting(values: Any, source: Path, trust: bool, also: tuple[str, ...] = ()) -> Iterator[None]:
    """Within it, a configuration from ``source`` imports nothing but rince's and torch's classes unless it is trusted.

    The classes that a user would have to trust are listed first; whatever else tries to be imported, in whichever of
    the ways that jsonargparse knows, is denied by jsonargparse itself. ``also`` are names that the user gave.
    """
    if trust:
        yield
        return
    if foreign := [name for name in foreign_classes(values) if name not in also]:
        raise UsageError(
            f"{source} names classes that are not rince's: {', '.join(foreign)}. Importing them runs their code: if "
            "you trust them, add --trust-config"
        )
    token = may_import.set(lambda path: allowed(path) or path in also)
    with only_imports(ALLOWED + also, DENIED):
        try:
            yield
        except UsageError:
            raise
        except Exception as error:
            if _denied(error):
                raise UsageError(
                    f"{source} names something to import that is not rince's ({_denied(error)}): if you trust it, add "
                    "--trust-config"
                ) from error
            raise
        finally:
            may_import.reset(token)


@contextlib.contextmanager
def only_imports(allowed: tuple[str, ...], denied: tuple[str, ...] = ()) -> Iterator[None]:
    """Let jsonargparse import nothing but these."""
    import jsonargparse
    from jsonargparse import _common

    before = dict(_common.parsing_settings)
    jsonargparse.set_parsing_settings(import_path_denylist=["*", *denied], import_path_allowlist=list(allowed))
    try:
        yield
    finally:
        _common.parsing_settings.update(before)


def _denied(error: BaseException | None) -> str:
    """What jsonargparse refused to import, if that is what an error comes from."""
    from jsonargparse._common import ImportDenied

    while error is not None:
        if isinstance(error, ImportDenied):
            return str(error).split("'")[1]
        error = error.__cause__ or error.__context__
    return ""
