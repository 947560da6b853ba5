"""Batches with several captions of a picture: they hold whole pictures, and ids and guide remove false negatives."""

import torch

from experiments.__main__ import main
from experiments.evidence import false_negatives as experiment
from experiments.evidence.false_negatives import METHODS
from experiments.evidence.noisy_pairs import Part, Task, shuffle, tower


def small_task(pictures=120):
    random = torch.Generator().manual_seed(0)
    a = torch.randn(pictures, 12, generator=random)
    a_of = torch.arange(pictures).repeat_interleave(5)
    part = Part(a, a[a_of] + 0.3 * torch.randn(len(a_of), 12, generator=random), a_of)
    return Task(part, part, part, 1, lambda rate, seed: shuffle(len(a_of), rate, seed), tower)


def test_a_batch_holds_all_captions_of_its_pictures():
    task = small_task()
    for rows in experiment.batches(task, 0):
        assert (task.train.a_of[rows].bincount() % 5 == 0).all() and len(rows) == 5 * experiment.PICTURES


def test_a_guide_that_knows_the_pictures_equals_ids():
    random = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 20, 8, generator=random)
    picture = torch.arange(20) // 5
    alike = (picture[:, None] == picture[None]).float()
    for q, objective in ((0.0, "InfoNCE"), (1.0, "GCE")):
        settings = {"q": 1.0} if q else {}
        known = experiment.library(objective, True, temperature=0.2, **settings)(a, b, picture, alike)
        guided = experiment.guided(q, 0.2, 0.5)(a, b, picture, alike)
        assert torch.isclose(known, guided, rtol=1e-5)
    assert not torch.isclose(experiment.guided(1.0, 0.2, 2.0)(a, b, picture, alike), guided)


def test_settings_are_chosen_on_seed_0_and_reported_on_others(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(experiment, "EPOCHS", 1)
    monkeypatch.setattr(experiment, "task", small_task)
    few = {name: (make, {key: values[1:2] for key, values in grid.items()}) for name, (make, grid) in METHODS.items()}
    few["InfoNCE"] = METHODS["InfoNCE"][0], {"temperature": (0.1, 0.2)}
    monkeypatch.setattr(experiment, "METHODS", few)
    assert main(["false-negatives", "--seeds", "2", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("±") == len(METHODS) and "2 seeds" in shown and "InfoNCE, guide (temperature 0.1, thr" in shown
