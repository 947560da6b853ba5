"""`rince finetune` from the outside: folders, splits, resuming, refusing, and what comes after."""

import shutil

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

import rince
from rince import cli
from rince.encoders.files import save_encoder
from rince.train.finetune import towers_of
from support.finetuned_digits import QUIET, SHORT, result_of


def test_run_writes_its_files_and_is_not_repeated(pretrained, capsys):
    before = {p.name: p.read_bytes() for p in pretrained.iterdir() if p.is_file()}
    assert cli.main(["finetune", str(pretrained), *SHORT]) == 0
    folder = pretrained / "finetune"
    assert f"{folder}: accuracy" in capsys.readouterr().out
    visible = {p.name for p in folder.iterdir() if not p.name.startswith(".")}
    assert visible == {"config.yaml", "metrics.csv", "last.ckpt", "encoder.safetensors", "result.json"}
    result = result_of(folder)
    assert result["steps"] == 12 and result["test_items"] == 400 and 0 <= result["accuracy"] <= 100
    assert result["accuracy"] == result["accuracy_of_single_views"] and not result["from_scratch"]
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["method"]["init_args"]["classes"] == 10 and config["encoder"]["init_args"]["width"] == 4
    assert cli.main(["finetune", str(pretrained), *SHORT]) == 2
    assert "finished run: choose another --name" in capsys.readouterr().err
    assert before == {p.name: p.read_bytes() for p in pretrained.iterdir() if p.is_file()}


def test_it_starts_from_the_weights_of_the_run_or_from_scratch(finetune, pretrained, tmp_path):
    """A frozen encoder still has the weights it started from."""
    assert finetune("linear", "--linear", "true") == 0
    assert finetune("scratch", "--from_scratch", "true", "--optimizer.lr", "1e-9") == 0
    start = rince.load_encoder(pretrained).state_dict()
    kept, other = (rince.load_encoder(tmp_path / name).state_dict() for name in ("linear", "scratch"))
    assert all(torch.equal(start[name], kept[name]) for name in start)
    assert not torch.equal(start["layers.0.weight"], other["layers.0.weight"])
    assert result_of(tmp_path / "scratch")["from_scratch"] and "sha256" not in result_of(tmp_path / "scratch")


def test_from_scratch_everything_is_trained_in_all_epochs(finetune, tmp_path):
    assert finetune("scratch", "--from_scratch", "true") == 0
    config = yaml.safe_load((tmp_path / "scratch" / "config.yaml").read_text())
    assert config["method"]["init_args"]["head_epochs"] == 0 and config["trainer"]["max_epochs"] == 3


def test_a_flag_that_stands_alone_is_true(finetune, tmp_path):
    assert finetune("a", "--linear", "--probe", "false") == 0 and finetune("b", "--from_scratch", "--probe") == 0
    a, b = (yaml.safe_load((tmp_path / name / "config.yaml").read_text()) for name in "ab")
    assert a["method"]["init_args"]["linear"] and not a["probe"] and not a["from_scratch"]
    assert b["from_scratch"] and b["probe"]


def test_items_without_a_label_are_left_out(finetune, tmp_path):
    labels = np.arange(64) % 3 - 1
    images = np.repeat(60 + 60 * labels, 64).reshape(64, 8, 8, 1).astype(np.uint8)
    np.savez(tmp_path / "some.npz", images=images, labels=labels, test_images=images, test_labels=labels)
    options = ["--data", "Arrays", "--data.path", str(tmp_path / "some.npz"), "--data.batch_size", "16"]
    assert finetune("a", *options) == 0
    result = result_of(tmp_path / "a")
    assert result["steps"] == 12 and (result["test_items"], result["test_items_without_label"]) == (42, 22)


SPLITS = ["--data", "support.finetuned_digits.SplitDigits"]


def test_every_split_has_a_folder_and_the_mean_is_told(finetune, tmp_path, capsys):
    assert finetune("splits", *SPLITS, "--splits", "1", "2", "--checkpoint_every", "2", crash_at=-1) == 0
    out = capsys.readouterr().out
    whole = result_of(tmp_path / "splits")
    parts = [result_of(tmp_path / "splits" / f"split-{k}")["accuracy"] for k in (1, 2)]
    assert whole["splits"] == {"1": parts[0], "2": parts[1]}
    encoders = [(tmp_path / "splits" / f"split-{k}" / "encoder.safetensors").read_bytes() for k in (1, 2)]
    assert encoders[0] != encoders[1]
    assert whole["accuracy"] == pytest.approx(sum(parts) / 2)
    assert whole["deviation"] == pytest.approx(abs(parts[0] - parts[1]) / 2**0.5)
    assert f"accuracy {whole['accuracy']:.2f} %, the mean of 2 splits" in out
    assert finetune("splits", *SPLITS, "--splits", "1", "2") == 2
    assert "choose another --name" in capsys.readouterr().err


def test_finished_splits_are_not_done_again(finetune, tmp_path, capsys):
    assert finetune("splits", *SPLITS, "--splits", "1", "2") == 0
    first = result_of(tmp_path / "splits")
    (tmp_path / "splits" / "result.json").unlink()  # as if it had been killed in the second split
    (tmp_path / "splits" / "split-2" / "result.json").unlink()
    stamp = (tmp_path / "splits" / "split-1" / "last.ckpt").stat().st_mtime_ns
    assert finetune("splits", *SPLITS, "--splits", "1", "2", "--method.dropout", "0.1") == 2
    assert "method.dropout = 0.5, now it is 0.1" in capsys.readouterr().err
    assert finetune("splits", *SPLITS, "--splits", "1", "2") == 0
    assert result_of(tmp_path / "splits") == first
    assert (tmp_path / "splits" / "split-1" / "last.ckpt").stat().st_mtime_ns == stamp


def test_evaluation_export_and_another_fine_tuning_follow(finetune, tmp_path):
    assert finetune("a") == 0
    assert cli.main(["evaluate", str(tmp_path / "a")]) == 0
    assert cli.main(["export", str(tmp_path / "a"), str(tmp_path / "mine.safetensors")]) == 0
    assert rince.load_encoder(tmp_path / "mine.safetensors")(torch.rand(2, 1, 8, 8)).shape == (2, 16)
    assert finetune("b", run=tmp_path / "a") == 0


def test_fine_tuning_from_an_exported_file(finetune, pretrained, tmp_path, capsys):
    file = tmp_path / "mine.safetensors"
    assert cli.main(["export", str(pretrained), str(file)]) == 0
    assert finetune("a", run=file) == 2
    assert "holds only an encoder: give a configuration, or --data and --views" in capsys.readouterr().err
    run = yaml.safe_load((pretrained / "config.yaml").read_text())
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"data": run["data"], "views": run["views"]}))
    assert cli.main(["finetune", str(file), str(config), *SHORT, "--out", str(tmp_path), "--name", "a"]) == 0
    assert finetune("b") == 0
    assert (tmp_path / "a" / "encoder.safetensors").read_bytes() == (tmp_path / "b/encoder.safetensors").read_bytes()


def test_file_cannot_run_code(finetune, tmp_path, capsys):
    file = tmp_path / "evil.safetensors"
    recipe = {"class_path": "rince.encoders.heads.Towers", "init_args": {"a": {"class_path": "os.system"}, "b": None}}
    save_encoder(file, torch.nn.Linear(2, 2), recipe, {})
    assert finetune("a", "--views", "rince.views.image.Recipe", "--data", "x.Y", run=file) == 2
    assert "encoder from outside rince, os.system" in capsys.readouterr().err


def test_data_that_are_given_take_nothing_from_the_data_of_the_run(finetune, tmp_path):
    assert finetune("a", *SPLITS, "--trainer.max_epochs", "1") == 0
    data = yaml.safe_load((tmp_path / "a" / "config.yaml").read_text())["data"]
    assert data["init_args"] == {"split": 1, "batch_size": 64, "limit": 256}


def test_methods_that_learn_no_labels_do_not_fine_tune(pretrained, tmp_path, capsys):
    assert cli.main(["finetune", str(pretrained), "--method", "SimCLR", "--out", str(tmp_path / "x")]) == 2
    assert "--method SimCLR does not fine-tune: leave it out" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_bad_input_is_one_line(finetune, pretrained, tmp_path, capsys):
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "config.yaml").write_text((pretrained / "config.yaml").read_text())
    (tmp_path / "text.safetensors").write_text("x")
    odd = tmp_path / "odd"
    shutil.copytree(pretrained, odd)
    (odd / "config.yaml").write_text((odd / "config.yaml").read_text().replace("    limit:", "    limt:"))
    cases = [
        ([odd], [], "'limt'; did you mean 'limit'?"),
        (["nowhere"], [], "there is no run at nowhere"),
        ([unfinished], [], "has no encoder.safetensors because the run is not finished"),
        ([tmp_path / "text.safetensors"], [], "is not a valid safetensors file"),
        ([pretrained], ["--encoder.width", "8"], "which does not fit this ConvNet: size mismatch for layers.0.weight"),
        (
            [pretrained],
            ["--data", "support.finetuned_digits.NoLabels"],
            "NoLabels has fewer than two classes",
        ),
        ([pretrained], ["--splits", "1", "2"], "has no splits: leave out --splits"),
        ([pretrained], ["--method.droput", "0"], "there is no option 'droput'; did you mean 'dropout'?"),
        ([pretrained], ["--method.classes", "3"], "labels must be in [0, 2], got 0 to 9: set method.classes"),
        ([pretrained], ["--tower", "zzz"], "has one encoder and no towers, got --tower zzz"),
        ([pretrained], ["--tower", "a"], "has one encoder and no towers, got --tower a: leave it out"),
        ([pretrained], ["--linear", "--from_scratch"], "only the classifier: leave out one of them"),
        ([pretrained], ["--method.linear", "true", "--from_scratch"], "only the classifier: leave out one of them"),
        ([pretrained], ["--views", "SoundRecipe"], "): set views"),
        ([pretrained], ["--views", "torch.nn.Identity"], "Identity does not make a single view to classify"),
    ]
    for i, (run, options, sentence) in enumerate(cases):
        assert finetune(f"bad-{i}", *options, run=run[0]) == 2, sentence
        error = capsys.readouterr().err
        assert sentence in error and error.count("\n") == 1
    assert cli.main(["finetune"]) == 2
    assert "rince finetune RUN" in capsys.readouterr().err
    assert cli.main(["finetune", str(pretrained), "nowhere.yaml"]) == 2
    assert "there is no configuration nowhere.yaml" in capsys.readouterr().err


def test_a_missing_extra_names_the_pip_install(pretrained, monkeypatch, capsys):
    import importlib

    real = importlib.import_module

    def without(name, *rest):
        if name.startswith("jsonargparse"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr("rince._support.optional_imports.importlib.import_module", without)
    assert cli.main(["finetune", str(pretrained)]) == 2
    assert "pip install 'rince[train]'" in capsys.readouterr().err


def test_help_and_print_config(pretrained, capsys):
    assert cli.main(["finetune", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--from-scratch" in shown and "rince finetune RUN" in shown
    with pytest.raises(SystemExit) as stop:
        cli.main(["finetune", str(pretrained), "--method.dropout", "0.25", "--print_config"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert "dropout: 0.25" in shown and "limit: 256" in shown and "CrossEntropyLoss" in shown


def test_one_tower_of_two_is_taken(pretrained, finetune, tmp_path, capsys):
    """The first tower is the encoder of the run, so that both must give the same."""
    from rince.encoders.heads import Towers
    from rince.encoders.images import ConvNet

    one = yaml.safe_load((pretrained / "config.yaml").read_text())
    other = {"class_path": "rince.encoders.images.ConvNet", "init_args": {"channels": 1, "width": 8}}
    recipe = {"class_path": "rince.encoders.heads.Towers", "init_args": {"a": one["encoder"], "b": other}}
    run = tmp_path / "pair"
    run.mkdir()
    (run / "config.yaml").write_text(yaml.safe_dump(one | {"encoder": recipe}))
    encoder = Towers(rince.load_encoder(pretrained), ConvNet(1, 8))
    save_encoder(run / "encoder.safetensors", encoder, recipe, {})
    assert set(towers_of(recipe)) == {"a", "b"} and towers_of(one["encoder"]) == {}
    assert finetune("no", run=run) == 2
    assert "has two encoders: choose" in capsys.readouterr().err
    assert finetune("a", "--tower", "a", run=run) == 0 and finetune("b", "--tower", "b", run=run) == 0
    assert finetune("plain") == 0
    a, plain, b = (load_file(tmp_path / name / "encoder.safetensors") for name in ("a", "plain", "b"))
    assert a.keys() == plain.keys() and all(torch.equal(a[name], plain[name]) for name in a)
    assert sum(map(torch.numel, b.values())) > sum(map(torch.numel, a.values()))


def test_either_tower_of_a_cross_modal_run_on_arrays(tmp_path):
    random = np.random.default_rng(0)
    labels = np.arange(300) % 3
    a, b = (np.eye(3)[labels] @ random.normal(size=(3, n)) + 0.1 * random.normal(size=(300, n)) for n in (6, 4))
    np.savez(tmp_path / "pairs.npz", a=a, b=b, labels=labels)
    side = {name: {"class_path": "rince.views.pair.Unchanged"} for name in "ab"}
    tower = "rince.encoders.images.MLP"
    towers = {name: {"class_path": tower, "init_args": {"widths": [n, 16]}} for name, n in (("a", 6), ("b", 4))}
    config = {
        "method": {"class_path": "rince.methods.cross_modal.CrossModal", "init_args": {"hidden": 8, "width": 8}},
        "encoder": {"class_path": "rince.encoders.heads.Towers", "init_args": towers},
        "views": {"class_path": "rince.views.pair.PairViews", "init_args": side},
        "data": {
            "class_path": "rince.data.pairs.PairedArrays",
            "init_args": {"path": str(tmp_path / "pairs.npz"), "batch_size": 30},
        },
    }
    (tmp_path / "pairs.yaml").write_text(yaml.safe_dump(config))
    run = tmp_path / "run"
    options = ["--trainer.max_epochs", "2", *QUIET, "--out", str(tmp_path), "--name", "run"]
    assert cli.main(["train", str(tmp_path / "pairs.yaml"), *options]) == 0
    for name in "ab":
        options = ["--tower", name, "--name", name, "--optimizer.lr", "0.03", "--trainer.max_epochs", "4", *QUIET]
        assert cli.main(["finetune", str(run), *options, "--method.head_epochs", "2"]) == 0
        assert result_of(run / name)["accuracy"] > 90
