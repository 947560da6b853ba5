"""Parsing of command-line options, with dashes or underscores; errors are usage errors."""

import argparse
import difflib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rince.errors import UsageError


def check_counts(options: argparse.Namespace, *names: str) -> None:
    """Reject counts below 1."""
    for name in names:
        value, option = getattr(options, name, None), f"--{name.replace('_', '-')}"
        if value is not None and value < 1:
            raise UsageError(f"{option} must be at least 1, got {value}")


def check_local(text: str | os.PathLike[str], option: str = "--out") -> Path:
    """Path of an output option. URLs, empty paths and unexpanded ``~`` are rejected."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", os.fspath(text)):  # one letter would be a drive of Windows
        raise UsageError(
            f"{option} must be a local path, got the URL {os.fspath(text)}: write locally and copy the result"
        )
    if not os.fspath(text):
        raise UsageError(f"{option} must not be empty (is a shell variable unset?)")
    if os.fspath(text).startswith("~"):
        raise UsageError(
            f"{option} has a ~ that the shell did not expand, got {os.fspath(text)}: write the path in full"
        )
    return Path(text)


def local_path(text: str) -> Path:
    """``check_local`` as ``type`` of an option."""
    try:
        return check_local(text, "the path")
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def respelt(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> list[str]:
    """Arguments with option names as the parser spells them: --labels_per_class becomes --labels-per-class."""
    known = {_plain(option): option for option in parser._option_string_actions}
    words = []
    for word in arguments:
        name, equals, value = word.partition("=")
        words.append(known.get(_plain(name), name) + equals + value if word.startswith("--") else word)
    return words


def _plain(option: str) -> str:
    return option.replace("_", "-")


def parsed(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse arguments. Wrong, unknown and missing ones raise a ``UsageError``."""

    def refuse(message: str) -> NoReturn:
        raise UsageError(f"{message} (see {parser.prog} --help)")

    parser.error = refuse  # type: ignore[method-assign]
    try:
        options, unknown = parser.parse_known_args(respelt(parser, arguments))
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from error
    if unknown:
        names = [option for option in parser._option_string_actions if option.startswith("--")]
        if os.path.lexists(unknown[0]):
            raise UsageError(f"{unknown[0]} looks like an option: name the file as ./{unknown[0]}")
        matches = difflib.get_close_matches(unknown[0].partition("=")[0], names, n=1)
        hint = f"; did you mean '{matches[0]}'?" if matches else ""
        raise UsageError(f"there is no option '{unknown[0]}'{hint} (see {parser.prog} --help)")
    return options


def add_allow_custom_code(parser: argparse.ArgumentParser) -> None:
    """Add ``--allow-custom-code`` and its old name ``--trust-config``, which goes in 0.4."""
    parser.add_argument(
        "--allow-custom-code", action="store_true", help="import classes from outside rince that the run names"
    )
    parser.add_argument("--trust-config", action="store_true", dest="allow_custom_code", help=argparse.SUPPRESS)


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """``--quiet`` and ``--json``, which mean the same in every command."""
    parser.add_argument("--quiet", action="store_true", help="print errors only, and no progress")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def without_output_options(arguments: Sequence[str]) -> tuple[list[str], argparse.Namespace]:
    """Arguments of ``train`` and ``finetune`` without ``--quiet`` and ``--json``, and these two."""
    options = argparse.Namespace(quiet="--quiet" in arguments, json="--json" in arguments)
    rest = [word for word in arguments if word not in ("--quiet", "--json")]
    if options.quiet or options.json:
        rest += ["--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false"]
    return rest, options


def print_result(options: argparse.Namespace, record: object, text: str) -> None:
    """Print the result of a command: as JSON, as text, or not at all."""
    if options.json:
        print(json.dumps(record, indent=2))
    elif not options.quiet:
        print(text)
