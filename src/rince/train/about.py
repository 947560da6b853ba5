"""What an encoder's file says of itself: how to build it again, and how it was trained."""

from typing import Any

from rince.views.views import about_views


def recipe_of(part: Any) -> dict[str, Any]:
    """How to build a part of a configuration again, parts within it too, in plain values."""
    return {"class_path": part.class_path, "init_args": plain_values(part.get("init_args") or {})}


def plain_values(value: Any) -> Any:
    from jsonargparse import Namespace

    if isinstance(value, Namespace):
        value = value.as_dict()
    if isinstance(value, dict):
        return {key: plain_values(inner) for key, inner in value.items()}
    if callable(value):  # an objective, by where it is found
        return f"{value.__module__}.{value.__qualname__}"
    return [plain_values(inner) for inner in value] if isinstance(value, list | tuple) else value


def about(method: Any, data: Any, config: Any) -> dict[str, Any]:
    """What somebody who gets the encoder alone wants to know."""
    from rince import __version__

    return {
        "rince": __version__,
        "method": type(method).__name__,
        "loss": {"name": type(method.loss).__name__, **plain_values(config.loss.get("init_args") or {})},
        "data": type(data).__name__,
        "normalise": about_views(method.views),
    }
