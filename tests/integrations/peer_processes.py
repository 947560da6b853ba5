"""Losses on two processes, the peers' own and ours, for test_peer_processes.py."""

import importlib.util
import os
import warnings

import torch
import torch.distributed as dist
from torch import nn

import rince
from integrations.real_peers import lightly_losses
from rince.integrations import lightly as our_lightly

ROWS, WIDTH = 6, 8
LIGHTLY = {
    "NTXentLoss": {"temperature": 0.2},
    "DCLLoss": {"temperature": 0.2},
    "DCLWLoss": {"temperature": 0.2, "sigma": 0.4},
}


def whole():
    """Two views of the batch of both processes."""
    g = torch.Generator().manual_seed(0)
    a = torch.randn(2 * ROWS, WIDTH, generator=g)
    return a, a + torch.randn(2 * ROWS, WIDTH, generator=g)


def labels():
    return torch.arange(2 * ROWS) % 5


def of(rank, *tensors):
    """The part of a process, as leaves."""
    own = slice(ROWS * rank, ROWS * (rank + 1))
    return [t[own].clone().requires_grad_(t.is_floating_point()) for t in tensors]


def step(loss, *tensors, **given):
    value = loss(*tensors, **given)
    wanted = [t for t in tensors if t.requires_grad]
    return value.detach(), torch.cat(torch.autograd.grad(value, wanted))


def lightly_step(rank, name):
    """lightly's loss and ours with ``gather_distributed``, on the pairs of this process."""
    ntx, dcl = lightly_losses()
    theirs = getattr(ntx if name == "NTXentLoss" else dcl, name)
    every = (theirs, getattr(our_lightly, name))
    return [step(make(gather_distributed=True, **LIGHTLY[name]), *of(rank, *whole())) for make in every]


def supcon_step(rank, y):
    loss = our_lightly.SupConLoss(0.2, gather_distributed=True, rescale=False)
    return step(loss, *of(rank, *whole()), **({} if y is None else {"labels": of(rank, y)[0]}))


def wrapper_step(rank, efficient):
    """pytorch-metric-learning's wrapper around its loss and around ours."""
    from pytorch_metric_learning import losses
    from pytorch_metric_learning.utils.distributed import DistributedLossWrapper

    from rince.integrations import pytorch_metric_learning as ours

    (a,), (y,) = of(rank, whole()[0]), of(rank, labels())
    found = []
    for make in (losses.NTXentLoss, ours.NTXentLoss, ours.RINCELoss):
        value = DistributedLossWrapper(make(temperature=0.2), efficient=efficient)(a, y)
        found.append((value.detach(), torch.autograd.grad(value, a)[0]))
    return found


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = nn.Linear(WIDTH, 5), nn.Linear(WIDTH, 5)

    def forward(self, x, y):
        return self.a(x), self.b(y)


def pair_loss():
    return rince.RINCE(q=0.5, temperature=0.2, contrast=rince.CrossView(), scale="unit")


def accelerate_step(rank):
    """The gradient after ``accelerator.backward`` of a loss that gathers by itself."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == 2
    model = accelerator.prepare(Towers())
    accelerator.backward(pair_loss()(*model(*(t.detach() for t in of(rank, *whole())))))
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def transformers_step(rank, folder):
    """The parameters after one step of the Trainer."""
    import transformers

    from rince.integrations.transformers import DualEncoderLoss

    x, y = whole()
    # The Trainer deals batches to the processes in turn.
    data = [{"x": x[i], "y": y[i]} for i in range(2 * ROWS)]
    arguments = transformers.TrainingArguments(
        output_dir=f"{folder}/trainer", per_device_train_batch_size=ROWS, max_steps=1, optim="sgd", learning_rate=1.0,
        lr_scheduler_type="constant", max_grad_norm=0, use_cpu=True, report_to=[], save_strategy="no",
        disable_tqdm=True, remove_unused_columns=False, train_sampling_strategy="sequential",
    )  # fmt: skip
    model = Towers()
    func = DualEncoderLoss(pair_loss(), 0, 1)
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=data, compute_loss_func=func)
    assert trainer.args.world_size == 2
    trainer.train()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def worker(rank, world, folder):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ.update(
        {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
        | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "ACCELERATE_USE_CPU": "true"}
    )
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    found = {"supcon": supcon_step(rank, labels()), "supcon alone": supcon_step(rank, None)}
    if importlib.util.find_spec("lightly") is not None:
        found |= {name: lightly_step(rank, name) for name in LIGHTLY}
    if importlib.util.find_spec("pytorch_metric_learning") is not None:
        found |= {f"wrapper {efficient}": wrapper_step(rank, efficient) for efficient in (False, True)}
    if importlib.util.find_spec("accelerate") is not None:
        found["accelerate"] = accelerate_step(rank)
        found["transformers"] = transformers_step(rank, folder)
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
