"""The experiments from end to end, small, on a data set written for the purpose; and their resumption."""

import contextlib
import csv
import io
import json

import pytest

from experiments.__main__ import main
from experiments.paper.graphs import PAPER, paired_test


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Paths against rings, thirty of each."""
    folder = tmp_path_factory.mktemp("data") / "TOY"
    folder.mkdir()
    pairs, indicator, first = [], [], 1
    for i in range(60):
        nodes = 5 + i % 3
        ring = [(first + k, first + (k + 1) % nodes) for k in range(nodes - i % 2)]
        pairs += [*ring, *((v, u) for u, v in ring)]
        indicator += [i + 1] * nodes
        first += nodes
    (folder / "TOY_A.txt").write_text("".join(f"{u}, {v}\n" for u, v in pairs))
    (folder / "TOY_graph_indicator.txt").write_text("".join(f"{g}\n" for g in indicator))
    (folder / "TOY_graph_labels.txt").write_text("".join(f"{i % 2}\n" for i in range(60)))
    return folder.parent


COMMON = ["--datasets", "TOY", "--epochs", "2", "--seeds", "1", "--workers", "1"]
CASES = {
    "tudataset": ["--losses", "rince", "graphcl", "--views", "published"],
    "graph-perturbation": ["--rates", "0.1", "0.5", "--losses", "rince"],
    "graph-wrong-pairs": ["--rates", "0", "0.5", "--losses", "rince-0.5"],
}


@pytest.fixture(scope="module")
def done(root, tmp_path_factory):
    """The folder of an experiment that has been run, and its command."""
    found = {}

    def run(experiment):
        if experiment not in found:
            folder = tmp_path_factory.mktemp(experiment)
            command = [experiment, *COMMON, "--root", str(root), "--out", str(folder), *CASES[experiment]]
            with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()) as told:
                assert main(command) == 0
            found[experiment] = folder, command, said.getvalue(), told.getvalue()
        return found[experiment]

    return run


@pytest.mark.parametrize("experiment", CASES)
def test_an_experiment_writes_all_its_files_and_resumes(experiment, done, capsys):
    folder, command, said, told = done(experiment)
    assert "[2/2]" in told
    assert (folder / "table.md").read_text() == said
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    with open(folder / "results.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 2
    if experiment != "tudataset":
        return
    results = sorted((folder / "results").iterdir())
    before = results[0].read_bytes()
    results[-1].unlink()
    assert main(command) == 0
    again = capsys.readouterr()
    assert "1 of 2 runs are already finished" in again.err
    assert again.out == said  # the run that was done again gave the same
    assert results[0].read_bytes() == before


def test_graph_run_has_a_run_folder(done):
    """The settings are those of the shipped configuration, and the encoder is the one that is evaluated."""
    import yaml

    from rince.evaluate.svm import features_of, svm_accuracy
    from rince.train.load import load_run

    (folder,) = (path for path in (done("tudataset")[0] / "runs").iterdir() if "rince" in path.name)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["loss"]["init_args"] | {"q": 0.1, "lam": 0.025, "temperature": 0.2} == config["loss"]["init_args"]
    assert config["optimizer"]["init_args"]["lr"] == 0.01 and config["encoder"]["init_args"]["in_features"] == 1
    method, data, _ = load_run(folder)
    accuracy = 100 * svm_accuracy(features_of(method.encoder, data.graphs), data.graphs.y, seed=0).accuracy
    (result,) = (path for path in (folder.parents[1] / "results").iterdir() if "rince" in path.name)
    assert json.loads(result.read_text())["accuracy"] == pytest.approx(accuracy)


def test_table_has_a_row_for_every_kind_of_views_and_loss(done):
    said = done("tudataset")[2]
    assert "| published views, GraphCL's form |" in said and "| published views, RINCE " in said


def results(infonce: list[float], rince: list[float]) -> list[dict]:
    return [
        {"settings": {"dataset": "NCI1", "views": "published", "loss": loss, "seed": seed}, "accuracy": accuracy}
        for loss, values in (("graphcl", infonce), ("rince", rince))
        for seed, accuracy in enumerate(values)
    ]


def test_paired_test_compares_the_same_seeds():
    told = paired_test(results([70, 72, 71], [71, 72, 73, 99]), "NCI1", "published", "graphcl")
    # Differences 1, 0, 2: mean 1, standard error 1 / sqrt 3, t quantile 4.303.
    assert "+1.00 [-1.48, +3.48], p = 0.225, 3 paired seeds" in told
    assert "no verdict" in paired_test(results([75, 74], [70, 71]), "NCI1", "published", "graphcl")
    assert paired_test([], "NCI1", "published", "graphcl") is None


def test_the_papers_numbers_are_there_for_all_four_data_sets():
    assert PAPER["graphcl"].keys() == PAPER["rince"].keys() == {"REDDIT-BINARY", "NCI1", "PROTEINS", "DD"}
