"""`rince export` to ONNX and torch.export, compared with the encoder in PyTorch."""

import json

import numpy as np
import pytest
import torch
import yaml

import rince
from rince import cli

TINY = [
    "digits/simclr", "--encoder.width", "2", "--probe", "false", "--data.limit", "128", "--data.batch_size", "64",
    "--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false",
    "--trainer.enable_model_summary", "false",
]  # fmt: skip
PAIRS = """
method: {class_path: CrossModal, init_args: {hidden: 8, width: 4}}
encoder:
  class_path: Towers
  init_args: {a: {class_path: MLP, init_args: {widths: [6, 8]}}, b: {class_path: MLP, init_args: {widths: [4, 8]}}}
views: {class_path: PairViews, init_args: {a: {class_path: Unchanged}, b: {class_path: Unchanged}}}
loss: {class_path: GCE}
data: {class_path: PairedArrays, init_args: {path: pairs.npz, batch_size: 20}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    assert cli.main(["train", *TINY, "--out", str(out), "--name", "a"]) == 0
    return out / "a"


def expected(run, inputs):
    with torch.no_grad():
        return rince.load_encoder(run)(inputs)


def test_exported_program_matches_at_any_batch_size(run, tmp_path, capsys):
    file = tmp_path / "encoder.pt2"
    assert cli.main(["export", str(run), str(file)]) == 0
    extra = {"rince.json": ""}
    program = torch.export.load(file, extra_files=extra)
    for batch in (1, 5):
        inputs = torch.rand(batch, 1, 8, 8)
        torch.testing.assert_close(program.module()(inputs), expected(run, inputs))
    metadata = json.loads(extra["rince.json"])
    assert metadata["loss"]["name"] == "RINCE" and metadata["weights"] is None and metadata["rince"]
    assert "batch x 1 x 8 x 8" in capsys.readouterr().out


def test_onnx_model_gives_the_same_features_for_any_batch_size(run, tmp_path, capsys):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    file = tmp_path / "encoder.onnx"
    assert cli.main(["export", str(run), str(file)]) == 0
    assert "difference from PyTorch" in capsys.readouterr().out
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    for batch in (1, 5):
        inputs = torch.rand(batch, 1, 8, 8)
        features = session.run(None, {"input": inputs.numpy()})[0]
        np.testing.assert_allclose(features, expected(run, inputs).numpy(), rtol=1e-4, atol=1e-5)
    properties = {each.key: each.value for each in onnx.load(file).metadata_props}
    assert json.loads(properties["rince"])["loss"]["name"] == "RINCE"


def test_folder_loads_into_plain_torch(run, tmp_path, capsys):
    from safetensors.torch import load_file

    folder = tmp_path / "folder"
    assert cli.main(["export", str(run), str(folder)]) == 0
    line = capsys.readouterr().out
    network = rince.encoders.ConvNet(channels=1, width=2, depth=2)
    network.load_state_dict(load_file(folder / "model.safetensors"))
    inputs = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(network.eval()(inputs), expected(run, inputs))
    assert json.loads((folder / "rince.json").read_text())["loss"]["name"] == "RINCE"
    assert "model.safetensors" in line and "library_name: pytorch" in (folder / "README.md").read_text()
    assert cli.main(["export", str(run), str(folder)]) == 2
    assert cli.main(["export", str(run), str(folder), "--force"]) == 0


def test_folder_of_a_transformers_model_loads_there(tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs transformers (make test-peers)")
    from rince.integrations.transformers import ImageEncoder
    from rince.train.export import export_folder

    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    encoder = ImageEncoder("vit", config={**small, "image_size": 16, "patch_size": 8}).eval()
    metadata = {"rince": "0", "method": "SimCLR", "loss": {"name": "GCE"}}
    assert "AutoModel" in export_folder(tmp_path / "vit", encoder, metadata)
    again = ImageEncoder(str(tmp_path / "vit")).eval()
    inputs = torch.rand(2, 3, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(again(inputs), encoder(inputs))
    assert transformers.AutoConfig.from_pretrained(tmp_path / "vit").hidden_size == 16


@pytest.mark.parametrize("name", ["encoder.safetensors", "encoder.pt2", "folder"])
def test_full_disk_is_one_line_and_leaves_nothing(run, tmp_path, capsys, name):
    resource = pytest.importorskip("resource", reason="needs limits of file sizes")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        code = cli.main(["export", str(run), str(tmp_path / name)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (line,) = capsys.readouterr().err.splitlines()
    assert code == 2 and name in line and not list(tmp_path.iterdir())


def test_one_tower_of_a_cross_modal_run_is_exported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    np.savez("pairs.npz", a=random.normal(size=(60, 6)).astype("f4"), b=random.normal(size=(60, 4)).astype("f4"))
    (tmp_path / "pairs.yaml").write_text(PAIRS)
    assert yaml.safe_load(PAIRS)
    assert cli.main(["train", "pairs.yaml", *TINY[9:]]) == 0
    assert cli.main(["export", "runs/pairs", "b.pt2"]) == 2
    assert "--tower a or --tower b" in capsys.readouterr().err
    assert cli.main(["export", "runs/pairs", "b.pt2", "--tower", "b"]) == 0
    inputs = torch.rand(3, 4)
    with torch.no_grad():
        features = rince.load_encoder("runs/pairs").b(inputs)
    torch.testing.assert_close(torch.export.load("b.pt2").module()(inputs), features)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["x.bin"], ".safetensors, .onnx, .pt2 or be a folder, without an ending, got x.bin"),
        (["x.pt2", "--shape", "3", "8"], "cannot be exported with inputs (3, 8)"),
        (["x.pt2", "--tower", "a"], "omit --tower a"),
    ],
)
def test_export_error_is_one_line(run, tmp_path, monkeypatch, capsys, words, told):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["export", str(run), *words]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1 and not list(tmp_path.iterdir())
