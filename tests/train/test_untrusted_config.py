"""Run folders of others: `rince evaluate`, `export` and `finetune` import and download nothing that they name."""

import importlib
import json
import sys

import pytest
import yaml

from rince import cli
from rince.errors import UsageError
from rince.train.load import allowed_paths, load_run

TINY = [
    "digits/simclr", "--encoder.width", "2", "--probe", "false", "--data.limit", "128", "--data.batch_size", "64",
    "--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false",
    "--trainer.enable_model_summary", "false",
]  # fmt: skip
EVIL = "untrusted_module.Evil"
TIMM = "rince.integrations.timm.TimmEncoder"


def part(kind, **arguments):
    return {"class_path": kind, "init_args": arguments}


def own_views(transform):
    return {"views": part("rince.views.OwnViews", transform=transform)}


# Functions of torch that import the module they are given.
IMPORTERS = [
    part("torch.nn.attention._fa3.register_flash_attention_fa3", module_path="untrusted_module"),
    part("torch.nn.attention._fa4._fa4_import_module", module_path="untrusted_module"),
    json.dumps(part("torch.nn.attention._fa4._fa4_import_module", module_path="untrusted_module")),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    assert cli.main(["train", *TINY, "--out", str(out), "--name", "a"]) == 0
    return out / "a"


@pytest.fixture
def folder(run, tmp_path, monkeypatch):
    """A copy of the run, a module that leaves a trace when it is imported, and downloads that fail the test."""
    (tmp_path / "untrusted_module.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'owned')!r}).mkdir(exist_ok=True)\n"
        "from rince.encoders import ConvNet\nclass Evil(ConvNet): pass\ndef evil(x): return x\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "untrusted_module", raising=False)
    for name in ("CIFAR10", "tudataset"):
        module = importlib.import_module("rince.data.CIFAR10".rpartition(".")[0])
        home = importlib.import_module(f"rince.data.{module.HOMES[name]}")
        monkeypatch.setattr(home, "fetch", lambda *args, **kwargs: pytest.fail("something was downloaded"))
    monkeypatch.chdir(tmp_path)
    copy = tmp_path / "a"
    copy.mkdir()
    for name in ("config.yaml", "last.ckpt", "encoder.safetensors", "result.json"):
        (copy / name).write_bytes((run / name).read_bytes())
    return copy


def change(folder, **parts):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump(config | parts))


def commands(folder):
    yield ["evaluate", str(folder)]
    yield ["export", str(folder), str(folder / "x.safetensors")]
    yield ["finetune", str(folder), "--trainer.max_epochs", "1"]


@pytest.mark.parametrize(
    "parts",
    [
        {"encoder": {"class_path": EVIL, "init_args": {"channels": 1, "width": 2}}},
        {"encoder": EVIL},
        {"encoder": '{"class_path": "untrusted_module.Evil"}'},
        {"encoder": part("rince.encoders.Pooled", network=EVIL, features=64)},
        {"encoder": part("torch.nn.TransformerEncoderLayer", d_model=2, nhead=1, activation=IMPORTERS[0])},
        {"encoder": part("torch.nn.TripletMarginWithDistanceLoss", distance_function=IMPORTERS[1])},
        {"encoder": "torch.nn.attention._fa3.register_flash_attention_fa3"},
        {"encoder": part(TIMM, model_name="resnet18", pretrained=True)},
        own_views("untrusted_module.evil"),
        own_views({"class_path": EVIL}),
        own_views("os.system"),
        own_views(part("rince.data.synthetic.generated_files.write_videos", root="owned", train=8, test=8)),
        *(own_views(importer) for importer in IMPORTERS),
        {"data": {"class_path": "rince.data.DigitImages", "dict_kwargs": {"noise": EVIL}}},
        {"data": part("rince.data.HuggingFacePairs", path="evil/dataset", a="a", b="b")},
    ],
)
def test_custom_code_is_not_run(folder, tmp_path, capsys, parts):
    change(folder, **parts)
    for command in commands(folder):
        assert cli.main(command) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("name", ["method", "optimizer", "loss"])
def test_functions_do_not_build_a_part(folder, tmp_path, capsys, name):
    loss = part("rince.ContrastiveLoss", objective=IMPORTERS[0])
    change(folder, **{name: loss if name == "loss" else IMPORTERS[0]})
    for command in list(commands(folder))[:2]:  # fine-tuning takes these from the user
        assert cli.main(command) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "owned").exists()


def test_text_or_another_file_does_not_hide_a_class(folder, tmp_path, capsys):
    hidden = part(EVIL, channels=1)
    (tmp_path / "hidden.yaml").write_text(yaml.safe_dump(hidden))
    for text in (json.dumps(hidden), str(tmp_path / "hidden.yaml"), "hidden.yaml"):
        change(folder, **own_views(text))
        for command in commands(folder):
            assert cli.main(command) == 2
            assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("option", ["--allow-custom-code", "--trust-config"])
def test_custom_code_is_run_if_allowed(folder, tmp_path, capsys, option):
    arguments = yaml.safe_load((folder / "config.yaml").read_text())["encoder"]["init_args"]
    change(folder, encoder={"class_path": EVIL, "init_args": arguments})
    with pytest.raises(UsageError, match=r"untrusted_module.Evil .*--allow-custom-code"):
        load_run(folder)
    target = str(folder / "x.safetensors")
    assert cli.main(["export", str(folder), target]) == 2 and not (tmp_path / "owned").exists()
    assert cli.main(["export", str(folder), target, option]) == 0 and (tmp_path / "owned").exists()


def test_old_argument_of_load_run_warns(folder):
    with pytest.warns(DeprecationWarning, match="allow_custom_code"):
        load_run(folder, trust=True)


def test_trainer_settings_of_a_run_are_not_built(folder, tmp_path):
    change(folder, trainer={"callbacks": [{"class_path": EVIL}], "logger": EVIL})
    assert cli.main(["export", str(folder), str(folder / "x.safetensors")]) == 0
    assert not (tmp_path / "owned").exists()


def test_class_named_by_the_user_needs_no_permission(folder, tmp_path):
    words = ["--encoder", EVIL, "--encoder.channels", "1", "--encoder.width", "2", "--from_scratch"]
    quiet = ["--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false"]
    assert cli.main(["finetune", str(folder), *words, *quiet]) == 0 and (tmp_path / "owned").exists()


def test_settings_of_jsonargparse_are_restored(folder):
    from jsonargparse import _common

    before = dict(_common.parsing_settings)
    load_run(folder)
    assert before == _common.parsing_settings


def test_objectives_of_rince_are_allowed(folder):
    change(folder, loss=part("rince.ContrastiveLoss", objective="rince.objectives.info_nce"))
    assert load_run(folder)[0].loss is not None


@pytest.mark.parametrize(
    "data",
    [
        part("rince.data.CIFAR10", root="dl", download=True),
        part("rince.data.CIFAR10", root="dl", download="true"),
        {**part("rince.data.CIFAR10", root="dl"), "dict_kwargs": {"download": True}},
        part("rince.data.TUGraphs", dataset="MUTAG", root="dl", download=True),
    ],
)
def test_nothing_is_downloaded(folder, capsys, data):
    change(folder, data=data)
    for command in commands(folder):
        cli.main(command)
        assert capsys.readouterr().err.count("\n") <= 1


def test_download_asked_for_by_the_user(folder, monkeypatch):
    asked = []
    home = importlib.import_module(f"rince.data.{importlib.import_module('rince.data').HOMES['CIFAR10']}")
    monkeypatch.setattr(home, "fetch", lambda *args: asked.append(args))
    change(folder, data=part("rince.data.CIFAR10", root="dl", download=True))
    assert cli.main(["finetune", str(folder), "--data.download", "true"]) == 2 and len(asked) == 1
    words = ["--data", "CIFAR10", "--data.root", "dl", "--data.download", "true"]
    assert cli.main(["finetune", str(folder), *words]) == 2 and len(asked) == 2
    assert cli.main(["finetune", str(folder), "--allow-custom-code"]) == 2 and len(asked) == 3


@pytest.mark.parametrize("missing", [True, False])
def test_folder_without_data_is_one_sentence(folder, capsys, missing):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    del config["data"]
    (folder / "config.yaml").write_text(yaml.safe_dump(config if missing else {**config, "data": None}))
    for command in commands(folder):
        assert cli.main(command) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1 and "data" in told


def test_allowed_paths_are_parts_of_a_run():
    allowed = set(allowed_paths())
    assert {"torch.optim.Adam", "torch.nn.Linear", "torch.nn.modules.linear.Linear", "rince.RINCE"} <= allowed
    assert {"rince.encoders.ConvNet", "rince.data.DigitImages", "rince.noise.LabelFlips"} <= allowed
    for path in ("torch.load", "torch.nn.DataParallel", "rince.cli.main", "rince.trust.clean", "rince.losses.cached"):
        assert path not in allowed
    assert not [path for path in allowed if path.split(".")[0] not in ("rince", "torch") or "integrations" in path]
