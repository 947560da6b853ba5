"""Arguments of a subcommand: whatever is wrong with them is one sentence."""

import argparse


def parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """What the arguments say; the parser must have ``exit_on_error=False``."""
    try:
        found, unknown = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise ValueError(str(error)) from error
    if unknown:
        raise ValueError(f"there is no option '{unknown[0]}' ({parser.prog} --help lists them)")
    return found
