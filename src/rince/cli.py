"""The command ``rince``: finds the subcommand, runs it, and turns bad input into one clear line.

Every subcommand lives in a module of the room it belongs to, with a ``main(arguments) -> int`` of its own, and is
imported only when it is called: ``rince --help`` costs no torch.
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

from rince._support.command_errors import sentence_of, with_hint
from rince._support.signals import Terminated, speaks, termination_as_exception

COMMANDS = {  # name: (module, one line for the help)
    "audit": ("rince.commands.audit", "find the wrong pairs of two columns: how many, which ones, how sure"),
    "clean": ("rince.commands.clean", "leave out the wrong pairs of an audit, weigh them, or find them new partners"),
    "demo": ("rince.reproduce.demo", "InfoNCE against RINCE on digits with wrong pairs, in under two minutes"),
    "train": ("rince.commands.train", "train an encoder from a configuration, or go on where it stopped"),
    "finetune": ("rince.commands.finetune", "train the encoder of a run further on labels, and test it"),
    "evaluate": ("rince.commands.evaluate", "linear probe, nearest neighbours and retrieval of a finished run"),
    "compare": ("rince.commands.compare", "which loss serves best on a data set, and what it costs without noise"),
    "reproduce": ("rince.commands.reproduce", "the paper's experiments, one command each; alone it lists them"),
    "export": ("rince.commands.export", "write the encoder of a run to a file of its own, as safetensors"),
}

# Their help is put together from sources: what they import before they could say it themselves takes seconds.
GUIDED = ("train", "finetune")
RESUMABLE = ("train", "finetune", "compare", "reproduce")


def usage() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {help}" for name, (_, help) in COMMANDS.items())
    return (
        "usage: rince COMMAND [options]\n\n"
        "Contrastive learning that survives bad pairs.\n\n"
        f"commands:\n{rows}\n\n"
        "`rince COMMAND --help` explains a command. RINCE_TRACEBACK=1 shows where an error came from."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may know fewer letters than a result has
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    name = arguments[0] if arguments else "--help"
    received: list[int] = []
    try:
        with termination_as_exception(received):
            code = _command(name, arguments[1:])
        if sys.stdout is not None:  # it is None where the caller closed it
            sys.stdout.flush()  # here, where somebody listens if it fails
        return code
    except KeyboardInterrupt:
        return _stopped(name, signal.SIGINT)
    except Terminated:
        return _stopped(name, signal.SIGTERM)
    except BrokenPipeError:  # whoever read the output has seen enough
        _drop_output()
        return 141
    except Exception as error:
        if received:  # its exception was lost on the way
            return _stopped(name, received[0])
        if os.environ.get("RINCE_TRACEBACK", "0").lower() not in ("", "0", "false", "no", "off"):
            raise
        if (sentence := sentence_of(error)) is not None:
            _tell(f"rince {name}: {sentence}")
            _drop_output()
            return 2
        with_hint(error)
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
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        _tell(f"rince: there is no command '{name}'{hint} (rince --help lists them)")
        return 2
    if name in GUIDED and (text := importlib.import_module("rince.train.help").help_or_list(name, rest)) is not None:
        print(text, flush=True)
        return 0
    return importlib.import_module(COMMANDS[name][0]).main(rest)


def _stopped(name: str, number: int) -> int:
    how = "interrupted" if number == signal.SIGINT else "terminated"
    again = "resumes it" if name in RESUMABLE else "starts over, and finds nothing half-written"
    if speaks():
        _tell(f"rince {name}: {how}{f': the same command again {again}' if name in COMMANDS else ''}")
    return 128 + number


def _tell(sentence: str) -> None:
    """One line for whoever reads errors, if anybody does: nobody is no reason for another exit code."""
    with contextlib.suppress(OSError):
        if sys.stderr is not None:
            print(sentence, file=sys.stderr, flush=True)


def _drop_output() -> None:
    """Forget what could not be written, so that Python does not try it again when it ends."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not _flushed(stream):
            with contextlib.suppress(OSError, ValueError):  # a stream that is no file
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _flushed(stream: TextIO) -> bool:
    try:
        stream.flush()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
