"""Options of a command, spelt with dashes or with underscores; whatever is wrong with them is one sentence."""

import argparse
from collections.abc import Sequence

from rince.errors import UsageError


def respelt(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> list[str]:
    """The arguments with every option spelt as the parser has it: --labels-per-class is --labels_per_class."""
    known = {_plain(option): option for option in parser._option_string_actions}
    words = []
    for word in arguments:
        name, equals, value = word.partition("=")
        words.append(known.get(_plain(name), name) + equals + value if word.startswith("--") else word)
    return words


def _plain(option: str) -> str:
    return option.replace("_", "-")


def parsed(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    try:
        found, unknown = parser.parse_known_args(respelt(parser, arguments))
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from error
    if unknown:
        raise UsageError(f"there is no option '{unknown[0]}' ({parser.prog} --help lists them)")
    return found
