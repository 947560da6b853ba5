"""Training runs of the experiments: ``rince train`` with a configuration and some changed values."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rince.errors import UsageError

NAMES = {"infonce": "InfoNCE", "graphcl": "GraphCL's form", "rince": "RINCE", "warm-up": "RINCE, growing q"}
LOSS_HELP = "losses: infonce, rince (q as configured), rince-0.5 (q 0.5), each also with its temperature, infonce@0.2"


def part(class_path: str, **init_args: Any) -> dict[str, Any]:
    """Class path and arguments, as in a configuration."""
    return {"class_path": class_path, "init_args": init_args}


def settings_of(config: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a configuration, with values changed by their command-line names.

    Args:
        config: Short name, such as ``digits/simclr``, or path.
        changes: Name and value, such as ``{"loss.q": 0.5, "data.noise.rate": 0.2}``. ``part(...)`` replaces a whole
            part, ``None`` leaves it out.

    Returns:
        Nested values as ``parse_settings`` takes them.
    """
    import yaml

    from rince.train.short_names import find_config

    settings = yaml.safe_load(find_config(config).read_text(encoding="utf-8"))
    for name, value in changes.items():
        section = settings
        *path, last = name.split(".")
        for key in path:
            section = _inside(section).setdefault(key, {})
        _inside(section)[last] = copy.deepcopy(value)
    return settings


def _inside(section: dict[str, Any]) -> dict[str, Any]:
    return section.setdefault("init_args", {}) if "class_path" in section else section


def split_loss(name: str) -> tuple[str, float | None, float | None]:
    """``rince-0.5@0.1`` is ("rince", 0.5, 0.1): kind, q and temperature, the last two where they are given."""
    base, _, temperature = name.partition("@")
    kind, dash, q = base.rpartition("-")
    try:
        result = (kind, float(q)) if dash else (base, None)
    except ValueError:
        result = (base, None)
    try:
        degree = float(temperature) if temperature else None
    except ValueError:
        raise UsageError(f"the temperature of a loss is a number, as in {base}@0.2, got '{name}'") from None
    if result[0] not in NAMES or (result[1] is not None and result[0] != "rince"):
        raise UsageError(f"there is no loss '{name}' here; {LOSS_HELP}")
    return result[0], result[1], degree


def loss_title(name: str) -> str:
    """Label of a loss in tables and figures: ``RINCE q 0.5, t 0.1``."""
    kind, q, temperature = split_loss(name)
    return NAMES[kind] + ("" if q is None else f" q {q:g}") + ("" if temperature is None else f", t {temperature:g}")


def loss_changes(config: str, name: str) -> dict[str, Any]:
    """Changes of a configuration that select a loss; settings that its name does not give stay as configured."""
    settings = settings_of(config, {})
    defaults = settings["loss"]["init_args"]
    kind, q, temperature = split_loss(name)
    degree = defaults["temperature"] if temperature is None else temperature
    fixed = {"method.q_schedule": "constant"}
    if kind == "infonce":
        return {"loss": part("rince.InfoNCE", temperature=degree), **fixed}
    if kind == "graphcl":
        return {"loss": part("rince.DCL", temperature=degree), **fixed}
    if kind == "warm-up":
        return {"loss.temperature": degree, "method.q_schedule": "linear", "method.q_start": 0.01}
    return {"loss.q": defaults["q"] if q is None else q, "loss.temperature": degree, **fixed}


def trained(settings: dict[str, Any], folder: Path) -> tuple[Any, Any]:
    """Method and data of the run in ``folder``, which is started or resumed unless it is finished.

    Raises:
        UsageError: If the folder holds a run with other settings or data.
    """
    from rince.train.checkpoints import latest
    from rince.train.config import parse_settings, train_parser
    from rince.train.load import load_run
    from rince.train.run import nested_settings
    from rince.train.run_folder import RunFolder
    from rince.train.weights import train_with_weights

    quiet = {"enable_progress_bar": False, "enable_model_summary": False}
    settings = {**settings, "trainer": settings["trainer"] | quiet, "out": str(folder.parent), "name": folder.name}
    parser = train_parser()
    config = parse_settings(parser, settings)
    finished = (folder / "result.json").exists()
    if finished:
        RunFolder(folder).check_same(nested_settings(parser.dump(config)))
    else:
        train_with_weights(parser, config)
    method, data, _ = load_run(folder, allow_custom_code=True)  # classes of the experiments
    if finished and (checkpoint := latest(RunFolder(folder))) is not None:
        data.prepare_data()
        data.setup("fit")
        if (fingerprint := checkpoint[1].get("data_fingerprint")) and fingerprint != data.fingerprint():
            raise UsageError(f"{folder} was trained on other data: give another --out")
    return method, data
