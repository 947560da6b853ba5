"""Image methods on small generated images, for tests."""

import torch
from lightning.pytorch import Callback, Trainer

from rince import RINCE
from rince._support.step_seeds import generator
from rince.data.images import Images
from rince.encoders.images import ConvNet
from rince.methods.moco import MoCo
from rince.views.image import SimCLRViews


class Patterns(Images):
    """The class is how bright the image is, and blots tell one image from the next."""

    def read(self):
        labels = torch.arange(64) % 4
        blots = torch.rand(64, 1, 2, 2, generator=generator(0, 1)).repeat_interleave(4, 2).repeat_interleave(4, 3)
        images = (50 * labels[:, None, None, None] + 90 * blots).to(torch.uint8)
        return {"train": (images, labels), "test": (images, labels)}


def make(kind, loss=None, seed=0, **options):
    torch.manual_seed(seed)
    views = SimCLRViews(size=8, crop=(0.5, 1.0), jitter=(0.2, 0.2, 0, 0), gray_chance=0, mean=[0.3], std=[0.3])
    sizes = {"hidden": 16, "width": 8} | ({"queue": 40} if kind is MoCo else {})
    loss = RINCE(q=0.3) if loss is None else loss
    return kind(ConvNet(1, 4), loss, views, lambda p: torch.optim.Adam(p, lr=0.01), **(sizes | options))


def fit(method, epochs=2, callbacks=(), ckpt_path=None, batch_size=16, **options):
    trainer = Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=list(callbacks), use_distributed_sampler=False, **options,
    )  # fmt: skip
    data = Patterns(batch_size)
    data.pairing = method.pairing
    trainer.fit(method, datamodule=data, ckpt_path=ckpt_path, weights_only=True)
    return trainer


class Record(Callback):
    def __init__(self):
        self.losses, self.q, self.rates, self.momenta = [], [], [], []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.losses.append(float(outputs["loss"]))
        self.q.append(getattr(module.loss, "q", None))

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])
        if hasattr(module, "momentum_of"):
            self.momenta.append(module.momentum_of(module.progress))
