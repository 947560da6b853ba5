"""The list of rince's classes is complete and right, and read without importing them."""

import importlib
import inspect
import pkgutil

import pytest
import torch
from lightning.pytorch import Callback, LightningDataModule
from torch import nn

import rince
from rince.methods.method import Method
from rince.train.short_names import known_classes, summary

KINDS = {
    "method": Method, "encoder": nn.Module, "loss": nn.Module, "views": nn.Module, "data": LightningDataModule,
    "optimizer": torch.optim.Optimizer, "noise": object, "callback": Callback,
}  # fmt: skip
BASES = {"GraphData", "DataModule", "InMemory", "Method", "Images", "Pairs", "SplitVideos"}


def imported(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_short_names_are_unique():
    names = [name for paths in known_classes().values() for name in paths]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("part", known_classes())
def test_every_class_is_of_its_kind_and_has_a_summary(part):
    for path in known_classes()[part].values():
        assert issubclass(imported(path), KINDS[part])
        assert not path.startswith("rince.") or len(summary(path)) > 20, path


def test_every_loss_is_listed_with_its_summary():
    kinds = {
        name
        for name in rince.__all__
        if inspect.isclass(kind := getattr(rince, name)) and issubclass(kind, rince.ContrastiveLoss)
    }
    assert kinds == set(known_classes()["loss"])


def test_no_method_or_data_is_missing():
    listed = {imported(path) for part in ("method", "data") for path in known_classes()[part].values()}
    for name in ("methods", "data"):
        package = importlib.import_module(f"rince.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"rince.{name}."):
            home = importlib.import_module(module.name)
            for short, kind in inspect.getmembers(home, inspect.isclass):
                own = kind.__module__ == home.__name__ and short not in BASES and not short.startswith("_")
                assert not (own and issubclass(kind, Method | LightningDataModule)) or kind in listed, short
