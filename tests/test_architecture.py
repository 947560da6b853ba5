"""The arrows of docs/architecture.md, held by reading the imports; and the size that rooms and files may have."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "rince"
FILES = sorted(SOURCES.rglob("*.py"))


def floors():
    """The rooms of the picture in docs/architecture.md, from the ground up; a line is a floor."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    block = re.search(r"```floors\n(.*?)```", text, re.DOTALL)
    assert block is not None
    lines = [line.split("#")[0].split() for line in block[1].splitlines()]
    return [line for line in reversed(lines) if line]


FLOOR = {room: height for height, rooms in enumerate(floors()) for room in rooms}


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "rince"


def imports_of(path: Path) -> list[str]:
    """The modules of rince that a file imports when it runs, anywhere in it; not those for type checkers only."""
    found: list[str] = []

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "rince":
            deeper = [f"rince.{alias.name}" for alias in node.names] if node.module == "rince" else [node.module]
            found.extend(deeper)
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names if alias.name.split(".")[0] == "rince")
        for child in ast.iter_child_nodes(node):
            walk(child)

    walk(ast.parse(path.read_text("utf-8")))
    return found


def own_room(path: Path) -> str:
    return path.relative_to(SOURCES).parts[0].removesuffix(".py")


def test_every_room_has_its_floor():
    assert {own_room(path) for path in FILES} - {"__init__", "__main__"} == set(FLOOR)


@pytest.mark.parametrize("room", sorted(FLOOR))
def test_a_room_leans_on_lower_floors_only(room):
    """So there are no cycles between rooms. Names that rince itself exports are those of the losses and encoders."""
    for path in FILES:
        if own_room(path) != room:
            continue
        for module in imports_of(path):
            other = room_of(module)
            if other in FLOOR and other != room:
                assert FLOOR[other] < FLOOR[room], f"{path.relative_to(ROOT)} imports {module}, which is not below it"


def test_the_reader_of_imports_sees_them(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import rince.cli\n"
        "def f():\n    from rince.audit.estimate.rate import p\nimport rince.views.image\nfrom rince import losses\n"
    )
    assert imports_of(path) == ["rince.audit.estimate.rate", "rince.views.image", "rince.losses"]


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "examples"])
def test_no_file_is_longer_than_a_head_can_hold(folder):
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in (ROOT / folder).rglob("*.py")}
    assert lines and not {str(path.relative_to(ROOT)): count for path, count in lines.items() if count > 300}


def test_no_room_has_more_than_fifteen_files_on_one_level():
    for folder in {path.parent for path in FILES}:
        files = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(files) <= 15, (folder, len(files))


def test_training_asks_by_contract_and_probes_for_nothing():
    """What data, methods and batches can do stands in their base classes; ``getattr`` without a default imports."""
    for path in FILES:
        if own_room(path) != "train":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                probes = node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3)
                assert not probes, f"{path.relative_to(ROOT)}:{node.lineno} probes for an attribute"
