"""Short names of what comes with rince: ``digits/simclr`` is configs/digits/simclr.yaml, ``RINCE`` a class.

Classes are read from the sources, so that help and suggestions import neither torch nor them. There is no registry: the
public names of each package are its ``HOMES`` table. Classes of a user need no entry, their import path is enough.
"""

import ast
import contextlib
import difflib
import functools
import importlib
import inspect
from pathlib import Path
from typing import Any

from rince.errors import MissingExtra, MissingFile

PARTS = ("method", "encoder", "loss", "views", "data", "optimizer")
PACKAGES = {"method": "methods", "encoder": "encoders", "views": "views", "data": "data", "noise": "noise"}
# Public names that are base classes or building blocks, not choices for a part.
BASES = {"Method", "DataModule", "Images", "Pairs", "Graphs", "GraphData", "Views", "PatchStem", "StepRNG"}
OTHERS = {
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
        MissingFile: If there is neither, with the nearest name.
    """
    if Path(name).is_file():
        return Path(name)
    known = builtin_configs()
    short = name.removesuffix(".yaml").removeprefix("configs/")
    if short in known:
        return known[short]
    near = difflib.get_close_matches(short, known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise MissingFile(
        f"there is no configuration {name}{hint} (give a file of your own, or one of: {', '.join(known)})"
    )


def short_name(path: Path) -> str | None:
    """``digits/simclr`` for a file that comes with rince, None for any other."""
    path = path.resolve()
    return next((name for name, file in builtin_configs().items() if file.resolve() == path), None)


def configs_for(command: str) -> dict[str, str]:
    """Short name -> first comment line of the configurations for ``train`` or ``finetune``.

    The second line of a configuration shows the command that it is for.
    """
    found = {}
    for name, path in builtin_configs().items():
        title, usage = path.read_text(encoding="utf-8").split("\n")[:2]
        if f"rince {command} " in usage:
            found[name] = title.lstrip("# ").strip()
    return found


@functools.cache
def known_classes() -> dict[str, dict[str, str]]:
    """Short name -> import path of the classes of rince for each part of a run."""
    found: dict[str, dict[str, str]] = {}
    for part, name in PACKAGES.items():
        homes: dict[str, str] = importlib.import_module(f"rince.{name}").HOMES
        paths = [f"rince.{name}.{home}.{short}" for short, home in homes.items() if short not in BASES]
        found[part] = {path.rpartition(".")[2]: path for path in paths if _is_choice(path)}
    found["loss"] = _losses()
    for part, paths in OTHERS.items():
        found[part] = {**found.get(part, {}), **{path.rpartition(".")[2]: path for path in paths}}
    return {part: found[part] for part in (*PARTS, "noise", "callback")}


def import_known_classes() -> None:
    """Import the classes of rince, which lets jsonargparse find them by their short names."""
    for paths in known_classes().values():
        for path in paths.values():
            with contextlib.suppress(MissingExtra):  # reported if the user asks for it
                importlib.import_module(path.rpartition(".")[0])


def current_paths(settings: Any) -> Any:
    """Nested settings in which classes of rince have their current import paths, wherever they were defined before."""
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


def summary(path: str, part: str) -> str:
    """First line of the docstring of a class; of its module for methods and data, which says more."""
    if not path.startswith("rince."):
        return ""
    node = _module(path) if part in ("method", "data") and _is_only_class(path) else _class(path)
    text = "" if node is None else ast.get_docstring(node) or ""
    return text.split("\n")[0].replace("``", "")


def constructor_arguments(path: str) -> list[str]:
    """Names of the arguments of a constructor, read from its source."""
    node = _class(path)
    body = [] if node is None else node.body
    inits = [child for child in body if isinstance(child, ast.FunctionDef) and child.name == "__init__"]
    return [a.arg for init in inits for a in (*init.args.args[1:], *init.args.kwonlyargs)]


def argument_names(kind: type) -> list[str]:
    """Names of the arguments of an imported class and its bases."""
    inits = [vars(base)["__init__"] for base in inspect.getmro(kind) if "__init__" in vars(base)]
    return [name for init in inits if inspect.isfunction(init) for name in list(inspect.signature(init).parameters)[1:]]


def _losses() -> dict[str, str]:
    """Public losses by the modules that define them, the general class last."""
    import rince

    homes = {}
    for file in sorted((SOURCES / "rince" / "losses").rglob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and "ContrastiveLoss" in (node.name, *_bases(node)):
                module = file.relative_to(SOURCES).with_suffix("").as_posix().replace("/", ".")
                homes[node.name] = f"{module}.{node.name}"
    public = sorted((name for name in rince.__all__ if name in homes), key=lambda name: name == "ContrastiveLoss")
    return {name: homes[name] for name in public}


def _bases(node: ast.ClassDef) -> list[str]:
    return [base.id for base in node.bases if isinstance(base, ast.Name)]


@functools.cache
def _module(path: str) -> ast.Module:
    """Syntax tree of the module that defines the class at an import path."""
    module = SOURCES / path.rpartition(".")[0].replace(".", "/")
    file = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _class(path: str) -> ast.ClassDef | None:
    name = path.rpartition(".")[2]
    return next((node for node in _module(path).body if isinstance(node, ast.ClassDef) and node.name == name), None)


def _is_choice(path: str) -> bool:
    """Whether an import path leads to a class, but not to a named tuple."""
    node = _class(path)
    return node is not None and "NamedTuple" not in _bases(node)


def _is_only_class(path: str) -> bool:
    public = [node for node in _module(path).body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]
    return len(public) == 1
