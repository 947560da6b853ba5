"""An encoder's file is not to be trusted with the choice of what is run."""

import json
import sys

import pytest
import torch
from safetensors.torch import save_file

import rince
from rince import cli
from rince.encoders.files import save_encoder
from rince.encoders.images import ConvNet
from rince.errors import UsageError

CONVNET = {"class_path": "rince.encoders.images.ConvNet", "init_args": {"channels": 1, "width": 4}}
MLP = {"class_path": "rince.encoders.images.MLP"}


def pooled(network):
    return {"class_path": "rince.encoders.gin.Pooled", "init_args": {"network": network, "features": 64}}


HOSTILE = {
    "a plain string": pooled("tests_untrusted.Evil"),
    "a string of JSON": pooled(json.dumps({"class_path": "tests_untrusted.Evil"})),
    "a foreign class": pooled({"class_path": "tests_untrusted.Evil"}),
    "keywords of another kind": {**CONVNET, "dict_kwargs": {"norm": "tests_untrusted.Evil"}},
    "a class of rince that is none of its encoders": {"class_path": "rince.views.image.OwnViews", "init_args": {}},
    "something that an encoder's module imports": {"class_path": "rince.encoders.images.nn.Sequential"},
    "a function": {"class_path": "rince.encoders.heads.mlp", "init_args": {"widths": [2, 2]}},
    "a string in a list": {"class_path": "rince.encoders.images.MLP", "init_args": {"widths": ["os.getcwd", 3]}},
    "an argument there is not": {**CONVNET, "init_args": {"hidden": 3}},
    "a missing argument": {"class_path": "rince.encoders.gin.GIN"},
    "arguments that are none": {**CONVNET, "init_args": [1]},
    "no class": {"init_args": {}},
    "a class that is no text": {"class_path": 3},
    "a list": [],
    "nothing": None,
    "a size that fills the memory": {**CONVNET, "init_args": {"channels": 1, "width": 10**9}},
    "a depth without end": {**CONVNET, "init_args": {"channels": 1, "width": 4, "depth": 10**9}},
    "a negative number": {"class_path": "rince.encoders.ConvNet", "init_args": {"channels": -1}},
    "a value that torch refuses": {**MLP, "init_args": {"widths": [1, 2, 3], "dropout": 7}},
}


def written(path, recipe, weights=None):
    weights = ConvNet(1, 4).state_dict() if weights is None else weights
    save_file(weights, path, metadata={"rince_encoder": json.dumps({"encoder": recipe, "about": {}})})
    return path


@pytest.fixture(autouse=True)
def untrusted(monkeypatch):
    """A module that must never be asked for anything."""

    class Untrusted(type(sys)):
        def __getattr__(self, name):
            if name == "Evil":
                pytest.fail("a class named in a file was imported")
            raise AttributeError(name)

    monkeypatch.setitem(sys.modules, "tests_untrusted", Untrusted("tests_untrusted"))


@pytest.mark.parametrize("what", HOSTILE)
def test_malicious_recipe_is_a_usage_error(tmp_path, capsys, what):
    path = written(tmp_path / "e.safetensors", HOSTILE[what])
    with pytest.raises(UsageError):
        rince.load_encoder(path)
    arguments = ["--data", "DigitImages", "--views", "Recipe", "--out", str(tmp_path)]
    assert cli.main(["finetune", str(path), *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "[", "3", "{}", '{"encoder": {}}', '{"encoder": 3, "about": 4}'])
def test_invalid_metadata_is_a_usage_error(tmp_path, text):
    save_file({"x": torch.ones(2)}, tmp_path / "e.safetensors", metadata={"rince_encoder": text})
    with pytest.raises(UsageError, match=r"invalid metadata|has no class path"):
        rince.load_encoder(tmp_path / "e.safetensors")


def test_recipes_that_rince_writes_are_taken(tmp_path):
    from rince.encoders.heads import Towers

    towers = {"class_path": "rince.encoders.heads.Towers", "init_args": {"a": CONVNET, "b": CONVNET}}
    network = Towers(ConvNet(1, 4), ConvNet(1, 4))
    save_encoder(tmp_path / "e.safetensors", network, towers, {})
    loaded = rince.load_encoder(tmp_path / "e.safetensors")
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in network.state_dict().items())


def test_weights_of_another_network_than_the_recipe_says(tmp_path):
    path = written(tmp_path / "e.safetensors", {**CONVNET, "init_args": {"channels": 1, "width": 8}})
    with pytest.raises(UsageError, match="do not match its class"):
        rince.load_encoder(path)
