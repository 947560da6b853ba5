"""GCE in a training loop of your own: two views of digits, 40 % of the pairs mismatched.

python examples/own_loop.py          about 10 s on one core; needs scikit-learn (pip install 'rince[train]')
"""

import torch
from torch import nn

import rince
from rince.data import digit_pairs
from rince.noise import wrong_pairs

torch.manual_seed(0)
pairs = digit_pairs()  # every digit cut in two: even rows belong to odd rows
a, b = torch.from_numpy(pairs.a), torch.from_numpy(pairs.b)
train, test = slice(0, 1400), slice(1400, None)
noise = wrong_pairs(1400, rate=0.4, seed=0)
wrong_b = b[train][torch.from_numpy(noise.partner)]  # what a noisy data set would hold


def tower() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 64))


def recall_at_1(model_a: nn.Module, model_b: nn.Module) -> float:
    """How often the held-out partner is the nearest of all."""
    with torch.no_grad():
        z_a, z_b = (nn.functional.normalize(m.eval()(x[test]), dim=1) for m, x in ((model_a, a), (model_b, b)))
    return float((z_a @ z_b.T).argmax(1).eq(torch.arange(len(z_a))).float().mean())


losses = {
    "InfoNCE": rince.InfoNCE(temperature=0.2, contrast=rince.CrossView()),
    "GCE": rince.GCE(contrast=rince.CrossView()),
}
for name, loss in losses.items():
    model_a, model_b = tower(), tower()
    optimizer = torch.optim.Adam([*model_a.parameters(), *model_b.parameters()], lr=1e-3)
    for _ in range(30):
        for batch in torch.randperm(1400).split(256)[:-1]:
            value = loss(model_a(a[train][batch]), model_b(wrong_b[batch]))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    print(f"{name:<8} R@1 of held-out pairs {100 * recall_at_1(model_a, model_b):.1f} %")
