"""Import paths of version 0.1 that have moved. They keep working for one version; then this file goes."""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PUBLIC = {  # short names that stay
    "rince.contrast": "rince.losses.contrast",
    "rince.objectives": "rince.losses.objectives",
    "rince.schedules": "rince.losses.schedules",
}
MOVED = {
    "rince.temperature": "rince.losses.temperature",
    "rince.seeds": "rince._support.step_seeds",
    "rince.export": "rince.encoders.files",
    "rince.demo": "rince.reproduce.demo",
    "rince.views.operations": "rince._support.image_operations",
    "rince.data.arrays": "rince.data.images.arrays",
    "rince.data.cifar10": "rince.data.images.cifar10",
    "rince.data.digit_images": "rince.data.images.digit_images",
    "rince.data.image_folder": "rince.data.images.folder",
    "rince.data.stem_images": "rince.data.images.stem_features",
    "rince.data.tudataset": "rince.data.graphs.tudataset",
    "rince.data.tu_graphs": "rince.data.graphs.tu_graphs",
    "rince.data.paired_arrays": "rince.data.pairs.arrays",
    "rince.data.digits": "rince.data.pairs.digit_halves",
    "rince.data.spoken_digits": "rince.data.pairs.spoken_digits",
    "rince.data.videos": "rince.data.video.videos",
    "rince.data.kinetics400": "rince.data.video.kinetics400",
    "rince.data.acav100m": "rince.data.video.acav100m",
    "rince.data.ucf101": "rince.data.video.ucf101",
    "rince.data.hmdb51": "rince.data.video.hmdb51",
    "rince.data.generated_video": "rince.data.synthetic.generated_video",
    "rince.data.moving_shapes": "rince.data.synthetic.moving_shapes",
    "rince.audit.verdict": "rince.audit.run",
    "rince.audit.mismatched": "rince.audit.mismatched",
    "rince.audit.rate": "rince.audit.estimate.rate",
    "rince.audit.fit.towers": "rince.audit.fit.towers",
    "rince.audit.fit.cross_fit": "rince.audit.fit.cross_fit",
}


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
                f"{old} has moved to {MOVED[old]}: the old path goes in version 0.3", DeprecationWarning, stacklevel=2
            )
        return MOVED.get(old)


def install() -> None:
    """Let imports of the old paths find the modules at their new places."""
    if not any(isinstance(finder, _OldPaths) for finder in sys.meta_path):
        sys.meta_path.append(_OldPaths())
