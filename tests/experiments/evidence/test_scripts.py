"""The smallest settings of the experiments that are scripts rather than grids of runs."""

import sys

import numpy as np
import pytest

from experiments.__main__ import EXPERIMENTS, main
from experiments.evidence import audit_accuracy, trust, trust_trained
from experiments.evidence.audit_benchmark import benchmark
from experiments.evidence.audit_benchmark.pairings import Pairing
from experiments.training import settings_of
from rince.audit import audit_pairs
from rince.train.config import parse_settings, train_parser


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_help_does_not_import_optional_libraries(name, monkeypatch, capsys):
    if name == "graph-baselines":
        pytest.importorskip("torch_geometric")
    for library in ("sentence_transformers", "transformers", "datasets", "tokenizers", "cleanlab"):
        monkeypatch.setitem(sys.modules, library, None)  # importing it fails, as where it is not installed
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0 and "usage:" in capsys.readouterr().out


def test_audit_accuracy(monkeypatch, capsys):
    from rince.data.digit_halves import digit_pairs

    monkeypatch.setattr(audit_accuracy, "digit_pairs", lambda cut: tuple(side[:300] for side in digit_pairs(cut)))
    monkeypatch.setattr(
        audit_accuracy, "audit_pairs", lambda a, b, fit, seed: audit_pairs(a, b, seed=seed)
    )  # fitting takes seconds
    assert main(["audit-accuracy", "--rates", "0.4", "--seeds", "1"]) == 0
    assert "digits rows" in capsys.readouterr().out


def test_statements(capsys):
    assert main(["statements", "--cases", "20"]) == 0
    assert "statements," in capsys.readouterr().out


def test_trust(tmp_path, capsys, monkeypatch):
    data = trust.data_set("digits", "")
    short = data._replace(training=data.training._replace(epochs=1))
    monkeypatch.setattr(trust, "data_set", lambda name, root: short)
    assert main(["trust", "--rates", "0.4", "--seeds", "1", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "co-teaching" in out and "oracle" in out and "- Audit at 40%, seed 10" in out


def test_settings_of_trained_trust(tmp_path):
    parser = train_parser()
    for kind in trust_trained.TASKS.values():
        task = kind()
        for _, changes in task.runs(task.rates[0]).values():
            settings = settings_of(task.config, changes | task.changes("source", tmp_path, task.rates[0], 0))
            assert parse_settings(parser, settings).data is not None


def test_audit_benchmark(monkeypatch, tmp_path, capsys):
    draw = np.random.default_rng(0)
    a = draw.standard_normal((300, 8), dtype=np.float32)
    embeddings = Pairing("made up", lambda: (a, a + 0.2 * a[::-1]), fit=False, family="made up", rates=(0.3,))
    monkeypatch.setattr(benchmark, "pairings", lambda places: [embeddings])
    assert main(["audit-benchmark", "--cache", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "1 pairings, 2 cases" in out and "interval holds the truth" in out
