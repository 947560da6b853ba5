"""The list of rince's classes is complete, right, and read without importing them."""

import importlib
import inspect
import pkgutil

import pytest
import torch
import yaml
from lightning.pytorch import Callback, LightningDataModule
from torch import nn

import rince
from rince.methods.method import Method
from rince.train.catalogue import arguments, classes, classes_of, public_path, summary, whole_path, with_whole_paths

KINDS = {
    "method": Method, "encoder": nn.Module, "loss": nn.Module, "views": nn.Module, "data": LightningDataModule,
    "optimiser": torch.optim.Optimizer, "noise": object, "callback": Callback,
}  # fmt: skip
SHARED = {"GraphData", "DataModule", "Method", "Images", "Pairs", "SplitVideos"}  # what others are made of


def found(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_short_names_are_unique():
    names = [path.rsplit(".", 1)[1] for paths in classes().values() for path in paths]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("part", classes())
def test_every_class_is_of_its_kind_and_has_a_line(part):
    for path in classes()[part]:
        assert issubclass(found(path), KINDS[part]) and found(public_path(path)) is found(path)
        assert not path.startswith("rince.") or len(summary(path, part)) > 20, path


def test_no_method_and_no_data_are_missing():
    listed = {found(path) for part in ("method", "data") for path in classes()[part]}
    for room in ("methods", "data"):
        package = importlib.import_module(f"rince.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"rince.{room}."):
            home = importlib.import_module(module.name)
            for name, kind in inspect.getmembers(home, inspect.isclass):
                own = kind.__module__ == home.__name__ and name not in SHARED and not name.startswith("_")
                assert not (own and issubclass(kind, Method | LightningDataModule)) or kind in listed, name


def test_arguments_are_those_of_the_constructor():
    own = next(path for path in classes()["loss"] if path.endswith(".RINCE"))
    assert arguments(own) == list(inspect.signature(rince.RINCE).parameters)


@pytest.mark.parametrize(
    ("option", "name", "path"),
    [
        ("method", "MoCo", "rince.methods.moco.MoCo"),
        ("loss", "RINCE", "rince.RINCE"),
        ("data.noise", "LabelFlips", "rince.noise.labels.LabelFlips"),
        ("encoder.a", "ConvNet", "rince.encoders.convnet.ConvNet"),
        ("data.source.class_path", "CIFAR10", "rince.data.images.cifar10.CIFAR10"),
        ("trainer.callbacks", "PairMonitor", "rince.audit.callback.PairMonitor"),
        ("data.root", "Videos", "Videos"),  # a folder
        ("name", "MoCo", "MoCo"),
        ("loss", "MoCo", "MoCo"),
        ("loss", "mine.RINCE", "mine.RINCE"),
    ],
)
def test_a_short_name_is_spelt_out_where_a_class_is_wanted(option, name, path):
    assert whole_path(option, name) == path


def test_what_an_option_may_name_is_of_its_kind():
    assert set(classes_of("optimiser")) == {"LARS", "Adam", "AdamW", "SGD"} and not classes_of("trainer.devices")


def test_short_names_in_a_file_are_spelt_out_and_nothing_else_changes():
    text = """
method: MoCo
encoder: {class_path: Towers, init_args: {a: ConvNet, b: {class_path: AudioConvNet, init_args: {width: 2}}}}
optimiser: {class_path: Adam, init_args: {lr: 1e-3}}
data: {class_path: CIFAR10, init_args: {root: Videos, noise: {class_path: LabelFlips, init_args: {rate: 0.5}}}}
name: MoCo
trainer: {callbacks: [{class_path: PairMonitor}], max_epochs: 3, precision: '32'}
"""
    parts = yaml.safe_load(with_whole_paths(text))
    assert parts["method"] == "rince.methods.moco.MoCo" and parts["name"] == "MoCo"
    assert parts["encoder"]["init_args"]["a"] == "rince.encoders.convnet.ConvNet"
    assert parts["encoder"]["init_args"]["b"]["class_path"] == "rince.encoders.audio.AudioConvNet"
    assert parts["data"]["init_args"]["root"] == "Videos"
    assert parts["data"]["init_args"]["noise"]["class_path"] == "rince.noise.labels.LabelFlips"
    assert parts["trainer"]["callbacks"][0]["class_path"] == "rince.audit.callback.PairMonitor"
    assert "lr: 1e-3" in with_whole_paths(text) and parts["trainer"]["precision"] == "32"
    whole = "loss: {class_path: rince.RINCE}"
    assert with_whole_paths(whole) is whole and with_whole_paths("") == ""
