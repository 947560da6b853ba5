"""The notebooks run, and are committed with the outputs of such a run."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def output_kinds(cells):
    """Kinds of the outputs of each cell: streams, results and figures."""
    return [[output.get("name", output["output_type"]) for output in cell["outputs"]] for cell in cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_with_outputs_like_the_committed_ones(path, tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(path, 4)
    committed = output_kinds(code_cells(notebook))
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert output_kinds(code_cells(notebook)) == committed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_committed_after_one_clean_run(path):
    cells = code_cells(json.loads(path.read_text("utf-8")))
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = [kind for cell in output_kinds(cells) for kind in cell]
    assert "error" not in kinds and "stderr" not in kinds
    assert kinds.count("display_data") >= 2
    assert path.stat().st_size < 300_000
