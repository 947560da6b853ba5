"""The configurations that come with rince, by their short names: ``digits/simclr`` is configs/digits/simclr.yaml."""

import difflib
from pathlib import Path

from rince.errors import MissingFile

SHIPPED = Path(__file__).parents[1] / "configs"


def shipped() -> dict[str, Path]:
    """All of them: short name and file."""
    return {
        str(path.relative_to(SHIPPED).with_suffix("").as_posix()): path for path in sorted(SHIPPED.glob("*/*.yaml"))
    }


def find_config(name: str) -> Path:
    """The file of a configuration: an existing file, or else the one that ships under this name."""
    if Path(name).is_file():
        return Path(name)
    known = shipped()
    short = name.removesuffix(".yaml").removeprefix("configs/")
    if short in known:
        return known[short]
    near = difflib.get_close_matches(short, known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise MissingFile(
        f"there is no configuration {name}{hint} (it is a file of yours, or comes with rince: {', '.join(known)})"
    )


def short_name(path: Path) -> str | None:
    """digits/simclr for a file that ships with rince, None for any other."""
    path = path.resolve()
    return next((name for name, file in shipped().items() if file.resolve() == path), None)


def first_comment(path: Path) -> str:
    """What a configuration says of itself in its first line."""
    with open(path, encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()
