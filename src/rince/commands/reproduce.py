"""``rince reproduce``: deprecated, names the new command. Removed in version 0.4."""

import sys


def main(arguments: list[str]) -> int:
    command = f"python -m experiments {next(iter(arguments), 'NAME')}"
    print(f"rince reproduce has moved: run `{command}` in a clone of the repository", file=sys.stderr)
    return 2
