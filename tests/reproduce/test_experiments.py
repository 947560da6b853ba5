"""The experiments from end to end, small, on a data set written for the purpose; and their resumption."""

import csv
import json

import pytest
import torch

from rince.cli import main
from rince.reproduce.graph_wrong_pairs import wrong_partners
from rince.reproduce.tudataset import PAPER, verdicts


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
    "tudataset": (["--seeds", "2"], 4),
    "graph-perturbation": (["--rates", "0.1", "0.5", "--losses", "rince"], 2),
    "graph-wrong-pairs": (["--rates", "0", "0.5", "--losses", "rince-0.5"], 2),
}


@pytest.mark.parametrize("experiment", CASES)
def test_an_experiment_writes_all_its_files_and_resumes(experiment, root, tmp_path, capsys):
    extra, number = CASES[experiment]
    command = ["reproduce", experiment, *COMMON, "--root", str(root), "--out", str(tmp_path), *extra]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert f"[{number}/{number}]" in shown.err
    assert (tmp_path / "table.md").read_text() == shown.out
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["runs"]) == number
    with open(tmp_path / "results.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) >= number
    runs = sorted((tmp_path / "runs").iterdir())
    before = runs[0].read_bytes()
    runs[-1].unlink()
    assert main(command) == 0
    again = capsys.readouterr()
    assert f"{number - 1} of {number} runs are finished already" in again.err
    assert again.out == shown.out  # the run that was done again gave the same
    assert runs[0].read_bytes() == before


def test_both_epochs_are_kept_and_the_reported_one_is_named(root, tmp_path, capsys):
    main(["reproduce", "tudataset", *COMMON, "--losses", "graphcl", "--root", str(root), "--out", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "GraphCL's form, epoch 2" in shown
    assert "GraphCL's form, epoch 1" in shown
    assert "Epoch 2 is the one reported" in shown


def result(loss: str, seed: int, accuracy: float) -> dict:
    return {
        "settings": {"dataset": "NCI1", "loss": loss, "seed": seed},
        "epochs": {"20": {"accuracy": accuracy}},
    }


def test_a_lead_within_the_spread_is_not_called_a_lead():
    near = [result("infonce", 0, 70), result("infonce", 1, 72), result("rince", 0, 71), result("rince", 1, 72)]
    assert "no difference beyond the spread" in verdicts(near, ["NCI1"], ["infonce", "rince"], 20)[0]
    far = [result("infonce", 0, 70), result("infonce", 1, 70.5), result("rince", 0, 75), result("rince", 1, 75.5)]
    assert "RINCE is ahead" in verdicts(far, ["NCI1"], ["infonce", "rince"], 20)[0]
    assert "RINCE is behind" in verdicts(
        [result("infonce", 0, 75), result("infonce", 1, 75.1), result("rince", 0, 70), result("rince", 1, 70)],
        ["NCI1"], ["infonce", "rince"], 20,
    )[0]  # fmt: skip


def test_the_papers_numbers_are_there_for_all_four_data_sets():
    assert PAPER["infonce"].keys() == PAPER["rince"].keys() == {"REDDIT-BINARY", "NCI1", "PROTEINS", "DD"}


def test_wrong_partners_are_strangers_used_once_and_as_many_as_asked_for():
    partners, wrong = wrong_partners(50, 0.3, torch.Generator().manual_seed(0))
    assert wrong.sum() == 15
    assert torch.equal(partners != torch.arange(50), wrong)
    assert partners.sort().values.tolist() == list(range(50))
    again, _ = wrong_partners(50, 0.3, torch.Generator().manual_seed(0))
    assert torch.equal(partners, again)
    assert not wrong_partners(50, 0, torch.Generator())[1].any()
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        wrong_partners(50, 1.2, torch.Generator())
