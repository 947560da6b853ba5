import pytest
import torch

import rince
from experiments.features import both_spaces, features_of
from rince.encoders import ConvNet
from rince.methods import SimCLR


@pytest.mark.parametrize("training", [True, False])
def test_both_feature_spaces_match_separate_passes(training):
    views = rince.views.SimCLRViews(size=8, mean=[0.3], std=[0.4])
    method = SimCLR(ConvNet(1, width=4), rince.RINCE(), views, torch.optim.Adam, hidden=16, width=8).train(training)
    images = torch.randint(256, (530, 1, 8, 8), dtype=torch.uint8)
    found = both_spaces(method, images)
    assert found["encoder"].shape == (530, 16) and found["projection"].shape == (530, 8)
    for space in ("encoder", "projection"):
        assert torch.equal(found[space], features_of(method, images, space))
    assert method.training is training and method.head.training is training
