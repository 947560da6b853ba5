import pytest
import torch
from safetensors.torch import save_file

from rince import load_encoder
from rince.encoders.files import save_encoder
from rince.encoders.heads import Towers
from rince.encoders.images import ConvNet
from rince.encoders.video import AudioConvNet

RECIPE = {"class_path": "rince.encoders.images.ConvNet", "init_args": {"channels": 1, "width": 4}}


def test_encoder_round_trip_without_lightning(tmp_path):
    encoder = ConvNet(1, 4).eval()
    save_encoder(tmp_path / "e.safetensors", encoder, RECIPE, {"data": "mine"})
    again = load_encoder(tmp_path / "e.safetensors")
    images = torch.rand(2, 1, 8, 8)
    assert torch.equal(encoder(images), again(images)) and again.about == {"data": "mine"}


def test_equal_encoders_are_equal_files(tmp_path):
    encoder = ConvNet(1, 4)
    for name in "ab":
        save_encoder(tmp_path / name, encoder, RECIPE, {"data": "mine", "rince": "1", "loss": "x"})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_class_from_outside_rince_is_not_constructed(tmp_path):
    save_encoder(tmp_path / "e", torch.nn.Linear(2, 2), {"class_path": "torch.nn.Linear"}, {})
    with pytest.raises(ValueError, match="from outside rince"):
        load_encoder(tmp_path / "e")
    assert load_encoder(tmp_path / "e", torch.nn.Linear(2, 2)).about == {}


def test_a_name_that_is_no_network_is_refused(tmp_path):
    save_encoder(tmp_path / "e", torch.nn.Linear(2, 2), {"class_path": "rince.encoders.files.save_encoder"}, {})
    with pytest.raises(ValueError, match="save_encoder"):
        load_encoder(tmp_path / "e")


def test_encoders_within_an_encoder_are_built_too(tmp_path):
    towers = Towers(ConvNet(1, 4), AudioConvNet(2)).eval()
    audio = {"class_path": "rince.encoders.video.AudioConvNet", "init_args": {"width": 2}}
    recipe = {"class_path": "rince.encoders.heads.Towers", "init_args": {"a": RECIPE, "b": audio}}
    save_encoder(tmp_path / "e", towers, recipe, {})
    again, sound = load_encoder(tmp_path / "e"), torch.rand(2, 1, 20, 17)
    assert type(again.a) is ConvNet and torch.equal(again.b(sound), towers.b(sound))


@pytest.mark.parametrize("inner", ["torch.nn.Linear", "os.system", "rince._support.atomic_files.write_text"])
def test_nested_class_from_outside_rince_is_not_constructed(inner, tmp_path):
    towers = Towers(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    part = {"class_path": inner, "init_args": {}}
    save_encoder(tmp_path / "e", towers, {"class_path": "rince.encoders.heads.Towers", "init_args": {"a": part}}, {})
    with pytest.raises(ValueError, match=r"from outside rince|not an encoder of rince"):
        load_encoder(tmp_path / "e")
    mine = Towers(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    assert torch.equal(load_encoder(tmp_path / "e", mine).a.weight, towers.a.weight)


def test_other_architecture_foreign_and_truncated_files_are_rejected(tmp_path):
    save_encoder(tmp_path / "e", ConvNet(1, 4), RECIPE, {})
    with pytest.raises(ValueError, match=r"layers.0.weight.*4, 1, 3, 3.*6, 1, 3, 3"):
        load_encoder(tmp_path / "e", ConvNet(1, 6))
    save_file({"x": torch.zeros(1)}, tmp_path / "f")
    with pytest.raises(ValueError, match="not an encoder written by rince"):
        load_encoder(tmp_path / "f")
    (tmp_path / "e").write_bytes((tmp_path / "e").read_bytes()[:-9])
    with pytest.raises(ValueError, match="not a valid safetensors file"):
        load_encoder(tmp_path / "e")
    with pytest.raises(FileNotFoundError, match="rince export"):
        load_encoder(tmp_path / "nothing")


class Tied(torch.nn.Module):
    """Two layers with one weight, and a buffer that is a part of another."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.b.weight = self.a.weight
        self.register_buffer("table", torch.arange(6.0))
        self.register_buffer("part", self.table[2:4])


def test_tied_weights_are_saved_and_stay_tied(tmp_path):
    encoder = Tied()
    save_encoder(tmp_path / "e", encoder, {"class_path": "mine.Tied"}, {})
    again = load_encoder(tmp_path / "e", Tied())
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    assert again.a.weight is again.b.weight


def test_error_names_layers_that_are_missing_in_a_file(tmp_path):
    save_encoder(tmp_path / "e", torch.nn.ModuleDict({name: torch.nn.Linear(1, 1) for name in "zyxw"}), {}, {})
    with pytest.raises(ValueError, match=r'Missing key.*"a\.'):
        load_encoder(tmp_path / "e", torch.nn.ModuleDict({name: torch.nn.Linear(1, 1) for name in "abcd"}))
