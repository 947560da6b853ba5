"""The command ``rince``: finds the subcommand, runs it, and prints user errors as one line.

Each subcommand is a module with ``main(arguments) -> int``, imported only when it is called: ``rince --help`` does not
import torch.
"""

import contextlib
import difflib
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import TextIO

from rince._support.command_errors import add_bug_hint, sentence_of
from rince._support.signals import Terminated, is_main_rank, termination_as_exception

COMMANDS = {  # name: (module, one line for the help)
    "audit": ("rince.commands.audit", "estimate the share of wrong pairs, and list them"),
    "clean": ("rince.commands.clean", "drop, weight or re-pair wrong pairs found by an audit"),
    "demo": ("rince.demo", "compare losses on digits with 40% wrong pairs (under two minutes)"),
    "train": ("rince.commands.train", "train an encoder from a configuration, or resume a run"),
    "finetune": ("rince.commands.finetune", "fine-tune the encoder of a run on labels, and test it"),
    "evaluate": ("rince.commands.evaluate", "linear probe, nearest neighbors and retrieval on the features of a run"),
    "compare": ("rince.commands.compare", "compare losses on your pairs, with and without added noise"),
    "export": ("rince.commands.export", "write the encoder of a run as safetensors, ONNX, torch.export or a folder"),
}

# Their help is generated from the sources, since importing their modules takes seconds.
WITH_OWN_HELP = ("train", "finetune")
RESUMABLE = ("train", "finetune", "compare")
EXIT_CODES = "exit codes: 0 success, 2 user error (one line), 1 bug (traceback), 130 interrupted, 143 terminated"


def usage() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {help}" for name, (_, help) in COMMANDS.items())
    return (
        "usage: rince COMMAND [options]\n\n"
        "Contrastive learning on pairs that may be wrong.\n\n"
        f"commands:\n{rows}\n\n"
        "`rince COMMAND --help` shows the options of a command. RINCE_TRACEBACK=1 shows the traceback of an error.\n"
        f"{EXIT_CODES}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for terminals without Unicode
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    name = arguments[0] if arguments else "--help"
    received: list[int] = []
    try:
        with termination_as_exception(received):
            code = _command(name, arguments[1:])
        if sys.stdout is not None:  # None if the caller closed it
            sys.stdout.flush()  # to handle its errors here
        return code
    except KeyboardInterrupt as stop:
        return _stopped(name, signal.SIGINT, str(stop))
    except Terminated as stop:
        return _stopped(name, signal.SIGTERM, stop.message)
    except BrokenPipeError:  # the reader of the output has closed it
        _drop_output()
        return 141
    except Exception as error:
        if received:  # the exception of the signal was lost
            return _stopped(name, received[0], "")
        if os.environ.get("RINCE_TRACEBACK", "0").lower() not in ("", "0", "false", "no", "off"):
            raise
        if (sentence := sentence_of(error)) is not None:
            _print_error(f"rince {name}: {sentence}")
            _drop_output()
            return 2
        add_bug_hint(error)
        raise


def _command(name: str, rest: list[str]) -> int:
    if name in ("-h", "--help"):
        print(usage())
        return 0
    if name in ("-V", "--version"):
        from rince import __version__

        print(f"rince {__version__}")
        return 0
    if name not in COMMANDS:
        matches = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"; did you mean '{matches[0]}'?" if matches else ""
        if name == "reproduce":  # until 0.4
            hint = "; its experiments have moved to python -m experiments, in a clone of the repository"
        _print_error(f"rince: unknown command '{name}'{hint} (see rince --help)")
        return 2
    if name in WITH_OWN_HELP:
        text = importlib.import_module("rince.train.help").help_or_list(name, rest)
        if text is not None:
            print(text, flush=True)
            return 0
    return importlib.import_module(COMMANDS[name][0]).main(rest)


def _stopped(name: str, number: int, message: str) -> int:
    """Report an interrupt or a termination, and return the exit code."""
    how = "interrupted" if number == signal.SIGINT else "terminated"
    if not message and name in COMMANDS:
        message = f"the same command {'resumes' if name in RESUMABLE else 'starts over'}"
    if is_main_rank():
        _print_error(f"rince {name}: {how}{f': {message}' if message else ''}")
    return 128 + number


def _print_error(sentence: str) -> None:
    """Print a line to standard error; a closed stream does not change the exit code."""
    with contextlib.suppress(OSError):
        if sys.stderr is not None:
            print(sentence, file=sys.stderr, flush=True)


def _drop_output() -> None:
    """Discard output that could not be written, so that Python does not try again at exit."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not _flushed(stream):
            with contextlib.suppress(OSError, ValueError):  # a stream that is not a file
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _flushed(stream: TextIO) -> bool:
    try:
        stream.flush()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
