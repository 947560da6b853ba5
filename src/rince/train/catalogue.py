"""What comes with rince for each part of a run: for help, short names and corrections, without importing any of it.

No registry: a class of a user's needs no entry here, its import path is enough.
"""

import ast
import functools
from pathlib import Path
from typing import Any

CLASSES = {  # part: import paths
    "method": [
        "rince.methods.simclr.SimCLR",
        "rince.methods.supcon.SupCon",
        "rince.methods.moco.MoCo",
        "rince.methods.moco_v3.MoCoV3",
        "rince.methods.graphcl.GraphCL",
        "rince.methods.cross_modal.CrossModal",
        "rince.methods.finetune.FineTune",
    ],
    "encoder": [
        "rince.encoders.convnet.ConvNet",
        "rince.encoders.resnet.ResNet",
        "rince.encoders.r2plus1d.R2Plus1D",
        "rince.encoders.audio.AudioConvNet",
        "rince.encoders.gin.GIN",
        "rince.encoders.gin.Pooled",
        "rince.encoders.patch_stem.MLP",
        "rince.encoders.towers.Towers",
    ],
    "loss": [
        "rince.losses.rince.RINCE",
        "rince.losses.robust.GCE",
        "rince.losses.robust.SymmetricCrossEntropy",
        "rince.losses.info_nce.InfoNCE",
        "rince.losses.info_nce.DCL",
        "rince.losses.false_negatives.Debiased",
        "rince.losses.false_negatives.HardNegatives",
        "rince.losses.sigmoid.Sigmoid",
        "rince.losses.loss.ContrastiveLoss",
    ],
    "views": [
        "rince.views.image.SimCLRViews",
        "rince.views.image.MoCoV3Views",
        "rince.views.image.OwnViews",
        "rince.views.image.TwoViews",
        "rince.views.image.Recipe",
        "rince.views.clip.ClipRecipe",
        "rince.views.sound.SoundRecipe",
        "rince.views.pair.PairViews",
        "rince.views.pair.Unchanged",
        "rince.views.graph.GraphViews",
        "rince.views.mirror.MirrorViews",
    ],
    "data": [
        "rince.data.images.digit_images.DigitImages",
        "rince.data.images.cifar10.CIFAR10",
        "rince.data.images.folder.ImageFolder",
        "rince.data.images.arrays.Arrays",
        "rince.data.images.stem_features.StemFeatures",
        "rince.data.graphs.tu_graphs.TUGraphs",
        "rince.data.pairs.arrays.PairedArrays",
        "rince.data.pairs.spoken_digits.SpokenDigits",
        "rince.data.video.videos.Videos",
        "rince.data.video.kinetics400.Kinetics400",
        "rince.data.video.acav100m.ACAV100M",
        "rince.data.video.ucf101.UCF101",
        "rince.data.video.hmdb51.HMDB51",
        "rince.data.synthetic.generated_video.GeneratedVideo",
    ],
    "optimiser": ["rince.optimisers.LARS", "torch.optim.Adam", "torch.optim.AdamW", "torch.optim.SGD"],
    "noise": [
        "rince.noise.labels.LabelFlips",
        "rince.noise.crops.ExtraCrop",
        "rince.noise.sounds.Overdub",
        "rince.noise.sounds.Shift",
        "rince.noise.sounds.Silence",
    ],
    "callback": ["rince.audit.callback.PairMonitor"],
}
TOLD_BY_FILE = ("method", "data")  # one class a file, and the file's first line says more than the class's
PARTS = ("method", "encoder", "loss", "views", "data", "optimiser")
SOURCES = Path(__file__).parents[2]


def classes_of(option: str, nested: bool = True) -> dict[str, str]:
    """Short names and import paths of what an option such as ``loss``, ``data.noise`` or ``encoder.a`` may name.

    ``nested=False`` leaves out options that are more likely to be a text than a class, such as ``data.root``.
    """
    part, *inner = option.split(".")
    if inner and inner[-1] == "noise":
        kinds = ["noise"]
    elif part in PARTS and (nested or not inner or (part in ("encoder", "views") and inner[-1] in ("a", "b"))):
        kinds = [part]
    else:
        kinds = ["callback"] if option == "trainer.callbacks" else []
    return {path.rsplit(".", 1)[1]: public_path(path) for kind in kinds for path in CLASSES[kind]}


def public_path(path: str) -> str:
    """rince.RINCE rather than rince.losses.rince.RINCE."""
    return f"rince.{path.rsplit('.', 1)[1]}" if path.startswith("rince.losses.") else path


def whole_path(option: str, name: str) -> str:
    """The import path of a class of ours that was named in short; anything else as it is."""
    explicit = option.endswith(".class_path")
    return classes_of(option.removesuffix(".class_path"), nested=explicit).get(name, name)


def with_whole_paths(text: str) -> str:
    """A YAML file in which short names of our classes have become import paths; the same text where there are none.

    Works on the nodes of the file, so that all other values stay as they are written.
    """
    import yaml

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    return yaml.serialize(root, Dumper=yaml.SafeDumper) if _expand(root, "") else text


def _expand(node: Any, option: str) -> bool:
    """Whether anything was changed in the node of an option."""
    if isinstance(node.value if node is not None else None, str):
        before, node.value = node.value, whole_path(option, node.value)
        return bool(before != node.value)
    changed = False
    for item in [] if node is None else node.value:
        key, value = item if isinstance(item, tuple) else (None, item)
        inner = option if key is None or key.value == "init_args" else f"{option}.{key.value}".lstrip(".")
        changed |= _expand(value, inner)
    return changed


@functools.cache
def _sources(path: str) -> tuple[ast.Module, ast.ClassDef]:
    module, _, name = path.rpartition(".")
    tree = ast.parse((SOURCES / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    return tree, next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def summary(path: str, part: str) -> str:
    """One line on a class of ours, read from its source."""
    if not path.startswith("rince."):
        return ""
    tree, kind = _sources(path)
    text = ast.get_docstring(tree if part in TOLD_BY_FILE else kind) or ""
    return text.split("\n")[0].replace("``", "")


def arguments(path: str) -> list[str]:
    """What the constructor of a class of ours takes, read from its source."""
    _, kind = _sources(path)
    inits = [node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return [a.arg for init in inits for a in (*init.args.args[1:], *init.args.kwonlyargs)]
