"""The loss on several processes: negatives come from all of them, gradients are those of the joined batch.

torchrun --nproc_per_node 2 examples/ddp.py
python examples/ddp.py               the same batches on one process, with the same losses
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rince

rank, processes = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
if processes > 1:
    dist.init_process_group("gloo")  # "nccl" on GPUs


class Model(nn.Module):
    """Encoder and loss in one module, so that DDP also synchronizes a learned temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))
        self.loss = rince.InfoNCE(temperature=rince.LearnedTemperature(0.2))

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        return self.loss(self.encoder(x1), self.encoder(x2))


torch.manual_seed(0)
model: nn.Module = Model()
if processes > 1:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

data = torch.Generator().manual_seed(1)
for step in range(20):
    items = torch.randn(64, 32, generator=data)
    noise = 0.3 * torch.randn(2, 64, 32, generator=data)
    local = slice(rank * 64 // processes, (rank + 1) * 64 // processes)
    value = model((items + noise[0])[local], (items + noise[1])[local])
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    # The mean of the losses over the processes is the loss of the joined batch.
    total = value.detach().clone()
    if processes > 1:
        dist.all_reduce(total)
    if rank == 0 and step % 5 == 4:
        print(f"step {step + 1}: loss {float(total / processes):.5f}")
if processes > 1:
    dist.destroy_process_group()
