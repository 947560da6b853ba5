from rince.cli import main
from rince.reproduce.images.image_rivals import METHODS, ImageRivals


def test_every_rival_has_its_settings_on_both_data_sets():
    experiment = ImageRivals()
    options = experiment.parser().parse_args(["--data", "digits", "cifar10", "--seeds", "1"])
    runs = experiment.runs(options)
    assert len(runs) == 2 * len(METHODS)
    for run in runs:
        settings, own = experiment.settings(run, options), experiment.settings({**run, "data": "digits"}, options)
        assert settings["method"] == own["method"] and settings["loss"] == own["loss"]
        assert ("CIFAR10" in settings["data"]["class_path"]) == (run["data"] == "cifar10")


def test_a_rival_is_trained_and_tabulated(tmp_path, capsys):
    assert (
        main(
            ["reproduce", "image-rivals", "--methods", "swav", "--seeds", "1", "--epochs", "1", "--out", str(tmp_path)]
        )
        == 0
    )
    assert "| swav " in capsys.readouterr().out
