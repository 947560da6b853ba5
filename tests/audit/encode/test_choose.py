import numpy as np
import pytest
import torch

from rince.audit.encode import encoder_for
from rince.errors import UsageError


def test_every_kind_has_an_encoder_that_needs_no_model():
    names = {kind: encoder_for(kind).name for kind in ("texts", "pictures", "sounds")}
    assert names == {
        "texts": "hashed n-grams",
        "pictures": "a patch stem",
        "sounds": "statistics of the log spectrogram",
    }
    assert not any(encoder_for(kind).comparable for kind in names)


@pytest.mark.parametrize(
    "kind, spec, message",
    [
        ("videos", None, "videos have no encoder of their own: give module:function"),
        ("texts", "patches", "the encoder patches takes pictures, but the column holds texts"),
        ("sounds", "x.onnx", "the encoder x.onnx takes pictures"),
        ("sounds", "all-MiniLM-L6-v2", "takes texts or pictures, not sounds"),
        ("texts", "no_such_module:f", "there is no module no_such_module"),
        ("texts", "..x:f", "must read module:function"),
        ("texts", "json:nothing", "the module json has no nothing"),
        ("texts", "json:__name__", "must be a function of a list of items, got str"),
    ],
)
def test_an_encoder_that_does_not_fit_is_one_sentence(kind, spec, message):
    with pytest.raises(UsageError, match=message.replace(".", r"\.")):
        encoder_for(kind, spec)


def test_a_function_of_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "my_encoders.py").write_text(
        "import torch\n"
        "def lengths(texts):\n    return torch.tensor([[len(t), 1.0] for t in texts])\n"
        "def flat(texts):\n    return [1.0] * len(texts)\n"
        "class Counting:\n    def __init__(self): self.n = 0\n"
        "    def __call__(self, texts):\n        self.n += 1\n        return [[self.n, 0.0]] * len(texts)\n"
    )
    monkeypatch.chdir(tmp_path)
    lengths = encoder_for("texts", "my_encoders:lengths")
    assert lengths.encode(["a", "bcd"]).tolist() == [[1, 1], [3, 1]] and lengths.comparable
    counting = encoder_for("texts", "my_encoders:Counting")
    assert counting.encode(["a"]).tolist() == [[1, 0]] and counting.encode(["a"]).tolist() == [[2, 0]]
    with pytest.raises(UsageError, match=r"must return numbers of shape \(items, width\): for 2 items it returned"):
        encoder_for("texts", "my_encoders:flat").encode(["a", "b"])
    before = lengths.identity()
    (tmp_path / "my_encoders.py").write_text("def lengths(texts): return [[0.0]] * len(texts)\n")
    assert lengths.identity() != before, "a changed file must not meet its old rows in the cache"


def test_an_exported_encoder_sees_pictures_as_it_was_trained(tmp_path):
    pytest.importorskip("safetensors")
    Image = pytest.importorskip("PIL.Image")
    from rince.encoders.convnet import ConvNet
    from rince.encoders.files import save_encoder

    network = ConvNet(width=8).eval()
    recipe = {"class_path": "rince.encoders.convnet.ConvNet", "init_args": {"width": 8}}
    about = {"normalise": {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.2, 0.2], "size": 16}}
    save_encoder(tmp_path / "encoder.safetensors", network, recipe, about)
    pictures = [Image.fromarray(p) for p in np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), np.uint8)]
    found = encoder_for("pictures", str(tmp_path / "encoder.safetensors")).encode(pictures)
    pixels = torch.stack([torch.from_numpy(np.array(p)) for p in pictures]).permute(0, 3, 1, 2) / 255
    mean, std = (torch.tensor(about["normalise"][name])[:, None, None] for name in ("mean", "std"))
    with torch.no_grad():
        wanted = network((pixels - mean) / std)
    assert np.allclose(found, wanted, atol=1e-5)
    assert encoder_for("pictures", str(tmp_path)).encode(pictures[:1]).shape == (1, found.shape[1])
    with pytest.raises(FileNotFoundError, match="there is no file"):
        encoder_for("pictures", "nowhere.safetensors")


def test_a_network_in_an_onnx_file(tmp_path):
    onnx, _ = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    Image = pytest.importorskip("PIL.Image")
    from rince.audit.encode.onnx import MEAN, STD

    make, number = onnx.helper, onnx.TensorProto.FLOAT
    pool = make.make_node("GlobalAveragePool", ["x"], ["y"])
    shapes = [
        make.make_tensor_value_info(name, number, ["n", 3, *side]) for name, side in (("x", [8, 8]), ("y", [1, 1]))
    ]
    graph = make.make_graph([pool], "means", shapes[:1], shapes[1:])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "means.onnx")
    colours = np.array([[255, 0, 0], [0, 128, 64]], np.uint8)
    pictures = [Image.new("RGB", (20, 10), tuple(map(int, colour))) for colour in colours]
    found = encoder_for("pictures", str(tmp_path / "means.onnx")).encode(pictures)
    assert np.allclose(found, (colours / 255 - MEAN) / STD, atol=1e-4)
    (tmp_path / "broken.onnx").write_bytes(b"no network")
    with pytest.raises(UsageError, match=r"broken\.onnx is no network that onnxruntime can run"):
        encoder_for("pictures", str(tmp_path / "broken.onnx"))
