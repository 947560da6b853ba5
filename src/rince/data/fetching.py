"""What building a part of a run would fetch, and whether that is wanted: for configurations of others it is not."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

SWITCHES = ("download", "pretrained")  # arguments that fetch something unless they are off
# Kinds of models that transformers builds from numbers alone; others bring backbones that it fetches.
NUMBERS_ALONE = ("beit", "convnext", "convnextv2", "deit", "dinov2", "resnet", "swin", "swinv2", "vit")
# In the names of torchvision's models with a backbone, which it fetches by default.
BACKBONES = ("rcnn", "retinanet", "fcos", "ssd", "fcn", "deeplab", "raspp", "raft")

# Asked by data, when they are built, that fetch what they read later on.
may_fetch: ContextVar[bool] = ContextVar("may_fetch", default=True)


def fetched_by(kind: Any, arguments: dict[str, Any], wanted: tuple[str, ...] = ()) -> str | None:
    """What building a class with these arguments would fetch; None where that is nothing."""
    for name in SWITCHES:
        if arguments.get(name) not in (None, False) and name not in wanted:
            return f"its data or weights ({name})"
    return MODELS[kind.__name__](arguments) if kind.__name__ in MODELS else None


def _timm(arguments: dict[str, Any]) -> str | None:
    """Names with a slash or colon are those of a Hub or a folder; a text may be a checkpoint, which timm unpickles."""
    name = str(arguments.get("model_name"))
    known = name.replace(".", "_").isidentifier()
    return None if known and _numbers(arguments.get("options"), "global_pool") else _shown(name)


def _torchvision(arguments: dict[str, Any]) -> str | None:
    name = str(arguments.get("name")).lower()
    quiet = arguments.get("weights") is None and not any(word in name for word in BACKBONES)
    return None if quiet and _numbers(arguments.get("options")) else _shown(name)


def _transformers(arguments: dict[str, Any]) -> str | None:
    name, config = arguments.get("model"), arguments.get("config")
    local = isinstance(config, dict) and name in NUMBERS_ALONE and _numbers(config, "hidden_act")
    return None if local else _shown(str(name))


MODELS: dict[str, Callable[[dict[str, Any]], str | None]] = {
    "TimmEncoder": _timm,
    "TorchvisionEncoder": _torchvision,
    "ImageEncoder": _transformers,
}


def _shown(name: str) -> str:
    return f"what {name[:80]!r} or its options name"


def _numbers(options: Any, *words: str) -> bool:
    """Whether options are numbers alone, but for those that may be a word: most others may be files or addresses."""

    def plain(value: Any) -> bool:
        if isinstance(value, list | tuple):
            return all(map(plain, value))
        return value is None or isinstance(value, bool | int | float)

    return options is None or (
        isinstance(options, dict)
        and all(plain(value) or (name in words and str(value).isidentifier()) for name, value in options.items())
    )
