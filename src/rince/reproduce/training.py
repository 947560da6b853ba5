"""One run of `rince train` within an experiment."""

from pathlib import Path
from typing import Any


def part(class_path: str, **init_args: Any) -> dict[str, Any]:
    return {"class_path": class_path, "init_args": init_args}


def trained(settings: dict[str, Any], out: str, name: str) -> tuple[Any, Any]:
    """Method and data of the run in ``out/NAME``, which is done, or gone on with, if it is not finished."""
    from rince.train.load import load_run
    from rince.train.parser import parse_settings, train_parser
    from rince.train.run import run

    folder = Path(out) / name
    if not (folder / "result.json").exists():
        trainer = settings["trainer"] | {"enable_progress_bar": False, "enable_model_summary": False}
        parser = train_parser()
        run(parser, parse_settings(parser, {**settings, "trainer": trainer, "out": out, "name": name}))
    method, data, _ = load_run(folder)
    return method, data
