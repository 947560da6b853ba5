"""Batches with several captions of a picture: they hold whole pictures, and ids and guide remove false negatives."""

import torch

from experiments.evidence import false_negatives as experiment
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


def test_every_method_trains(monkeypatch):
    monkeypatch.setattr(experiment, "EPOCHS", 1)
    for make, grid in experiment.METHODS.values():
        setting = {name: values[-1] for name, values in grid.items()}
        assert 0 <= experiment.run(small_task(), make(**setting), 0)["test"] <= 600
