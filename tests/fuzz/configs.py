"""Configurations whose values are exchanged, moved, left out or made odd, as files and as those of run folders."""

import copy
import random
from pathlib import Path
from typing import Any

import yaml

# Values of kinds, sizes and places that nothing asked for.
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 3, 1e308, float("nan"), float("inf"), 10**25, "", "abc", "null", "../x", "rince.RINCE",
    "os.getcwd", "rince.encoders.ConvNet", "torch.nn.Identity", [],
    [1, [2]], {}, {"a": 1}, {"class_path": "rince.RINCE"},
    b"\xff", {"class_path": "rince.RINCE", "dict_kwargs": {"q": 1}},
    {"class_path": "torch.nn.Linear", "init_args": {"in_features": 3, "out_features": 3}}, {"init_args": {}}, {1: 2},
    {"class_path": 3}, {"class_path": "os.getcwd", "init_args": {}},
)  # fmt: skip
# Trains for as long as it is told to, or waits for others.
KEPT = ("max_epochs", "limit_train_batches", "devices", "num_nodes", "strategy", "accelerator")


def changed(settings: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """A copy with one to three changes."""
    settings = copy.deepcopy(settings)
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = list(_places(settings))
        inside, key = chance.choice(places)
        kind = chance.randrange(5)
        if kind == 0:
            del inside[key]
        elif kind == 1:
            other, name = chance.choice(places)
            inside[key] = copy.deepcopy(other.get(name))
        elif kind == 2:
            word = str(key)
            place = chance.randrange(len(word) or 1)
            inside[word[:place] + chance.choice("abcx._") + word[place + 1 :]] = inside.pop(key)
        else:
            inside[key] = copy.deepcopy(chance.choice(ODD))
    if isinstance(settings.setdefault("trainer", {}), dict):  # by default it would train for very long
        settings["trainer"].setdefault("max_epochs", 1)
    return settings


def _places(value: Any) -> Any:
    """Every mapping within, with each of its keys."""
    for key, inner in list(value.items()):
        if key not in KEPT:
            yield value, key
        if isinstance(inner, dict):
            yield from _places(inner)


def prepared(place: Path) -> Path:
    """A small finished run."""
    import commands
    from rince import cli

    if cli.main(["train", *commands.SMALL, "--out", str(place), "--name", "run"]):
        raise SystemExit("the run to start from failed")
    return place / "run"


def one(settings: dict[str, Any], run: Path, chance: random.Random) -> tuple[str, Any]:
    """What is tried, and what tries it in a folder."""
    command = chance.choice(("train", "train", "evaluate", "export", "finetune", "resume"))
    new = changed(settings, chance)
    text = yaml.dump(new)
    what = f"{command} with {_differences(settings, new)}"

    def tried(folder: Path) -> int:
        import shutil

        from rince import cli

        own = folder / "runs" / "a"
        if command == "train":
            (folder / "mine.yaml").write_text(text)
            return cli.main(["train", "mine.yaml", "--out", str(folder / "runs"), "--name", "a"])
        shutil.copytree(run, own)
        (own / "config.yaml").write_text(text)
        if command == "resume":
            for name in ("result.json", "encoder.safetensors"):
                (own / name).unlink()
            (folder / "mine.yaml").write_text(yaml.dump(settings))
            return cli.main(["train", "mine.yaml", "--out", str(folder / "runs"), "--name", "a"])
        more = {"export": [str(folder / "x.safetensors")], "finetune": ["--trainer.max_epochs", "1"]}
        return cli.main([command, str(own), *more.get(command, ())])

    return what, tried


def _differences(old: Any, new: Any, name: str = "") -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        keys = {**old, **new}
        return "; ".join(
            text for key in keys if (text := _differences(old.get(key, "-"), new.get(key, "-"), f"{name}.{key}"))
        )
    return "" if old == new and type(old) is type(new) else f"{name[1:]} = {new!r:.80}"
