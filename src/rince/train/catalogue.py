"""What comes with rince for each part of a run: for help, short names and corrections, without importing any of it.

No registry: the rooms' own tables of public names say what there is. A class of a user's needs no entry anywhere, its
import path is enough.
"""

import ast
import functools
import itertools
import typing
from pathlib import Path
from typing import Any

import rince
import rince.data
import rince.encoders
import rince.methods
import rince.noise
import rince.views

PARTS = ("method", "encoder", "loss", "views", "data", "optimiser")
ROOMS = {
    "method": rince.methods,
    "encoder": rince.encoders,
    "views": rince.views,
    "data": rince.data,
    "noise": rince.noise,
}
SHARED = (
    "Method",
    "DataModule",
    "Images",
    "Pairs",
    "Graphs",
    "GraphData",
    "Views",
    "PatchStem",
)  # what others are made of
TOLD_BY_FILE = ("method", "data")  # one class a file, and the file's first line says more than the class's
OTHERS = {
    "optimiser": ["rince.optimisers.LARS", "torch.optim.Adam", "torch.optim.AdamW", "torch.optim.SGD"],
    "callback": ["rince.audit.callback.PairMonitor"],
}
FLAGS = ("--probe", "--linear", "--from_scratch")  # options that are true or false
SOURCES = Path(__file__).parents[2]


@functools.cache
def classes() -> dict[str, list[str]]:
    """Import paths of rince's classes for each part, from the tables of the rooms."""
    found = {}
    for part, room in ROOMS.items():
        paths = [f"{room.__name__}.{home}.{name}" for name, home in room.HOMES.items()]
        found[part] = [path for path in paths if _is_choice(path)]
    found |= {"loss": _losses(), **OTHERS}
    return {part: found[part] for part in (*PARTS, "noise", "callback")}


def _losses() -> list[str]:
    """The losses among rince's public names, by the modules that define them, the general one last."""
    homes = {}
    for file in sorted((SOURCES / "rince" / "losses").glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and {"ContrastiveLoss"} & {node.name, *_bases(node)}:
                homes[node.name] = f"rince.losses.{file.stem}.{node.name}"
    public = sorted((name for name in rince._HOME if name in homes), key=lambda name: name == "ContrastiveLoss")
    return [homes[name] for name in public]


def _bases(node: ast.ClassDef) -> list[str]:
    return [base.id for base in node.bases if isinstance(base, ast.Name)]


def _is_choice(path: str) -> bool:
    """A class that can be chosen: no function, no tuple, none of those that others are made of."""
    kind = _class_of(path)
    return kind is not None and kind.name not in SHARED and "NamedTuple" not in _bases(kind)


def classes_of(option: str, nested: bool = True) -> dict[str, str]:
    """Short names and import paths of what an option such as ``loss``, ``data.noise`` or ``encoder.a`` may name.

    ``nested=False`` leaves out options that are more likely to be a text than a class, such as ``data.root``.
    """
    part, *inner = option.split(".")
    if inner and inner[-1] == "noise":
        kinds = ["noise"]
    elif part in PARTS and (nested or not inner or (part in ("encoder", "views") and inner[-1] in ("a", "b"))):
        kinds = [part]
    else:
        kinds = ["callback"] if option == "trainer.callbacks" else []
    return {path.rpartition(".")[2]: public_path(path) for kind in kinds for path in classes()[kind]}


def public_path(path: str) -> str:
    """rince.RINCE rather than rince.losses.loss.RINCE."""
    name = path.rpartition(".")[2]
    return f"rince.{name}" if path.startswith("rince.losses.") and name in rince._HOME else path


def whole_path(option: str, name: str) -> str:
    """The import path of a class of ours that was named in short; anything else as it is."""
    explicit = option.endswith(".class_path")
    return classes_of(option.removesuffix(".class_path"), nested=explicit).get(name, name)


def whole_numbers_first(parser: Any) -> None:
    """Keep whole numbers whole where fractions are taken, too: one batch is 1 to the trainer, and 1.0 all of them."""
    for action in parser._actions:
        arms = typing.get_args(vars(action).get("_typehint"))
        if len(arms) == 3 and all(arm in arms for arm in (int, float, type(None))):
            action._typehint = int | float | None


def with_flags(arguments: list[str]) -> list[str]:
    """The arguments in which a flag that stands alone is followed by ``true``."""
    words = []
    for word, after in itertools.pairwise([*arguments, "--"]):
        words += [word, "true"] if word in FLAGS and after.startswith("--") else [word]
    return words


def with_whole_paths(text: str) -> str:
    """A YAML file in which short names of our classes have become import paths, and ``optimizer`` ``optimiser``.

    ``trust: auto`` becomes what it is short for, as on the command line.

    Works on the nodes of the file, so that all other values stay as they are written; the same text where nothing
    changes.
    """
    import yaml

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    changed = False
    for place, (key, value) in enumerate(root.value if isinstance(root, yaml.MappingNode) else []):
        if key.value == "optimizer":
            key.value, changed = "optimiser", True
        if key.value == "trust" and isinstance(value, yaml.ScalarNode) and not value.tag.endswith(":null"):
            source = yaml.ScalarNode("tag:yaml.org,2002:str", "source")
            root.value[place] = (key, yaml.MappingNode("tag:yaml.org,2002:map", [(source, value)]))
            changed = True
    return yaml.serialize(root, Dumper=yaml.SafeDumper) if _expand(root, "") or changed else text


def in_full(settings: dict[str, Any]) -> dict[str, Any]:
    """Nested values with ``optimizer`` as ``optimiser`` and the source of ``trust`` by its name."""
    renamed = {{"optimizer": "optimiser"}.get(name, name): part for name, part in settings.items()}
    if isinstance(trust := renamed.get("trust"), str):
        renamed["trust"] = {"source": trust}
    return renamed


def _expand(node: Any, option: str) -> bool:
    """Whether anything was changed in the node of an option."""
    if isinstance(node.value if node is not None else None, str):
        before, node.value = node.value, whole_path(option, node.value)
        return bool(before != node.value)
    changed = False
    for item in [] if node is None else node.value:
        key, value = item if isinstance(item, tuple) else (None, item)
        inner = option if key is None or key.value == "init_args" else f"{option}.{key.value}".lstrip(".")
        changed |= _expand(value, inner)
    return changed


@functools.cache
def _module(path: str) -> ast.Module:
    """The sources of the module that an import path of a class lies in."""
    module = path.rpartition(".")[0]
    return ast.parse((SOURCES / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))


def _class_of(path: str) -> ast.ClassDef | None:
    name = path.rpartition(".")[2]
    return next((node for node in _module(path).body if isinstance(node, ast.ClassDef) and node.name == name), None)


def summary(path: str, part: str) -> str:
    """One line on a class of ours, read from its source."""
    if not path.startswith("rince."):
        return ""
    kind = _module(path) if part in TOLD_BY_FILE else _class_of(path)
    text = (ast.get_docstring(kind) or "") if kind is not None else ""
    return text.split("\n")[0].replace("``", "")


def arguments(path: str) -> list[str]:
    """What the constructor of a class of ours takes, read from its source."""
    kind = _class_of(path)
    inits = (
        [node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"] if kind else []
    )
    return [a.arg for init in inits for a in (*init.args.args[1:], *init.args.kwonlyargs)]
