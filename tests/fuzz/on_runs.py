"""Command lines of what works on a finished run, and of experiments, with options that their own help names."""

import contextlib
import functools
import io
import random
import re

FINETUNE = [
    "finetune", "run", "--trainer.max_epochs", "1", "--trainer.limit_train_batches", "2", "--data.limit", "64",
    "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false", "--trainer.accelerator", "cpu",
]  # fmt: skip
MORE = ("method", "method.head_epochs", "method.classes", "method.linear", "linear", "from_scratch", "splits", "tower")
SURE = {"evaluate": ["evaluate", "run", "--draws", "1"], "export": ["export", "run", "x.safetensors"]}
SLOW = ("--download", "--help", "--trust-config", "--workers")


def line(chance: random.Random, known: list[str], values: tuple[str, ...]) -> list[str]:
    """Of fine-tuning, with options of training and its own; or of evaluate, export or an experiment, with theirs."""
    if chance.random() < 0.5:
        words, options = FINETUNE, [f"--{name}" for name in (*known, *MORE * 4)]
    else:
        words = chance.choice([*SURE.values(), *map(_experiment, _experiments())])
        options = _options(tuple(words[: 1 if words[0] in SURE else 2]))
    words = list(words)
    for _ in range(chance.choice((1, 1, 2, 3))):
        words += [chance.choice(options), *(chance.choice(values) for _ in range(chance.choice((0, 1, 1, 1, 2))))]
    return words


def _experiments() -> list[str]:
    from rince.commands.reproduce import experiments

    return [name for name in experiments() if name != "demo"]


def _experiment(name: str) -> list[str]:
    """Quick for all: nothing is trained."""
    options = _options(("reproduce", name))
    return ["reproduce", name, *(["--so-far"] if "--so-far" in options else [])]


@functools.cache
def _options(command: tuple[str, ...]) -> list[str]:
    from rince import cli

    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        cli.main([*command, "--help"])
    return sorted(set(re.findall(r"--[a-z][a-z_-]*", told.getvalue())) - set(SLOW))
