"""The real peers, as far as they import here. torchvision does not import beside a CPU build of torch."""

import importlib
import importlib.util
import sys
import types

import pytest


class _Anything:
    """Stands in for a class that is imported but not used by the losses under test."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__()


def _stand_in(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__path__ = []
    module.__spec__ = importlib.util.spec_from_loader(name, loader=None)

    def attribute(wanted):
        if wanted.startswith("__"):
            raise AttributeError(wanted)
        return _Anything

    module.__getattr__ = attribute
    return module


def _without(names, wanted):
    """Import ``wanted`` with stand-ins for modules that cannot be had, and put everything back afterwards."""
    missing = [n for n in names if importlib.util.find_spec(n.split(".")[0]) is None]
    for name in missing:
        sys.modules[name] = _stand_in(name)
    try:
        return [importlib.import_module(name) for name in wanted]
    except Exception as error:
        pytest.skip(f"{wanted[0]} does not import here: {type(error).__name__}: {error}")
    finally:
        for name in missing:
            sys.modules.pop(name, None)


def lightly_losses():
    """``NTXentLoss`` and ``DCLLoss`` of lightly; its loss modules use nothing of torchvision."""
    pytest.importorskip("lightly", reason="lightly is not installed: make test-peers")
    found = sys.modules.get("lightly.loss")
    if found is None:  # the package imports all losses, some of which want more
        found = types.ModuleType("lightly.loss")
        found.__path__ = [f"{importlib.util.find_spec('lightly').submodule_search_locations[0]}/loss"]
        sys.modules["lightly.loss"] = found
    parts = ("torchvision", "torchvision.ops", "torchvision.models", "torchvision.transforms", "timm")
    ntx, dcl = _without(parts, ("lightly.loss.ntx_ent_loss", "lightly.loss.dcl_loss"))
    return ntx, dcl


def open_clip_losses():
    """open_clip's loss.py by itself: the package wants torchvision and timm, that file only torch."""
    spec = importlib.util.find_spec("open_clip")
    if spec is None:
        pytest.skip("open_clip is not installed: make test-peers")
    file = f"{spec.submodule_search_locations[0]}/loss.py"
    one = importlib.util.spec_from_file_location("open_clip_loss", file)
    module = importlib.util.module_from_spec(one)
    one.loader.exec_module(module)
    return module


def pygcl():
    """PyGCL's losses and contrast models. dgl and torch_scatter serve parts that are not used."""
    if importlib.util.find_spec("GCL") is None:
        pytest.skip("PyGCL is not installed: make test-peers")
    parts = ("dgl", "dgl.nn", "torch_scatter", "torch_sparse", "GCL_none")
    losses, models = _without(parts, ("GCL.losses", "GCL.models"))
    return losses, models
