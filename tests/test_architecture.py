"""Import layers of docs/architecture.md, checked against the imports of the sources."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "rince"
FILES = sorted(SOURCES.rglob("*.py"))


def read_layers():
    """Packages of the ``layers`` block in docs/architecture.md, lowest layer first."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    block = re.search(r"```layers\n(.*?)```", text, re.DOTALL)
    assert block is not None
    lines = [line.split("#")[0].split() for line in block[1].splitlines()]
    return [line for line in reversed(lines) if line]


LAYER = {package: height for height, packages in enumerate(read_layers()) for package in packages}


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCES.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def imported_modules(path: Path) -> list[str]:
    """Modules of rince that a file imports at run time, at any depth; imports for type checkers are left out."""
    modules: list[str] = []

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "rince":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            submodules = [name for name in names if name in MODULES]
            modules.extend(dict.fromkeys(submodules if len(submodules) == len(names) else [*submodules, node.module]))
        if isinstance(node, ast.Import):
            modules.extend(alias.name for alias in node.names if alias.name.split(".")[0] == "rince")
        for child in ast.iter_child_nodes(node):
            walk(child)

    walk(ast.parse(path.read_text("utf-8")))
    return modules


def find_cycle(graph: dict[str, list[str]]) -> list[str]:
    """A cycle of a directed graph, as the nodes on it; empty if there is none."""
    done: set[str] = set()

    def visit(node: str, trail: list[str]) -> list[str]:
        if node in trail:
            return trail[trail.index(node) :]
        if node in done:
            return []
        for other in graph.get(node, []):
            if cycle := visit(other, [*trail, node]):
                return cycle
        done.add(node)
        return []

    return next((cycle for node in graph if (cycle := visit(node, []))), [])


def package_of(path: Path) -> str:
    return path.relative_to(SOURCES).parts[0].removesuffix(".py")


def test_every_package_has_a_layer():
    assert {package_of(path) for path in FILES} - {"__init__", "__main__"} == set(LAYER)


@pytest.mark.parametrize("package", sorted(LAYER))
def test_package_imports_lower_layers_only(package):
    for path in FILES:
        if package_of(path) != package:
            continue
        for module in imported_modules(path):
            other = module.split(".")[1] if "." in module else "rince"
            if other in LAYER and other != package:
                assert LAYER[other] < LAYER[package], f"{path.relative_to(ROOT)} imports {module} from a higher layer"


# Packages whose modules still import each other in a circle.
WITH_CYCLES = {"audit"}


@pytest.mark.parametrize("package", sorted(LAYER))
def test_modules_of_a_package_do_not_import_in_a_circle(package):
    inside = {name: path for name, path in MODULES.items() if f"{name}.".startswith(f"rince.{package}.")}
    graph = {name: [m for m in imported_modules(path) if m in inside and m != name] for name, path in inside.items()}
    cycle = find_cycle(graph)
    assert not cycle or package in WITH_CYCLES, f"cycle: {' -> '.join(cycle)}"


def test_cycle_is_found():
    assert find_cycle({"a": ["b"], "b": ["c", "d"], "d": ["b"]}) == ["b", "d"]
    assert find_cycle({"a": ["b", "c"], "b": ["c"]}) == []


def test_imported_modules_are_found_at_any_depth(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import rince.cli\n"
        "def f():\n    from rince.audit.rate import p\nimport rince.views.image\nfrom rince import losses\n"
    )
    assert imported_modules(path) == ["rince.audit.rate", "rince.views.image", "rince.losses"]
