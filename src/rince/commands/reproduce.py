"""``rince reproduce``: lists the experiments, or runs one."""

import ast
import difflib
import importlib
from pathlib import Path
from typing import NamedTuple

from rince.errors import UsageError

ROOM = Path(__file__).parents[1] / "reproduce"


class Found(NamedTuple):
    """An experiment: the module that has its ``main``, and one line on it."""

    module: str
    summary: str


def experiments() -> dict[str, Found]:
    """All experiments by name: every file below ``rince.reproduce`` with a ``main``, read without importing it."""
    found = {}
    for path in sorted(ROOM.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(map(_is_main, tree.body)):
            module = ".".join(("rince.reproduce", *path.relative_to(ROOM).with_suffix("").parts))
            summary = (ast.get_docstring(tree) or "").split("\n")[0].replace("``", "")
            found[path.stem.replace("_", "-")] = Found(module, summary)
    return dict(sorted(found.items()))


def _is_main(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "main" for target in node.targets)
    return isinstance(node, ast.FunctionDef) and node.name == "main"


def usage() -> str:
    known = experiments()
    width = max(map(len, known))
    rows = "\n".join(f"  {name:<{width}}  {found.summary}" for name, found in known.items())
    return (
        "usage: rince reproduce EXPERIMENT [options]\n\n"
        f"experiments:\n{rows}\n\n"
        "An interrupted experiment goes on where it stopped when the same command is given again.\n"
        "`rince reproduce EXPERIMENT --help` lists its options."
    )


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0
    name, known = arguments[0], experiments()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise UsageError(f"there is no experiment '{name}'{hint} (rince reproduce lists them)")
    return importlib.import_module(known[name].module).main(arguments[1:])
