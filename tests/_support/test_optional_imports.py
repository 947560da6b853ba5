"""Peers are imported where they are used, and a missing one is named."""

import subprocess
import sys
import types

import pytest
import torch
from torch import nn

from rince._support.optional_imports import import_library
from rince.errors import MissingExtra, UsageError
from rince.integrations.timm import TimmEncoder
from rince.integrations.torchvision import TorchvisionEncoder
from rince.methods.method import width_of

PEERS = ("sentence_transformers", "transformers", "pytorch_metric_learning", "lightly", "open_clip", "GCL", "timm")


def test_libraries_are_imported_with_their_module_only():
    code = (
        "import sys, rince, rince.integrations, rince.integrations.lightly, rince.integrations.open_clip, "
        "rince.integrations.pygcl, rince.integrations.timm, rince.integrations.transformers, rince.losses\n"
        f"print([name for name in {PEERS} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_missing_libraries_are_named_with_their_install_commands():
    code = (
        "import importlib, sys\n"
        "for name in ('sentence_transformers', 'pytorch_metric_learning'):\n"
        "    sys.modules[name] = None\n"
        "    try: importlib.import_module(f'rince.integrations.{name}')\n"
        "    except ImportError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = ("sentence-transformers", "pytorch-metric-learning")
    assert run.stdout.splitlines() == [f"this needs {package}: run pip install {package}" for package in packages]


def test_a_peer_that_does_not_import_says_why():
    with pytest.raises(MissingExtra, match="this needs no-such: run pip install no-such"):
        import_library("no_such_module_of_ours", "no-such")
    broken = types.ModuleType("broken")
    broken.__getattr__ = None
    assert import_library("math", "python").pi > 3


def stand_in(name, **attributes):
    module = types.ModuleType(name)
    for key, value in attributes.items():
        setattr(module, key, value)
    return module


def test_timm_encoder_has_no_classifier_and_a_width(monkeypatch):
    class Model(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.num_features, self.classes = 12, classes
            self.map = nn.Linear(3, 12)

        def forward(self, x):
            return self.map(x.mean((2, 3)))

    def create_model(name, pretrained, in_chans, num_classes):
        assert (name, pretrained, in_chans, num_classes) == ("resnet18", False, 3, 0)
        return Model(num_classes)

    monkeypatch.setitem(sys.modules, "timm", stand_in("timm", create_model=create_model))
    encoder = TimmEncoder("resnet18")
    assert width_of(encoder) == 12 and encoder(torch.rand(2, 3, 4, 4)).shape == (2, 12)
    assert width_of(Model(0)) == 12, "num_features counts as features"


def test_models_of_torchvision_lose_their_classifier(monkeypatch):
    class Model(nn.Module):
        def __init__(self, head):
            super().__init__()
            self.stem = nn.Flatten()
            if head:
                self.classifier = nn.Sequential(nn.Dropout(), nn.Linear(48, 10))

        def forward(self, x):
            return self.classifier(self.stem(x))

    models = stand_in("torchvision.models", get_model=lambda name, weights: Model(name != "headless"))
    monkeypatch.setitem(sys.modules, "torchvision", stand_in("torchvision", models=models))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    encoder = TorchvisionEncoder("vgg11")
    assert width_of(encoder) == 48 and encoder(torch.rand(2, 3, 4, 4)).shape == (2, 48)
    with pytest.raises(UsageError, match="has no classifier"):
        TorchvisionEncoder("headless")
