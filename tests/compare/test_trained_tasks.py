import pytest

from rince.compare.trained_tasks import CIFAR10LabelNoise, SpokenDigits
from rince.train.parser import parse_settings, train_parser

RUN = {"loss": "rince-0.5", "temperature": 0.2, "rate": 0.4, "seed": 3}
TASKS = [SpokenDigits("recordings.zip"), CIFAR10LabelNoise("images")]


@pytest.fixture
def settings_of(monkeypatch, tmp_path):
    """The settings that a task trains with, as the parser of ``rince train`` takes them."""

    def find(task, run):
        seen = []
        monkeypatch.setattr(
            "rince.reproduce.training.trained", lambda settings, folder: seen.append(settings) or (0, 0)
        )
        monkeypatch.setattr(type(task), "measure", lambda self, method, data: {"validation": 1.0, "test": 2.0})
        assert task.run(run, tmp_path)["test"] == 2
        return parse_settings(train_parser(), seen[0])

    return find


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_run_is_the_shipped_configuration_with_its_own_loss_noise_and_seed(task, settings_of):
    found = settings_of(task, RUN)
    assert found.loss.class_path.endswith("RINCE")
    assert (found.loss.init_args.q, found.loss.init_args.temperature, found.seed) == (0.5, 0.2, 3)
    assert found.trainer.max_epochs == task.epochs and found.trust.source is None
    noise = found.data.init_args
    assert (noise.wrong_pairs if task.name == "spoken-digits" else noise.noise.init_args.rate) == 0.4


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_trust_is_found_on_the_way_and_epochs_can_be_given(task, settings_of):
    found = settings_of(task, {**RUN, "loss": "gce-1+trust", "epochs": 2})
    assert found.trust.source == "auto" and found.trainer.max_epochs == 2
    assert found.loss.class_path.endswith("GCE")
