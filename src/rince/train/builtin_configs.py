"""Configurations that come with rince, by their short names: ``digits/simclr`` is configs/digits/simclr.yaml."""

import difflib
from pathlib import Path

from rince.errors import MissingFile

CONFIGS = Path(__file__).parents[1] / "configs"


def builtin_configs() -> dict[str, Path]:
    """Short name -> file of every configuration."""
    return {path.relative_to(CONFIGS).with_suffix("").as_posix(): path for path in sorted(CONFIGS.glob("*/*.yaml"))}


def find_config(name: str) -> Path:
    """File of a configuration: an existing file, or the one that comes with rince under this name.

    Raises:
        MissingFile: If there is neither, with the nearest name.
    """
    if Path(name).is_file():
        return Path(name)
    known = builtin_configs()
    short = name.removesuffix(".yaml").removeprefix("configs/")
    if short in known:
        return known[short]
    near = difflib.get_close_matches(short, known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise MissingFile(
        f"there is no configuration {name}{hint} (give a file of your own, or one of: {', '.join(known)})"
    )


def short_name(path: Path) -> str | None:
    """``digits/simclr`` for a file that comes with rince, None for any other."""
    path = path.resolve()
    return next((name for name, file in builtin_configs().items() if file.resolve() == path), None)


def configs_for(command: str) -> dict[str, str]:
    """Short name -> first comment line of the configurations for ``train`` or ``finetune``.

    The second line of a configuration shows the command that it is for.
    """
    found = {}
    for name, path in builtin_configs().items():
        title, usage = path.read_text(encoding="utf-8").split("\n")[:2]
        if f"rince {command} " in usage:
            found[name] = title.lstrip("# ").strip()
    return found
