"""A plain training loop on digit halves of which 40% are mismatched: InfoNCE, GCE, and GCE with estimated weights.

python examples/own_loop.py          about 15 s on one core; needs scikit-learn (pip install 'rince[train]')
"""

import torch
from torch import nn

import rince
from rince.data import digit_pairs
from rince.noise import wrong_pairs

pairs = digit_pairs()  # every digit cut in two: even rows belong to odd rows
a, b = torch.from_numpy(pairs.a), torch.from_numpy(pairs.b)
noise = wrong_pairs(1400, rate=0.4, seed=0)
train_a, train_b = a[:1400], b[:1400][torch.from_numpy(noise.partner)]
test_a, test_b = a[1400:], b[1400:]

estimate = rince.estimate_weights(train_a, train_b)  # one weight per pair, in seconds
print(estimate)
weights, ones = torch.from_numpy(estimate.weights), torch.ones(1400)


def tower() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 64))


@torch.no_grad()
def recall_at_1(f: nn.Module, g: nn.Module) -> float:
    """Share of held-out pairs whose partner is the nearest item."""
    z_a, z_b = (nn.functional.normalize(z) for z in (f.eval()(test_a), g.eval()(test_b)))
    return float((z_a @ z_b.T).argmax(1).eq(torch.arange(len(z_a))).float().mean())


info_nce = rince.InfoNCE(temperature=0.2, contrast=rince.CrossView())
gce = rince.GCE(contrast=rince.CrossView())  # q 1, temperature 0.2
for name, loss, pair_weights in (("InfoNCE", info_nce, ones), ("GCE", gce, ones), ("GCE, weights", gce, weights)):
    torch.manual_seed(0)
    f, g = tower(), tower()
    optimizer = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=1e-3)
    for _ in range(30):
        for batch in torch.randperm(1400).split(200):
            value = loss(f(train_a[batch]), g(train_b[batch]), weights=pair_weights[batch])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    print(f"{name:<12} R@1 of held-out pairs {recall_at_1(f, g):.1%}")
