"""A step of CLIP and SigLIP on two processes, by open_clip and by us, for test_open_clip.py."""

import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import normalize

from integrations.real_peers import open_clip_losses
from rince.integrations import open_clip as ours

SETTINGS = {
    f"{kind} {local} {grad}": (kind, {"local_loss": local, "gather_with_grad": grad})
    for kind in ("ClipLoss",)
    for local in (False, True)
    for grad in (False, True)
} | {f"SigLipLoss {how}": ("SigLipLoss", {"dist_impl": how}) for how in ("bidir", "shift", "gather")}


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.image, self.text = nn.Linear(5, 8), nn.Linear(5, 8)
        self.scale, self.bias = nn.Parameter(torch.tensor(7.0)), nn.Parameter(torch.tensor(-2.0))

    def forward(self, x, y):
        return normalize(self.image(x)), normalize(self.text(y)), self.scale, self.bias


def step(library, kind, options, rank):
    g = torch.Generator().manual_seed(1)
    x, y = torch.randn(2, 12, 5, generator=g)
    own = slice(6 * rank, 6 * rank + 6)
    model = Towers()
    image, text, scale, bias = model(x[own], y[own])
    loss = getattr(library, kind)(rank=rank, world_size=2, **options)
    value = loss(image, text, scale, bias) if kind == "SigLipLoss" else loss(image, text, scale)
    value.backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    dist.all_reduce(gradient)  # what DistributedDataParallel does
    return value.detach(), gradient / 2


def worker(rank, world, folder):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    theirs = open_clip_losses()
    found = {name: tuple(step(lib, *case, rank) for lib in (theirs, ours)) for name, case in SETTINGS.items()}
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
