"""Short names of what comes with rince: ``digits/simclr`` is configs/digits/simclr.yaml, ``RINCE`` a class.

Summaries of classes are read from the sources, so that help imports neither torch nor the classes. User classes need no
entry, only their import path.
"""

import ast
import difflib
import functools
import importlib
from pathlib import Path
from typing import Any

from rince.errors import MissingFile

PARTS = ("method", "encoder", "loss", "views", "data", "optimizer")
PACKAGES = {"method": "methods", "encoder": "encoders", "views": "views", "data": "data", "noise": "noise"}
# Public classes of these packages that are base classes or building blocks, not choices for a part.
NOT_PARTS = {
    *(
        "ClipBatch",
        "DataModule",
        "Draws",
        "GraphData",
        "Graphs",
        "ImageBatch",
        "Images",
        "Method",
        "PairBatch",
        "Pairs",
    ),
    *("PatchStem", "Views", "WrongPairs"),
}
OTHERS = {
    "loss": [
        *("rince.RINCE", "rince.InfoNCE", "rince.GCE", "rince.SymmetricCrossEntropy", "rince.DCL", "rince.Debiased"),
        *("rince.HardNegatives", "rince.MILNCE", "rince.Sigmoid", "rince.ContrastiveLoss"),
    ],
    "optimizer": ["rince.optimizers.LARS", "torch.optim.Adam", "torch.optim.AdamW", "torch.optim.SGD"],
    "callback": ["rince.audit.callback.PairMonitor"],
    "data": ["rince.trust.streamed_pairs.StreamedPairs"],
}
SOURCES = Path(__file__).parents[2]
CONFIGS = Path(__file__).parents[1] / "configs"


def builtin_configs() -> dict[str, Path]:
    """Short name -> file of every configuration."""
    return {path.relative_to(CONFIGS).with_suffix("").as_posix(): path for path in sorted(CONFIGS.glob("*/*.yaml"))}


def find_config(name: str) -> Path:
    """File of a configuration: an existing file, or the one that comes with rince under this name.

    Raises:
        MissingFile: If neither exists, with the nearest name.
    """
    if Path(name).is_file():
        return Path(name)
    configs = builtin_configs()
    short = name.removesuffix(".yaml").removeprefix("configs/")
    if short in configs:
        return configs[short]
    matches = difflib.get_close_matches(short, configs, n=1)
    hint = f"; did you mean '{matches[0]}'?" if matches else ""
    raise MissingFile(f"there is no configuration {name}{hint} (pass a YAML file, or one of: {', '.join(configs)})")


def short_name(path: Path) -> str | None:
    """``digits/simclr`` for a file that comes with rince, None for any other."""
    path = path.resolve()
    return next((name for name, file in builtin_configs().items() if file.resolve() == path), None)


def configs_for(command: str) -> dict[str, str]:
    """Short name -> title (first comment line) of the configurations for ``train`` or ``finetune``.

    The second line of a configuration shows its command.
    """
    titles = {}
    for name, path in builtin_configs().items():
        title, usage = path.read_text(encoding="utf-8").split("\n")[:2]
        if f"rince {command} " in usage:
            titles[name] = title.lstrip("# ").strip()
    return titles


@functools.cache
def known_classes() -> dict[str, dict[str, str]]:
    """Short name -> import path of the classes of rince for each part of a run."""
    classes: dict[str, dict[str, str]] = {part: {} for part in (*PARTS, "noise", "callback")}
    for part, package in PACKAGES.items():
        names = [name for name in importlib.import_module(f"rince.{package}").HOMES if name[0].isupper()]
        classes[part] = {name: f"rince.{package}.{name}" for name in names if name not in NOT_PARTS}
    for part, paths in OTHERS.items():
        classes[part] |= {path.rpartition(".")[2]: path for path in paths}
    return classes


def import_class(path: str) -> Any:
    """Class at an import path."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def current_paths(settings: Any) -> Any:
    """Nested settings in which classes of rince have their public import paths, wherever they were defined before."""
    if isinstance(settings, list):
        return [current_paths(value) for value in settings]
    if not isinstance(settings, dict):
        return settings
    settings = {name: current_paths(value) for name, value in settings.items()}
    path = settings.get("class_path")
    if isinstance(path, str) and path.startswith("rince."):
        package, name = path.split(".")[1], path.rpartition(".")[2]
        for classes in known_classes().values():
            if classes.get(name, "").startswith(f"rince.{package}."):
                settings["class_path"] = classes[name]
    return settings


def summary(path: str) -> str:
    """First line of the docstring of a class of rince, read from its source; empty for other classes."""
    module, _, name = path.rpartition(".")
    file = SOURCES / module.replace(".", "/")
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if path.startswith("rince.") else ():
        if isinstance(node, ast.ClassDef) and node.name == name:
            return (ast.get_docstring(node) or "").split("\n")[0].replace(":class:", "").replace("`", "")
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return summary(f"{node.module}.{name}")
    return ""
