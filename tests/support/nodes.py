"""The process of one node of two, started as SLURM or torchrun starts it."""

import dataclasses
import os


def slurm(node, port, arguments):
    """What srun sets for one task on each of two nodes."""
    told = {
        "SLURM_JOB_ID": "4321",
        "SLURM_JOB_NAME": "train",
        "SLURM_NTASKS": "2",
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_NNODES": "2",
        "SLURM_NODELIST": "127.0.0.1",
        "SLURM_PROCID": str(node),
        "SLURM_NODEID": str(node),
        "SLURM_LOCALID": "0",
        "MASTER_PORT": port,
    }
    os.environ.update(told)
    return run(node, arguments)


def torchrun(node, port, arguments):
    """torchrun with its own options and agents; what these start is a fork instead of a new Python."""
    from torch.distributed.launcher.api import elastic_launch
    from torch.distributed.run import config_from_args, parse_args

    where = ["--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "1"]
    where += ["--master-addr", "127.0.0.1", "--master-port", port, "--monitor-interval", "0.1"]
    config, _, _ = config_from_args(parse_args([*where, "-m", "rince.cli", *arguments]))
    codes = elastic_launch(dataclasses.replace(config, start_method="fork"), run)(node, arguments)
    return max(codes.values())


def run(rank, arguments):
    from lightning.pytorch.utilities.rank_zero import rank_zero_only

    from rince.cli import main

    rank_zero_only.rank = rank  # which Lightning reads from the environment when it is imported
    return main(arguments)
