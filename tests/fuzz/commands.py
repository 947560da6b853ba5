"""Command lines from the parsers' own grammar, with values that fit and values that do not."""

import argparse
import random
from collections.abc import Callable
from pathlib import Path

import columns
import numpy as np
import on_runs

VALUES = (
    "0", "1", "2", "-1", "0.5", "-3.5", "1e38", "nan", "inf", "true", "null", "abc", "", "[1, 2]", "[]", "{}", "a.b.C",
    "../x", "ConvNet", "RINCE", "auto", "cpu", "\u00e4", "1e-30", "99999999999999999999", "{class_path: os.getcwd}",
    "0x" + "f" * 5000, "\udcff", ".", "/dev/null", "a.npy", "b.npy:x", "-", "--", "'", "*", "~",
)  # fmt: skip
SMALL = [
    "digits/simclr", "--data.limit", "64", "--data.batch_size", "32", "--encoder.width", "2", "--probe", "false",
    "--trainer.max_epochs", "1", "--trainer.limit_train_batches", "2", "--trainer.accelerator", "cpu",
    "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false",
]  # fmt: skip
SHORT = SMALL[SMALL.index("--probe") :]
# Runs on small files of other kinds, which `files` makes: the class, and what it needs.
OTHERS = {
    "rince.data.Arrays": ["--data.path", "images.npz", "--encoder.width", "2"],
    "rince.data.ImageFolder": [
        "--data.root", "folder", "--data.workers", "0", "--data.size", "8", "--data.batch_size", "4",
        "--encoder.width", "2",
    ],
    "rince.data.PairedArrays": [
        "--method", "CrossModal", "--encoder", "Towers", "--encoder.a", "MLP", "--encoder.a.widths", "[3, 8]",
        "--encoder.b", "MLP", "--encoder.b.widths", "[4, 8]", "--data.path", "pairs.npz", "--data.batch_size", "8",
    ],
    "rince.data.TUGraphs": [
        "--method", "GraphCL", "--encoder", "GIN", "--encoder.in_features", "3", "--views", "GraphViews",
        "--data.dataset", "X", "--data.root", "X.zip", "--data.batch_size", "2",
    ],
}  # fmt: skip
# What starts other processes, waits, or trains for as long as it is told to.
LEFT_OUT = (
    "trainer.devices", "trainer.num_nodes", "trainer.strategy", "trainer.max_epochs", "trainer.max_steps", "out",
    "config", "trainer.limit_train_batches", "trainer.max_time", "trainer.min_epochs", "trainer.min_steps",
    "data.workers",
    "trust.source", "trust.epochs", "trust.folds",
)  # fmt: skip


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


def options_of(path: str) -> list[str]:
    """The options of a data set's own class."""
    from rince.train.config_errors import arguments_of, class_at

    return [f"data.{name}" for name in arguments_of(class_at("data", path))[0] if f"data.{name}" not in LEFT_OUT]


def parsers() -> dict[str, tuple[list[str], argparse.ArgumentParser]]:
    """Commands with a parser of their own, and words with which they would succeed, or say at once what is missing."""
    from rince.commands import audit_options, clean, compare, evaluate

    return {
        "audit": (["a.npy", "b.npy"], audit_options.parser()),
        "clean": (["a.npy", "b.npy", "--audit", "audit.csv"], clean.parser()),
        "compare": (["a.npy", "b.npy", "--seeds", "1"], compare.options()),  # too few pairs to be compared
        "evaluate": (["no-run"], evaluate.options()),
    }


def line(chance: random.Random, known: list[str]) -> list[str]:
    """A command with a few odd options."""
    kind = chance.random()
    if kind < 0.1:
        command = chance.choice(("evaluate", "export", "finetune", "reproduce", "train", "compare", "clean", "audit"))
        odd = (*VALUES, "--k", "--draws", "--force", "--xyz", "--out", "--seed")
        return [command, *(chance.choice(odd) for _ in range(chance.randrange(4)))]
    if kind < 0.35:
        return _of_parser(chance)
    if kind < 0.6:
        return on_runs.line(chance, known, VALUES)
    if kind < 0.8:
        path = chance.choice(list(OTHERS))
        words, known = ["train", "--data", path, *OTHERS[path], *SHORT], options_of(path)
    else:
        words = ["train", *SMALL]
    for _ in range(chance.choice((1, 1, 2, 3))):
        name = chance.choice(known)
        if chance.random() < 0.1:  # a typo
            place = chance.randrange(len(name))
            name = name[:place] + chance.choice("abcxyz._") + name[place + 1 :]
        words += [f"--{name}", chance.choice(VALUES)]
    return words


def _of_parser(chance: random.Random) -> list[str]:
    command = chance.choice(list(parsers()))
    words, parser = parsers()[command]
    actions = [action for action in parser._actions if action.option_strings and action.dest not in ("help", "out")]
    for action in chance.sample(actions, chance.choice((1, 1, 2, 3))):
        words = [*words, chance.choice(action.option_strings)]
        if action.nargs != 0:
            choices = list(action.choices or VALUES)
            words.append(str(chance.choice([*choices, *VALUES[:8]])))
    return [command, *words]


def files(folder: Path, run: Path) -> None:
    """What the command lines name; ``run`` is a finished one."""
    import shutil

    import files as formats
    from PIL import Image

    shutil.copytree(run, folder / "run")
    numbers = np.random.default_rng(0)
    a = numbers.normal(size=(columns.ROWS, 3)).astype(np.float32)
    np.save(folder / "a.npy", a)
    np.save(folder / "b.npy", a + 0.1)
    (folder / "audit.csv").write_bytes(columns._audited(a))
    np.savez(folder / "images.npz", images=numbers.integers(0, 256, (300, 8, 8, 3), dtype=np.uint8))
    np.savez(folder / "pairs.npz", a=numbers.normal(size=(40, 3)), b=numbers.normal(size=(40, 4)))
    (folder / "X.zip").write_bytes(formats._graphs())
    for name in ("train/x", "train/y"):
        (folder / "folder" / name).mkdir(parents=True)
        for i in range(4):
            image = Image.fromarray(numbers.integers(0, 256, (9, 9, 3), dtype=np.uint8))
            image.save(folder / "folder" / name / f"{i}.png")


def run(words: list[str], made: Path) -> Callable[[Path], int]:
    """What runs a command in a folder, with copies of the files that its words name."""

    def tried(folder: Path) -> int:
        import shutil

        from rince import cli

        shutil.copytree(made, folder, dirs_exist_ok=True)
        out = ["--out", str(folder / "out")] if words[0] in ("train", "audit", "clean", "compare") else []
        return cli.main([*words, *(out if len(words) > 3 else [])])

    return tried
