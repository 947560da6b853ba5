"""Import paths and settings of version 0.2 that have new names. They work until version 0.4, imports with a warning."""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PUBLIC = {  # short names that stay
    "rince.contrast": "rince.losses.contrasts",
    "rince.objectives": "rince.losses.objectives",
    "rince.schedules": "rince.losses.schedules",
}
MOVED = {
    "rince.optimisers": "rince.optimizers",
    "rince.temperature": "rince.losses.temperature",
    "rince.seeds": "rince._support.step_seeds",
    "rince.export": "rince.encoders.files",
}
# Modules of 0.2 whose public names are those of their package.
FORMER_MODULES = {
    "audit": "run mismatched",
    "data": "batches fetching graphs.graph_data graphs.graphs graphs.tu_graphs graphs.tudataset images.arrays "
    "images.cifar10 images.crops images.digit_images images.folder images.in_memory pairs.arrays pairs.digit_halves "
    "pairs.hf_datasets pairs.in_memory pairs.recordings pairs.spoken_digits video.acav100m video.clip_loader "
    "video.clip_reader video.frame_transform video.hmdb51 video.kinetics400 video.local_file video.packets "
    "video.skipped video.split_videos video.ucf101 video.video_list",
    "encoders": "audio convnet neighbors patch_stem r2plus1d recipes resnet towers",
    "evaluate": "graphs knn linear retrieval voting",
    "methods": "linear_evaluation moco_v3 momentum supcon",
    "noise": "sounds",
    "views": "batch clip graph_edit graph_sampling graph_walk recipe sound",
}
MOVED |= {
    f"rince.{package}.{old}": f"rince.{package}" for package, names in FORMER_MODULES.items() for old in names.split()
}

RENAMED_SETTINGS = {
    "optimiser": "optimizer",
    "grey_chance": "gray_chance",
    "solarise_chance": "solarize_chance",
    "normalise": "normalize",
}


def current_settings(settings: Any) -> Any:
    """Nested settings of a run folder or an encoder file of version 0.2 under their current names.

    Arguments of classes from outside rince stay as they are.
    """
    if isinstance(settings, list):
        return [current_settings(value) for value in settings]
    if not isinstance(settings, dict) or not str(settings.get("class_path", "rince.")).startswith("rince."):
        return settings
    return {RENAMED_SETTINGS.get(name, name): current_settings(value) for name, value in settings.items()}


class _Alias(Loader):
    """The module at the new place, under its old name too."""

    def __init__(self, new: str):
        self.new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.new)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run at its new place already; the import system has replaced its spec."""
        module.__spec__ = self.spec


class _OldPaths(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        new = self.new_path(fullname)
        if new is None:
            return None
        spec = importlib.util.find_spec(new)
        return None if spec is None else ModuleSpec(fullname, _Alias(new), origin=spec.origin)

    @staticmethod
    def new_path(old: str) -> str | None:
        for short, home in PUBLIC.items():
            if old == short or old.startswith(f"{short}."):
                return home + old[len(short) :]
        if old in MOVED:
            warnings.warn(
                f"{old} has moved to {MOVED[old]}: the old path goes in version 0.4", DeprecationWarning, stacklevel=3
            )
        return MOVED.get(old)


def install() -> None:
    """Let imports of the old paths find the modules at their new places."""
    if not any(isinstance(finder, _OldPaths) for finder in sys.meta_path):
        sys.meta_path.append(_OldPaths())
