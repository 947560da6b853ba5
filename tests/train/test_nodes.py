"""Two machines, played by this one: processes that know of each other only what torchrun or SLURM tells them."""

import socket

import pytest
import torch

from rince import cli
from support import ranks
from support.nodes import slurm, torchrun

SMALL = [
    "--encoder.channels", "1", "--encoder.width", "4", "--encoder.norm", "group",
    "--method.hidden", "16", "--method.width", "8", "--method.head_norm", "false",
    "--views.size", "8", "--views.mean", "[0.3]", "--views.std", "[0.4]", "--views.jitter", "[0.4, 0.4, 0, 0]",
    "--data", "DigitImages", "--data.limit", "256", "--data.batch_size", "64", "--trainer.max_epochs", "2",
    "--trainer.log_every_n_steps", "1", "--trainer.accelerator", "cpu", "--trainer.precision", "64-true",
    "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false",
]  # fmt: skip
NODES = ["--trainer.num_nodes", "2", "--trainer.devices", "1", "--trainer.strategy", "ddp"]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@pytest.mark.parametrize("launcher", (torchrun, slurm))
def test_two_nodes_end_with_the_weights_of_one_process(launcher, tmp_path):
    """In double precision, so that what differs is the method and not the rounding, which training blows up."""
    arguments = ["train", *SMALL, "--out", str(tmp_path), "--name"]
    port = free_port()
    nodes = [ranks.Alone(launcher, node, port, [*arguments, "two", *NODES]) for node in range(2)]
    assert cli.main([*arguments, "one"]) == 0
    for node in nodes:
        code, said, told = node.end()
        assert code == 0, said + told
    one, two = (torch.load(tmp_path / name / "last.ckpt", weights_only=True) for name in ("one", "two"))
    assert one["global_step"] == two["global_step"] == 8
    for name, value in one["state_dict"].items():
        torch.testing.assert_close(two["state_dict"][name], value, rtol=0, atol=1e-9)
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == sorted(
        path.name for path in (tmp_path / "two").iterdir()
    )
