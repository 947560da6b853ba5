import numpy as np
import pytest

from experiments.paper.images.cifar10 import STEM_CONFIG
from experiments.training import loss_changes, loss_title, part, settings_of, split_loss, trained
from rince.errors import UsageError
from rince.train.config import instantiate, parse_settings, train_parser
from rince.train.run_folder import flat


def test_changes_apply_to_named_options_only():
    plain = settings_of(STEM_CONFIG, {})
    changed = settings_of(STEM_CONFIG, {"data.noise.eta": 0.2, "data.source.root": "x", "trainer.max_epochs": 3})
    before, after = flat(plain), flat(changed)
    differing = {key: after[key] for key in after if after[key] != before.get(key)}
    assert differing == {"data.noise.eta": 0.2, "data.source.root": "x", "trainer.max_epochs": 3}
    assert before.keys() == after.keys()


def test_changes_replace_and_add_parts():
    changed = settings_of("digits/simclr", {"loss": part("rince.InfoNCE", temperature=0.1), "data.noise": None})
    assert changed["loss"] == {"class_path": "rince.InfoNCE", "init_args": {"temperature": 0.1}}
    assert changed["data"]["init_args"]["noise"] is None


def test_changes_do_not_reach_into_other_settings():
    shared = part("rince.noise.pairs.Overdub", rate=0.4)
    first = settings_of("spoken_digits/rince", {"data.noise": shared})
    first["data"]["init_args"]["noise"]["init_args"]["rate"] = 0.9
    assert shared["init_args"]["rate"] == 0.4


@pytest.mark.parametrize(
    ("name", "found", "title"),
    [
        ("infonce", ("infonce", None, None), "InfoNCE"),
        ("infonce@0.2", ("infonce", None, 0.2), "InfoNCE, t 0.2"),
        ("rince-0.5@0.1", ("rince", 0.5, 0.1), "RINCE q 0.5, t 0.1"),
        ("rince-1", ("rince", 1.0, None), "RINCE q 1"),
        ("warm-up", ("warm-up", None, None), "RINCE, growing q"),
    ],
)
def test_names_of_losses(name, found, title):
    assert split_loss(name) == found and loss_title(name) == title


@pytest.mark.parametrize("name", ["hinge", "infonce-0.5", "rince-q", "rince@warm"])
def test_unknown_losses_are_named(name):
    with pytest.raises(UsageError, match=name):
        split_loss(name)


def test_named_loss_keeps_other_settings():
    parser = train_parser()

    def built(name):
        settings = settings_of("spoken_digits/rince", loss_changes("spoken_digits/rince", name))
        parts = instantiate(parser, parse_settings(parser, settings))
        return parts.loss, parts.method(parts.encoder, parts.loss, parts.views, parts.optimizer)

    loss, method = built("rince-0.7@0.3")
    assert (loss.q, loss.temperature, loss.scale) == (0.7, 0.3, "unit") and method.q_of is None
    loss, method = built("warm-up")
    assert (loss.q, loss.temperature) == (0.4, 0.5) and method.q_of(0) == 0.01 and method.q_of(1) == 0.4
    loss, method = built("infonce")
    assert type(loss).__name__ == "InfoNCE" and loss.temperature == 0.5 and method.q_of is None
    assert type(built("graphcl")[0]).__name__ == "DCL"


def test_a_finished_run_on_other_data_is_not_taken(tmp_path):
    data = tmp_path / "images.npz"
    numbers = np.random.default_rng(0)

    def run():
        changes = {
            "data": part("rince.data.images.Arrays", path=str(data), batch_size=16),
            "encoder.width": 2,
            "trainer.max_epochs": 1,
            "probe": False,
        }
        return trained(settings_of("digits/simclr", changes), tmp_path / "runs" / "a")

    np.savez(data, images=numbers.integers(0, 256, (32, 8, 8, 1), dtype=np.uint8))
    run()
    run()  # the same again: nothing is refused
    np.savez(data, images=numbers.integers(0, 256, (32, 8, 8, 1), dtype=np.uint8))
    with pytest.raises(UsageError, match=r"other data: .*--out"):
        run()
