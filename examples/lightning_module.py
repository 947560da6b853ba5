"""The loss in a LightningModule, with a weight per pair.

python examples/lightning_module.py      a few seconds; pip install 'rince[train]'
"""

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import rince
from rince.data import digit_pairs
from rince.noise import wrong_pairs


class TwoTowers(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 32)) for _ in range(2))
        self.loss = rince.GCE(contrast=rince.CrossView())

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        a, b, weights = batch
        value = self.loss(self.a(a), self.b(b), weights=weights)
        self.log("loss", value)
        return value

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


pl.seed_everything(0, verbose=False)
pairs = digit_pairs()
a, b = pairs.a, pairs.b[wrong_pairs(len(pairs.a), rate=0.4).partner]  # 40% of the pairs are mismatched
estimate = rince.estimate_weights(a, b)
print(estimate)
data = TensorDataset(*map(torch.from_numpy, (a, b, estimate.weights)))
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
