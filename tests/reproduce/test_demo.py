import json

import numpy as np
import pytest
import torch

from chromium import Browser
from rince import cli
from rince.losses import InfoNCE
from rince.reproduce import demo


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The demo, shortened: one seed, few epochs, towers fitted in a hurry."""
    folder = tmp_path_factory.mktemp("runs") / "demo"
    patch = pytest.MonkeyPatch()
    quick = demo.Recipe(members=1, folds=3, steps=60)
    patch.setattr("rince.audit.fit.cross_fit.Recipe", lambda: quick)
    try:
        assert cli.main(["demo", "--seeds", "1", "--epochs", "6", "--out", str(folder)]) == 0
    finally:
        patch.undo()
    return folder


def test_the_report_opens_in_a_browser_with_table_bars_histograms_and_marked_pairs(ran, tmp_path):
    browser = Browser(tmp_path)
    try:
        for width in (390, 1280):
            browser.open(ran / "report.html", width=width, ready="document.documentElement.dataset.ready === 'yes'")
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            assert browser.evaluate("document.querySelectorAll('#rows tr').length") == 4
            assert browser.evaluate("document.querySelectorAll('#bars .bar').length") == 4
            assert browser.evaluate("document.querySelectorAll('#losses svg').length") == 2
            assert browser.evaluate("document.querySelectorAll('#list .row .tag').length") >= 4
            assert browser.complaints() == []
            assert browser.requests() == [(ran / "report.html").resolve().as_uri()]
    finally:
        browser.close()


def test_the_record_holds_the_rows_of_the_table(ran):
    record = json.loads((ran / "result.json").read_text())
    assert [(row["loss"], row["rate"]) for row in record["rows"]] == [
        ("InfoNCE", 0.4), ("RINCE", 0.4), ("InfoNCE", 0.0), ("RINCE", 0.0),
    ]  # fmt: skip


def test_a_second_demo_goes_into_a_new_folder_unless_forced(ran):
    assert demo.fresh_folder(ran, force=False) == ran.with_name("demo-2")
    assert demo.fresh_folder(ran, force=True) == ran


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


def test_the_split_keeps_training_choosing_and_testing_apart_and_tests_on_clean_pairs():
    x = np.arange(100, dtype=np.float32)[:, None]
    parts = demo.split(x, x, 0.4, seed=0, choose=10, test=20)
    rows = [set(part[:, 0].tolist()) for part in (parts.a, parts.choose[0], parts.test[0])]
    assert [len(r) for r in rows] == [70, 10, 20] and len(set.union(*rows)) == 100
    assert torch.equal(*parts.test) and torch.equal(*parts.choose)
    assert ((parts.a != parts.b)[:, 0].numpy() == parts.wrong).all() and parts.wrong.sum() == 28


def test_the_temperature_is_chosen_on_the_pairs_for_choosing_not_on_the_test():
    def one(temperature, chosen_by, recall):
        nothing = np.zeros(1)
        return demo.Run("InfoNCE", temperature, 0.4, 0, chosen_by, recall, recall, 0.5, nothing, nothing > 0)

    runs = [one(0.1, 0.9, 0.1), one(0.2, 0.3, 0.8)]
    assert demo.best_temperature(runs, "InfoNCE", 0.4) == 0.1


def test_training_is_the_same_for_the_same_seed():
    torch.manual_seed(1)
    a, b = torch.randn(512, 8), torch.randn(512, 8)
    first, again = (demo.train_towers(a, b, InfoNCE(0.1), seed=3, epochs=1)[0] for _ in range(2))
    assert all(torch.equal(p, q) for p, q in zip(first.parameters(), again.parameters(), strict=True))


def test_bad_settings_are_one_line(capsys):
    assert cli.main(["demo", "--seeds", "0"]) == 2
    assert "must be at least 1" in capsys.readouterr().err
