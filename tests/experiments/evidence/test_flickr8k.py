"""The noisy-correspondence experiment: recalls, shuffles, every method, and resuming."""

import numpy as np
import pytest
import torch

from experiments.__main__ import main
from experiments.evidence import audit_data, flickr8k, noisy_pairs


def small_task(items=150, of_each=2):
    random = torch.Generator().manual_seed(0)
    parts = []
    for _ in range(3):
        a = torch.randn(items, 12, generator=random)
        a_of = torch.arange(items).repeat_interleave(of_each)
        b = a[a_of] + 0.3 * torch.randn(len(a_of), 12, generator=random)
        parts.append(noisy_pairs.Part(a, b, a_of))
    return noisy_pairs.Task(*parts, 3, lambda rate, seed: noisy_pairs.shuffle(len(a_of), rate, seed), noisy_pairs.tower)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(flickr8k, "task_of", lambda data: small_task())
    monkeypatch.setattr(flickr8k, "BATCH", 64)
    flickr8k.estimate.cache_clear()
    yield
    flickr8k.estimate.cache_clear()


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
    partner, wrong = noisy_pairs.shuffle(200, 0.4, 1)
    assert wrong.sum() == 80 and (np.sort(partner) == np.arange(200)).all()
    assert not np.array_equal(partner, noisy_pairs.shuffle(200, 0.4, 2)[0])


@pytest.mark.parametrize("name", flickr8k.METHODS)
def test_every_method_trains(name):
    method = flickr8k.METHODS[name]
    setting = {setting: values[1 % len(values)] for setting, values in method.grid.items()}
    result = flickr8k.train(small_task(), method, setting, 0.4, 1, torch.ones(300))
    assert 0 <= result["sum"] <= 600


def options_of(*arguments):
    return flickr8k.Flickr8k().parser().parse_args(arguments)


def test_experiment_tunes_reports_and_resumes(small, tmp_path, monkeypatch, capsys):
    command = ["flickr8k", "--rates", "0.4", "--seeds", "2", "--out", str(tmp_path)]
    command += ["--methods", "InfoNCE", "GCE, q 1", "weights, GCE"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "2 seeds" in shown and "40%, weights, GCE: " in shown and "| 40%, seed 2 | found " in shown
    monkeypatch.setattr(flickr8k, "train", lambda *given: pytest.fail("trained again"))
    assert main(command) == 0
    assert capsys.readouterr().out == shown


def test_tuning_climbs_to_a_setting_that_beats_its_neighbors():
    validation = {0.05: 1.0, 0.1: 5.0, 0.2: 4.0, 0.3: 3.0, 0.4: 9.0}
    experiment, results, tried = flickr8k.Flickr8k(), [], []
    while missing := experiment.tuned(results, "digits", "InfoNCE", 0.6)[1]:
        tried += [(run["rate"], run["temperature"]) for run in missing]
        results += [{"settings": run, "validation": validation[run["temperature"]]} for run in missing]
    assert experiment.tuned(results, "digits", "InfoNCE", 0.6)[0] == {"temperature": 0.1}
    assert sorted(tried) == [(0.4, t) for t in (0.05, 0.1, 0.2, 0.3)]


def test_methods_are_compared_over_common_seeds():
    level = {"InfoNCE": 100.0, "GCE, q 1": 150.0, "weights, GCE": 190.0, "oracle, InfoNCE": 200.0, "oracle, GCE": 180.0}
    experiment, results = flickr8k.Flickr8k(), []
    for name, value in level.items():
        q = {"q": 1.0} if "GCE" in name else {}
        for temperature in (0.1, 0.2, 0.3):
            for seed in (0, 1, 2):
                run = experiment.run_of("flickr8k", name, {**q, "temperature": temperature}, 0.4, seed)
                scores = {"validation": 1.0 + (temperature == 0.2), "sum": value + temperature, "cpu_seconds": 1.0}
                results.append({"settings": run, **scores})
    options = options_of("--rates", "0.4", "--methods", *level)
    assert ("GCE, q 1", "40%", 150.2) in list(experiment.cells(results, options))
    text = "\n".join(experiment.remarks(results, options))
    assert "GCE, q 1 q 1, t 0.2" in text
    assert "40%, weights, GCE: +40.0 ± 0.0 against GCE q 1 (2 seeds); 90% of the way from InfoNCE to the best" in text


def test_whole_files_are_shifted(monkeypatch):
    unit = np.arange(4500) // 9
    pairs = audit_data.Pairs(*np.random.default_rng(0).normal(size=(2, 4500, 8)).astype(np.float32), unit)
    monkeypatch.setattr(audit_data, "load", lambda name: pairs)
    partner, wrong = noisy_pairs.load_task("docstrings-shifted").noise(0.2, 1)
    assert 0.2 <= wrong.mean() < 0.21
    assert (np.abs(partner - np.arange(len(partner))) < 9).all() and (np.sort(partner) == np.arange(len(wrong))).all()
