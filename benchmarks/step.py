"""What a training step costs beside the encoder: views, loss, optimizer, logging and Lightning itself.

    python benchmarks/step.py [--batch 256] [--steps 3] [--depth 18]

SimCLR with RINCE and a ResNet with CIFAR stem, run by Lightning as `rince train` runs it. CPU seconds on one thread;
the first step is left out.
"""

import argparse
import time
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer

from rince import RINCE
from rince._support.step_seeds import generator
from rince.data.images import Images
from rince.encoders.images import ResNet
from rince.methods.simclr import SimCLR
from rince.views.image import SimCLRViews


class Noise(Images):
    """As many random images as the steps need; what they show makes no difference to the time."""

    def __init__(self, batch_size: int, steps: int):
        super().__init__(batch_size)
        self.count = batch_size * steps

    def read(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        images = torch.randint(256, (self.count, 3, 32, 32), dtype=torch.uint8, generator=generator(0))
        labels = torch.randint(10, (self.count,), generator=generator(1))
        return {"train": (images, labels), "test": (images[:2], labels[:2])}


class Clock(Callback):
    """CPU seconds of whole steps, and of the encoder's forward and backward passes in them."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.encoder: list[float] = []
        self.last = self.begun = self.spent = 0.0

    def watch(self, encoder: torch.nn.Module) -> None:
        encoder.register_forward_pre_hook(self._before)
        encoder.register_forward_hook(self._after)

    def _before(self, *_: Any) -> None:
        self.begun = time.process_time()

    def _after(self, module: Any, inputs: Any, output: torch.Tensor) -> None:
        self.spent += time.process_time() - self.begun
        output.register_hook(self._back)

    def _back(self, gradient: torch.Tensor) -> None:  # the gradient arrives at the features: the rest is the encoder's
        self.begun = time.process_time()

    def on_after_backward(self, *_: Any) -> None:
        self.spent += time.process_time() - self.begun

    def on_train_start(self, *_: Any) -> None:
        self.last = time.process_time()

    def on_train_batch_start(self, *_: Any) -> None:
        self._turn()

    def on_train_end(self, *_: Any) -> None:
        self._turn()

    def _turn(self) -> None:
        """A step lasts from the start of one to the start of the next, the loading of data included."""
        now = time.process_time()
        self.steps.append(now - self.last)
        self.encoder.append(self.spent)
        self.last, self.spent = now, 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--depth", type=int, default=18)
    found = parser.parse_args()
    torch.set_num_threads(1)
    encoder, clock = ResNet(found.depth, stem="cifar"), Clock()  # type: ignore[arg-type]
    clock.watch(encoder)
    method = SimCLR(encoder, RINCE(), SimCLRViews(), lambda p: torch.optim.Adam(p, lr=1e-3))
    trainer = Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[clock], use_distributed_sampler=False,
    )  # fmt: skip
    trainer.fit(method, datamodule=Noise(found.batch, found.steps + 1))
    steps, inside = clock.steps[2:], clock.encoder[2:]  # before the first step, and the first step, which warms up
    whole, encoding = sum(steps) / len(steps), sum(inside) / len(inside)
    print(f"ResNet-{found.depth}, CIFAR stem, batch {found.batch}, CPU seconds a step over {len(steps)} steps")
    print(f"  whole step                    {whole:8.3f}")
    print(f"  encoder forward and backward  {encoding:8.3f}")
    print(f"  everything else               {whole - encoding:8.3f}   {100 * (whole - encoding) / whole:.1f} %")


if __name__ == "__main__":
    main()
