"""The notebooks run from top to bottom, and are committed with the outputs of such a run."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def code_cells(path):
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def kinds(cells):
    """What every cell shows, in order: streams, results and pictures."""
    return [[output.get("name", output["output_type"]) for output in cell["outputs"]] for cell in cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_is_committed_with(path, tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(path, 4)
    ran = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in ran.cells if cell.cell_type == "code"]
    assert kinds(cells) == kinds(code_cells(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_as_it_was_run(path):
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    shown = [kind for cell in kinds(cells) for kind in cell]
    assert "error" not in shown and "stderr" not in shown
    assert shown.count("display_data") >= 2
    assert path.stat().st_size < 300_000


def test_there_are_two_notebooks():
    assert {path.stem for path in NOTEBOOKS} == {"audit", "choosing_a_loss"}
