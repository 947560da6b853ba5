import torch
from torch import nn

from rince.encoders.heads import Towers


def test_each_side_goes_through_its_own_encoder():
    towers = Towers(nn.Linear(3, 2), nn.Linear(5, 4))
    a, b = torch.rand(7, 3), torch.rand(7, 5)
    fa, fb = towers(a, b)
    assert torch.equal(fa, towers.a(a)) and torch.equal(fb, towers.b(b))
    assert {name.split(".")[0] for name in towers.state_dict()} == {"a", "b"}
