"""Trust weights in a plain training loop: every pair counts as much as it is likely to be right.

python examples/trust_weights.py      about 20 s on one core; pip install 'rince[train]'
"""

import torch
from torch import nn

import rince
from rince.data import digit_pairs
from rince.noise import wrong_pairs

torch.manual_seed(0)
pairs = digit_pairs()  # every digit cut in two: even rows belong to odd rows
a, b = torch.from_numpy(pairs.a), torch.from_numpy(pairs.b)
noise = wrong_pairs(1400, rate=0.4, seed=0)
train_a, train_b = a[:1400], b[:1400][torch.from_numpy(noise.partner)]  # 40 % of the training pairs are mismatched
wrong = torch.from_numpy(noise.hit)


def tower() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 64))


def train(rows: torch.Tensor, weights: torch.Tensor | None = None) -> tuple[nn.Module, nn.Module]:
    f, g = tower(), tower()
    loss = rince.InfoNCE(temperature=0.2, contrast=rince.CrossView())
    optimizer = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=1e-3)
    for _ in range(20):
        for batch in rows[torch.randperm(len(rows))].split(200):
            value = loss(f(train_a[batch]), g(train_b[batch]), weights=None if weights is None else weights[batch])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    return f.eval(), g.eval()


@torch.no_grad()
def recall_at_1(f: nn.Module, g: nn.Module) -> float:
    """How often the held-out partner is the nearest of all."""
    z_a, z_b = nn.functional.normalize(f(a[1400:])), nn.functional.normalize(g(b[1400:]))
    return float((z_a @ z_b.T).argmax(1).eq(torch.arange(len(z_a))).float().mean())


# A model memorises the pairs it trains on. So two models judge the pairs, each those that only the other one saw.
folds, rows = torch.arange(1400) % 2, torch.arange(1400)
z_a, z_b = torch.empty(2, 1400, 64)
for fold in (0, 1):
    f, g = train(rows[folds != fold])
    with torch.no_grad():
        z_a[folds == fold], z_b[folds == fold] = f(train_a[folds == fold]), g(train_b[folds == fold])
weights = rince.trust.pair_trust(z_a, z_b, folds)
print(f"mean trust: {weights[~wrong].mean():.2f} in right pairs, {weights[wrong].mean():.2f} in mismatched ones")

print(f"R@1 of held-out pairs without weights {100 * recall_at_1(*train(rows)):.1f} %")
print(f"R@1 of held-out pairs with weights    {100 * recall_at_1(*train(rows, weights)):.1f} %")
