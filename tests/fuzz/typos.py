"""Command lines with the mistakes that people make: a typo, a missing value, an option of another command."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

SHORT = [
    "--data.limit", "64", "--data.batch_size", "32", "--encoder.width", "2", "--probe", "false",
    "--trainer.max_epochs", "1", "--trainer.limit_train_batches", "2", "--trainer.accelerator", "cpu",
    "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false",
]  # fmt: skip
LINES = (
    ["train", "digits/simclr", *SHORT, "--loss.q", "0.5", "--loss.temperature", "0.2", "--optimizer.lr", "0.01"],
    ["train", "digits/moco", *SHORT, "--loss", "GCE", "--seed", "3"],
    ["audit", "a.npy", "b.npy", "--fdr", "0.2", "--seed", "1"],
    ["audit", "pairs.csv:x,y", "pairs.csv:z", "--fit", "--seed", "1"],
    ["compare", "a.npy", "b.npy", "--losses", "infonce", "--temperatures", "0.2", "--seeds", "1", "--epochs", "1"],
)
KEPT = {"--trainer.max_epochs", "--trainer.limit_train_batches", "--epochs"}  # a typo here would train for very long
VALUES = ("-1", "0", "abc", "", "nan", "1e9", "None", "true", "0,2", "2.5")


def misspell(word: str, chance: random.Random) -> str:
    """A word with one letter exchanged, left out or doubled."""
    place = chance.randrange(len(word))
    other = chance.choice((chance.choice("abcdeilnorst-._"), "", word[place] * 2))
    return word[:place] + other + word[place + 1 :]


def one(chance: random.Random) -> tuple[str, Callable[[Path], int]]:
    """A description of the command line, and a function that runs it in a folder."""
    words = list(chance.choice(LINES))
    place = chance.randrange(len(words))
    while words[place] in KEPT or words[place - 1] in KEPT:
        place = chance.randrange(len(words))
    kind = chance.randrange(4)
    if kind == 0:
        del words[place]
    elif kind == 1 and not words[place].startswith("-"):
        words[place] = chance.choice(VALUES)
    elif kind == 2:
        words.insert(place, words[place])
    else:
        words[place] = misspell(words[place], chance)

    def run(folder: Path) -> int:
        from rince import cli

        a = np.random.default_rng(0).normal(size=(60, 3))
        np.save("a.npy", a)
        np.save("b.npy", a + 0.1)
        rows = "\n".join(",".join(f"{value:.4f}" for value in row) for row in a)
        Path("pairs.csv").write_text(f"x,y,z\n{rows}\n")
        return cli.main(words)

    return " ".join(map(repr, words)), run
