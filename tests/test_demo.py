import json

import numpy as np
import pytest
import torch

from rince import cli, demo
from rince._support.folder_lock import locked
from rince.audit.fit.towers import FitConfig
from rince.compare.towers import split
from rince.data import digit_pairs
from rince.losses import CrossView, InfoNCE
from support import ranks
from support.chromium import Browser


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The demo, shortened: one seed, few epochs, towers fitted in a hurry."""
    folder = tmp_path_factory.mktemp("runs") / "demo"
    patch = pytest.MonkeyPatch()
    quick = FitConfig(members=1, folds=3, steps=60)
    patch.setattr("rince.audit.fit.cross_fit.FitConfig", lambda: quick)
    try:
        assert cli.main(["demo", "--seeds", "1", "--epochs", "3", "--jobs", "1", "--out", str(folder)]) == 0
    finally:
        patch.undo()
    return folder


def test_demo_report_renders_in_a_browser(ran, tmp_path):
    browser = Browser(tmp_path)
    try:
        for width in (390, 1280):
            browser.open(ran / "report.html", width=width, ready="document.documentElement.dataset.ready === 'yes'")
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            assert browser.evaluate("document.querySelectorAll('#rows tr').length") == 10
            assert browser.evaluate("document.querySelectorAll('#bars .bar').length") == 10
            assert browser.evaluate("document.querySelectorAll('#losses svg').length") == 2
            assert browser.evaluate("document.querySelectorAll('#list .row .tag').length") >= 4
            assert browser.complaints() == []
            assert browser.requests() == [(ran / "report.html").resolve().as_uri()]
    finally:
        browser.close()


def test_the_record_holds_the_rows_of_the_table(ran):
    record = json.loads((ran / "result.json").read_text())
    names = ["InfoNCE", "RINCE", "GCE", "weights", "oracle"]
    assert [(row["loss"], row["rate"]) for row in record["rows"]] == [(n, r) for r in (0.4, 0.0) for n in names]


def test_second_demo_uses_a_new_folder_unless_forced(ran):
    assert demo.fresh_folder(ran, force=False) == ran.with_name("demo-2")
    assert demo.fresh_folder(ran, force=True) == ran


def test_demo_locks_its_folder(tmp_path, capsys):
    with locked(tmp_path / "demo"):
        assert cli.main(["demo", "--out", str(tmp_path / "demo")]) == 2
    assert "is being written by another rince command" in capsys.readouterr().err


def test_demo_temperature_is_chosen_on_validation_pairs():
    def one(temperature, chosen_by, recall):
        nothing = np.zeros(1)
        return demo.Run("InfoNCE", temperature, 0.4, 0, chosen_by, recall, recall, 0.5, nothing, nothing > 0)

    runs = [one(0.1, 0.9, 0.1), one(0.2, 0.3, 0.8)]
    assert demo.best_temperature(runs, "InfoNCE", 0.4) == 0.1


def test_oracle_weights_are_zero_for_wrong_pairs_only():
    data = split(*map(torch.from_numpy, digit_pairs()[:2]), 0.4, 0, 200, 397)
    oracle = demo.weights_of(demo.Task("oracle", 0.2, 0.4, 0, 1), data)
    assert np.array_equal(oracle.numpy() == 0, data.wrong) and oracle.max() == 1
    assert all(demo.weights_of(demo.Task(name, 0.2, 0.4, 0, 1), data) is None for name in ("InfoNCE", "RINCE", "GCE"))


def test_demo_results_do_not_depend_on_the_number_of_processes(monkeypatch):
    monkeypatch.setattr("rince.compare.grid.get_context", lambda kind: ranks.context())
    tasks = [(i, demo.Task("GCE", 0.2, 0.4, i, 2)) for i in range(2)]
    one, two = (sorted(demo.work_off(tasks, demo.work, jobs), key=lambda x: x[0]) for jobs in (1, 2))
    assert [run.seed for _, run, _ in two] == [0, 1]
    for (_, a, _), (_, b, _) in zip(one, two, strict=True):
        assert np.allclose(a.scores, b.scores, atol=1e-4) and abs(a.recall_1 - b.recall_1) < 0.01


def test_demo_rejects_invalid_options_in_one_line(capsys):
    assert cli.main(["demo", "--seeds", "0"]) == 2
    assert "must be at least 1" in capsys.readouterr().err


def test_auc_against_all_comparisons():
    random = np.random.default_rng(0)
    scores, wrong = random.integers(0, 9, 60).astype(np.float32), random.random(60) < 0.4
    pairs = [(r > w) + 0.5 * (r == w) for r in scores[~wrong] for w in scores[wrong]]
    assert np.isclose(demo.auc(scores, wrong), np.mean(pairs))
    assert np.isnan(demo.auc(scores, np.zeros(60, bool)))


def test_recalls_count_the_rank_of_the_partner():
    z = torch.eye(20)
    swapped = z[[1, 0, *range(2, 20)]]
    assert demo.recalls(torch.nn.Identity(), torch.nn.Identity(), (z, z)) == (1.0, 1.0)
    assert demo.recalls(torch.nn.Identity(), torch.nn.Identity(), (z, swapped))[0] == pytest.approx(0.9)


def test_training_is_the_same_for_the_same_seed():
    torch.manual_seed(1)
    a, b = torch.randn(512, 8), torch.randn(512, 8)
    first, again = (
        demo.train_towers(a, b, InfoNCE(temperature=0.1, contrast=CrossView()), seed=3, epochs=1)[0] for _ in range(2)
    )
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), again.parameters(), strict=True))


def test_pair_of_weight_zero_has_no_influence():
    """Pairs without weight pull at nothing: who their partners are matters to them as negatives of others only."""
    torch.manual_seed(1)
    a, b = torch.randn(256, 8), torch.randn(256, 8)
    weights = (torch.arange(256) >= 128).float()
    order = torch.cat([torch.arange(128).flip(0), torch.arange(128, 256)])
    loss = InfoNCE(temperature=0.1, contrast=CrossView())
    plain = [demo.train_towers(a, x, loss, 3, 1)[0] for x in (b, b[order])]
    weighted = [demo.train_towers(a, x, loss, 3, 1, weights)[0] for x in (b, b[order])]

    def distance(f, g):
        return sum(float((p - q).abs().sum()) for p, q in zip(f.parameters(), g.parameters(), strict=True))

    assert distance(*weighted) < 0.05 * distance(*plain)
