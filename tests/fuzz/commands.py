"""Command lines from the parser's own grammar, with values that fit and values that do not."""

import random
from pathlib import Path

VALUES = (
    "0",
    "1",
    "2",
    "-1",
    "0.5",
    "-3.5",
    "1e38",
    "nan",
    "inf",
    "true",
    "null",
    "abc",
    "",
    "[1, 2]",
    "[]",
    "{}",
    "a.b.C",
)
VALUES += (
    "../x",
    "ConvNet",
    "RINCE",
    "auto",
    "cpu",
    "\u00e4",
    "1e-30",
    "99999999999999999999",
    "{class_path: os.getcwd}",
)
SMALL = [
    "digits/simclr", "--data.limit", "64", "--data.batch_size", "32", "--encoder.width", "2", "--probe", "false",
    "--trainer.max_epochs", "1", "--trainer.limit_train_batches", "2", "--trainer.accelerator", "cpu",
    "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false",
]  # fmt: skip
# What starts other processes, waits, or trains for as long as it is told to.
LEFT_OUT = ("trainer.devices", "trainer.num_nodes", "trainer.strategy", "trainer.max_epochs", "trainer.max_steps")
LEFT_OUT += (
    "trainer.limit_train_batches",
    "trainer.max_time",
    "trainer.min_epochs",
    "trainer.min_steps",
    "out",
    "config",
)


def options() -> list[str]:
    """Every option of `rince train`, and those of the classes that it takes."""
    from rince.train.catalogue import classes
    from rince.train.config_errors import arguments_of, class_at
    from rince.train.parser import known_options, train_parser

    found = set(known_options(train_parser()))
    for part, paths in classes().items():
        for path in paths:
            known, _ = arguments_of(class_at(part, path))
            found |= {f"{'data.noise' if part == 'noise' else part}.{name}" for name in known if part != "callback"}
    return sorted(name for name in found if name not in LEFT_OUT and not name.startswith("callback"))


def line(chance: random.Random, known: list[str]) -> list[str]:
    """A command with a few options of `train`, or a malformed one of another command."""
    if chance.random() < 0.15:
        command = chance.choice(("evaluate", "export", "finetune", "reproduce", "train"))
        return [
            command,
            *(chance.choice((*VALUES, "--k", "--draws", "--force", "--xyz")) for _ in range(chance.randrange(4))),
        ]
    words = ["train", *SMALL]
    for _ in range(chance.choice((1, 1, 2, 3))):
        name = chance.choice(known)
        if chance.random() < 0.1:  # a typo
            place = chance.randrange(len(name))
            name = name[:place] + chance.choice("abcxyz._") + name[place + 1 :]
        words += [f"--{name}", chance.choice(VALUES)]
    return words


def run(words: list[str], folder: Path) -> int:
    from rince import cli

    out = [] if words[0] != "train" or len(words) < len(SMALL) else ["--out", str(folder / "runs")]
    return cli.main([*words, *out])
