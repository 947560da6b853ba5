"""Learned temperature and bias under ``fully_shard``, which keeps parameters as DTensors."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import rince

fsdp = pytest.importorskip("torch.distributed.fsdp")
MAKE = {
    "LearnedTemperature": lambda: rince.GCE(temperature=rince.LearnedTemperature(0.2)),
    "Parameter": lambda: rince.InfoNCE(temperature=nn.Parameter(torch.tensor([0.2]))),
    "bias": lambda: rince.Sigmoid(
        temperature=nn.Parameter(torch.tensor([0.2])), bias=nn.Parameter(torch.tensor([-5.0]))
    ),
}


@pytest.fixture
def mesh(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@pytest.mark.skipif(not hasattr(fsdp, "fully_shard"), reason="needs fully_shard (torch 2.6)")
@pytest.mark.parametrize("make", MAKE.values(), ids=list(MAKE))
def test_sharded_parameters_of_a_loss_get_the_same_gradient(make, mesh):
    z = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.randn(8, 4)
    plain, sharded = make(), make()
    value = plain(*z)
    value.backward()
    fsdp.fully_shard(sharded, mesh=mesh)
    again = sharded(*z)
    again.backward()
    assert torch.allclose(value, again)
    for parameter, expected in zip(sharded.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(parameter.grad.full_tensor(), expected.grad)
