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
    "rince.audit.run": "rince.audit.api",
    "rince.audit.mismatched": "rince.audit.null",
    "rince.data.batches": "rince.data.module",
    "rince.data.fetching": "rince.data.download",
    "rince.data.graphs.graph_data": "rince.data.graphs",
    "rince.data.graphs.graphs": "rince.data.graphs",
    "rince.data.graphs.tu_graphs": "rince.data.graphs",
    "rince.data.graphs.tudataset": "rince.data.graphs",
    "rince.data.images.arrays": "rince.data.images",
    "rince.data.images.cifar10": "rince.data.images",
    "rince.data.images.crops": "rince.data.image_folder",
    "rince.data.images.digit_images": "rince.data.images",
    "rince.data.images.folder": "rince.data.image_folder",
    "rince.data.images.in_memory": "rince.data.images",
    "rince.data.pairs.arrays": "rince.data.pairs",
    "rince.data.pairs.digit_halves": "rince.data.digit_halves",
    "rince.data.pairs.hf_datasets": "rince.data.pairs",
    "rince.data.pairs.in_memory": "rince.data.pairs",
    "rince.data.pairs.recordings": "rince.data.spoken_digits",
    "rince.data.pairs.spoken_digits": "rince.data.spoken_digits",
    "rince.data.video.acav100m": "rince.data.video.videos",
    "rince.data.video.clip_loader": "rince.data.video.clips",
    "rince.data.video.clip_reader": "rince.data.video.clips",
    "rince.data.video.frame_transform": "rince.data.video.decode",
    "rince.data.video.hmdb51": "rince.data.video.videos",
    "rince.data.video.kinetics400": "rince.data.video.videos",
    "rince.data.video.local_file": "rince.data.video.decode",
    "rince.data.video.packets": "rince.data.video.decode",
    "rince.data.video.skipped": "rince.data.video.clips",
    "rince.data.video.split_videos": "rince.data.video.videos",
    "rince.data.video.ucf101": "rince.data.video.videos",
    "rince.data.video.video_list": "rince.data.video.clips",
    "rince.encoders.audio": "rince.encoders.video",
    "rince.encoders.convnet": "rince.encoders.images",
    "rince.encoders.neighbors": "rince.encoders.gin",
    "rince.encoders.patch_stem": "rince.encoders.images",
    "rince.encoders.r2plus1d": "rince.encoders.video",
    "rince.encoders.recipes": "rince.encoders.files",
    "rince.encoders.resnet": "rince.encoders.images",
    "rince.encoders.towers": "rince.encoders.heads",
    "rince.evaluate.graphs": "rince.evaluate.svm",
    "rince.evaluate.knn": "rince.evaluate.probes",
    "rince.evaluate.linear": "rince.evaluate.probes",
    "rince.evaluate.retrieval": "rince.evaluate.pairs",
    "rince.evaluate.voting": "rince.evaluate.features",
    "rince.methods.linear_evaluation": "rince.methods.finetune",
    "rince.methods.moco_v3": "rince.methods.moco",
    "rince.methods.momentum": "rince.methods.moco",
    "rince.methods.supcon": "rince.methods.simclr",
    "rince.noise.sounds": "rince.noise.pairs",
    "rince.views.batch": "rince.views.views",
    "rince.views.clip": "rince.views.pair",
    "rince.views.graph_edit": "rince.views.graph",
    "rince.views.graph_sampling": "rince.views.graph",
    "rince.views.graph_walk": "rince.views.graph",
    "rince.views.recipe": "rince.views.image",
    "rince.views.sound": "rince.views.pair",
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
        return importlib.import_module(self.new)

    def exec_module(self, module: ModuleType) -> None:
        """It has run at its new place already."""


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
