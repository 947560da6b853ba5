"""Weights for pairs in a plain training loop: estimated in seconds, before training.

python examples/trust_weights.py      about 10 s on one core; pip install 'rince[train]'
"""

import torch
from torch import nn

import rince
from rince.data import digit_pairs
from rince.noise import wrong_pairs

torch.manual_seed(0)
pairs = digit_pairs()  # even and odd rows of every digit
a, b = torch.from_numpy(pairs.a), torch.from_numpy(pairs.b)
noise = wrong_pairs(1400, rate=0.4, seed=0)
train_a, train_b = a[:1400], b[:1400][torch.from_numpy(noise.partner)]  # 40 % of the training pairs are mismatched

estimate = rince.estimate_weights(train_a, train_b)
weights = torch.from_numpy(estimate.weights)
print(estimate)


def tower() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 64))


def train(weights: torch.Tensor) -> tuple[nn.Module, nn.Module]:
    f, g = tower(), tower()
    loss = rince.GCE(q=1.0, temperature=0.2, contrast=rince.CrossView())
    optimizer = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=1e-3)
    for _ in range(20):
        for batch in torch.randperm(1400).split(200):
            value = loss(f(train_a[batch]), g(train_b[batch]), weights=weights[batch])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    return f.eval(), g.eval()


@torch.no_grad()
def recall_at_1(f: nn.Module, g: nn.Module) -> float:
    """Share of held-out pairs whose partner is the nearest item, in percent."""
    z_a, z_b = nn.functional.normalize(f(a[1400:])), nn.functional.normalize(g(b[1400:]))
    return 100 * float((z_a @ z_b.T).argmax(1).eq(torch.arange(len(z_a))).float().mean())


print(f"R@1 of held-out pairs without weights {recall_at_1(*train(torch.ones(1400))):.1f} %")
print(f"R@1 of held-out pairs with weights    {recall_at_1(*train(weights)):.1f} %")
