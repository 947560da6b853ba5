"""The noisy-correspondence experiment: recalls, shuffles, every method, and resuming."""

import numpy as np
import pytest
import torch

from experiments.evidence import flickr8k


def small_task(items=150, of_each=2):
    random = torch.Generator().manual_seed(0)
    parts = []
    for _ in range(3):
        a = torch.randn(items, 12, generator=random)
        a_of = torch.arange(items).repeat_interleave(of_each)
        b = a[a_of] + 0.3 * torch.randn(len(a_of), 12, generator=random)
        parts.append(flickr8k.Part(a, b, a_of))
    return flickr8k.Task(*parts, 3)


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    monkeypatch.setattr(flickr8k, "load_task", lambda name: small_task())
    monkeypatch.setattr(flickr8k, "BATCH", 64)
    return lambda: flickr8k.Experiment("small", tmp_path)


def test_recalls_agree_with_a_slow_count():
    part = small_task(40).test
    towers = torch.nn.ModuleList([torch.nn.Linear(12, 5), torch.nn.Linear(12, 5)])
    scores = torch.cosine_similarity(towers[0](part.a)[:, None], towers[1](part.b)[None], dim=2).detach().numpy()
    expected = {}
    for k in (1, 5, 10):
        of_a = [set(np.argsort(-row)[:k]) & set(np.flatnonzero(part.a_of == i)) for i, row in enumerate(scores)]
        of_b = [int(part.a_of[j]) in np.argsort(-column)[:k] for j, column in enumerate(scores.T)]
        expected |= {f"a2b@{k}": 100 * np.mean([bool(hit) for hit in of_a]), f"b2a@{k}": 100 * np.mean(of_b)}
    found = flickr8k.recalls(towers, part)
    assert found.pop("sum") == pytest.approx(sum(expected.values()))
    assert found == pytest.approx(expected)


def test_shuffle_moves_the_given_share():
    partner, wrong = flickr8k.shuffle(200, 0.4, 1)
    assert wrong.sum() == 80 and (np.sort(partner) == np.arange(200)).all()
    assert not np.array_equal(partner, flickr8k.shuffle(200, 0.4, 2)[0])


@pytest.mark.parametrize("name", flickr8k.METHODS)
def test_every_method_trains(name):
    method, task = flickr8k.METHODS[name], small_task()
    result = flickr8k.run(task._replace(epochs=3), method, method.grid[0], 0.4, 1, torch.ones(300))
    assert 0 <= result["sum"] <= 600


def test_finished_runs_are_not_repeated(experiment, monkeypatch):
    first = experiment().result("InfoNCE", {"temperature": 0.2}, 0.4, 1)
    monkeypatch.setattr(flickr8k, "run", lambda *given: pytest.fail("trained again"))
    assert experiment().result("InfoNCE", {"temperature": 0.2}, 0.4, 1) == first


def test_summary_compares_methods_over_common_seeds(experiment, monkeypatch):
    level = {"InfoNCE": 100.0, "GCE, q 1": 150.0, "weights, GCE": 190.0, "oracle, InfoNCE": 200.0}
    monkeypatch.setattr(flickr8k, "run", lambda task, method, *given: {"validation": 0.0, "a2b@1": 1.0, "b2a@1": 2.0})
    found = experiment()
    for name, value in level.items():
        for setting in flickr8k.METHODS[name].grid:
            for seed in (0, 1, 2):
                found.done.append(
                    {"method": name, "setting": setting, "rate": 0.4, "seed": seed, "validation": 1.0, "sum": value}
                    | {"a2b@1": 1.0, "b2a@1": 2.0}
                )
    text = flickr8k.summary(found)
    assert "40%, weights, GCE: 90% of the way to the oracle, +40.0 ± 0.0 against GCE q 1 (2 seeds)" in text
