"""How many processes a run has, which of them this one is, and whether as many were started: as Lightning finds out."""

import os
import re
from typing import Any

from lightning.pytorch.utilities import rank_zero_only

from rince.errors import UsageError

# What torchrun, SLURM or the user say in numbers.
NUMBERS: tuple[str, ...] = ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
NUMBERS += ("MASTER_PORT", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES")
NUMBERS += ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
# These number the processes in ways of their own, which only Lightning looks into.
OTHERS = ("LSB_JOBID", "JSM_NAMESPACE_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def check_processes(options: dict[str, Any]) -> None:
    """Refuse a run of other than the processes that were started: each would train all of it, or wait for ever.

    A shell of SLURM (a job called bash or interactive) has started none, even if it has room for several.
    """
    for name in NUMBERS:
        if name in os.environ and not re.fullmatch(r"\s*[0-9]{1,9}\s*", os.environ[name]):
            raise UsageError(
                f"the variable {name} must be a whole number, as torchrun or SLURM sets it, got "
                f"{os.environ[name][:40]!r}: unset it, or start the run with one of these"
            )
    wanted = processes_of(options)
    if wanted is None or _has_environment(options):
        return
    if _by_torchrun():
        _compare("WORLD_SIZE", _number("WORLD_SIZE", 1), wanted, _number("LOCAL_WORLD_SIZE", 0), "start as many")
    elif _by_slurm():
        tasks = _number("SLURM_NTASKS", 1)
        per_node = _number("SLURM_NTASKS_PER_NODE", tasks // max(1, _number("SLURM_NNODES", 1)))
        otherwise = "set SLURM_JOB_NAME=interactive if this is one alone" if wanted == 1 else "start as many"
        _compare("SLURM_NTASKS", tasks, wanted, per_node, otherwise)
    elif wanted == 1 and "RANK" in os.environ:  # others may use WORLD_SIZE for the nodes
        _compare("WORLD_SIZE", _number("WORLD_SIZE", 1), wanted, 0, "unset it if this is one alone")


def settle_rank(options: dict[str, Any]) -> None:
    """Tell this process its number in the run before Lightning does: the first one locks the folder, and writes.

    Lightning takes it from whichever variable there is, though a process may have one and yet be a run of its own.
    """
    wanted = processes_of(options)
    if wanted is None or _has_environment(options):
        return
    if wanted == 1:
        rank_zero_only.rank = 0
    elif _by_torchrun():
        rank_zero_only.rank = _number("RANK", 0)
    elif _by_slurm():
        rank_zero_only.rank = _number("SLURM_PROCID", 0)
    elif not any(name in os.environ for name in OTHERS):
        node = _number("NODE_RANK", _number("GROUP_RANK", 0))
        rank_zero_only.rank = node * (wanted // (options.get("num_nodes") or 1)) + _number("LOCAL_RANK", 0)


def processes_of(options: dict[str, Any]) -> int | None:
    """How many processes the options of the trainer ask for; None where only Lightning can tell."""
    devices, accelerator = options.get("devices", "auto"), options.get("accelerator", "auto")
    if isinstance(devices, str) and "," in devices:
        devices = [one for one in devices.split(",") if one.strip()]
    if isinstance(devices, str) and re.fullmatch(r"\s*-?[0-9]{1,9}\s*", devices):
        devices = int(devices)
    if isinstance(devices, list | tuple):
        devices = len(devices)
    elif devices in (None, "auto", -1):
        devices = _all_devices(accelerator)
    nodes = options.get("num_nodes") or 1
    return devices * nodes if isinstance(devices, int) and isinstance(nodes, int) else None


def _all_devices(accelerator: Any) -> int | None:
    import torch

    if accelerator == "cpu":
        return 1
    if accelerator not in ("auto", "gpu", "cuda"):
        return None
    return torch.cuda.device_count() or (1 if accelerator == "auto" else None)


def _compare(variable: str, started: int, wanted: int, per_node: int, otherwise: str) -> None:
    if started == wanted:
        return
    several = 0 < per_node < started and not started % per_node
    options = f"--trainer.devices {per_node if several else started}"
    options += f" --trainer.num_nodes {started // per_node}" if several else ""
    were = "1 process was" if started == 1 else f"{started} processes were"
    raise UsageError(
        f"{variable} says that {were} started, but trainer.devices x trainer.num_nodes is {wanted}: give {options}, or "
        f"{otherwise}"
    )


def _by_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def _by_slurm() -> bool:
    return "SLURM_NTASKS" in os.environ and os.environ.get("SLURM_JOB_NAME") not in ("bash", "interactive")


def _has_environment(options: dict[str, Any]) -> bool:
    """Whether the user has said by a plugin who starts the processes."""
    return "Environment" in str(options.get("plugins"))


def _number(name: str, otherwise: int) -> int:
    return int(os.environ.get(name, otherwise))
