"""The loss in a LightningModule of your own, with q growing over training.

python examples/lightning_module.py      a few seconds; pip install 'rince[train]'
"""

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import rince
from rince import schedules
from rince.data import digit_pairs


class TwoTowers(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 32)) for _ in range(2))
        self.loss = rince.RINCE(q=0.01, lam="balanced", temperature=0.1, scale="unit", contrast=rince.CrossView())
        self.q = schedules.linear(0.01, 0.4)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        self.loss.q = self.q(self.global_step / self.trainer.estimated_stepping_batches)
        value = self.loss(self.a(batch[0]), self.b(batch[1]))
        self.log_dict({"loss": value, "q": self.loss.q})
        return value

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


pl.seed_everything(0, verbose=False)
pairs = digit_pairs()
data = TensorDataset(torch.from_numpy(pairs.a), torch.from_numpy(pairs.b))
trainer = pl.Trainer(
    max_epochs=5,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(TwoTowers(), DataLoader(data, batch_size=256, shuffle=True, drop_last=True))
print({name: round(float(value), 4) for name, value in trainer.logged_metrics.items()})
