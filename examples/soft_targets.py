"""Weights in the manner of robust-xID: a slowly moving copy of the model says how far each pair is trusted.

python examples/soft_targets.py      about 15 s on one core; needs scikit-learn (pip install 'rince[train]')
"""

import copy

import torch
from torch import nn
from torch.nn.functional import cosine_similarity, normalize

import rince
from rince.data import digit_pairs
from rince.noise import wrong_pairs

pairs = digit_pairs()  # every digit cut in two: even rows belong to odd rows
a, b = torch.from_numpy(pairs.a), torch.from_numpy(pairs.b)
train, test = slice(0, 1400), slice(1400, None)
noisy_b = b[train][torch.from_numpy(wrong_pairs(1400, rate=0.4, seed=0).partner)]


def tower() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 64))


@torch.no_grad()
def trust_of(slow: nn.ModuleList, least: float = 0.05) -> torch.Tensor:
    """Where a pair's score lies among those of mismatched pairs: the chance of a mismatched one to score lower."""
    slow.eval()
    z_a, z_b = slow[0](a[train]), slow[1](noisy_b)
    mismatched = cosine_similarity(z_a, z_b.roll(1, 0))
    place = (cosine_similarity(z_a, z_b) - mismatched.mean()) / mismatched.std()
    return torch.special.ndtr((place - 2) / 0.5).clamp(min=least)  # two deviations above chance: half trusted


def recall_at_1(model: nn.ModuleList) -> float:
    with torch.no_grad():
        z_a, z_b = (normalize(net.eval()(x[test]), dim=1) for net, x in zip(model, (a, b), strict=True))
    return float((z_a @ z_b.T).argmax(1).eq(torch.arange(len(z_a))).float().mean())


loss = rince.InfoNCE(temperature=0.2, contrast=rince.CrossView())
for name in ("all pairs alike", "pairs as far as they are trusted"):
    torch.manual_seed(0)
    model = nn.ModuleList([tower(), tower()])
    slow = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(30):
        trust = trust_of(slow) if epoch >= 5 and name != "all pairs alike" else torch.ones(1400)
        model.train()
        for batch in torch.randperm(1400).split(256)[:-1]:
            value = loss(model[0](a[train][batch]), model[1](noisy_b[batch]), weights=trust[batch])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            for now, past in zip(model.state_dict().values(), slow.state_dict().values(), strict=True):
                past.lerp_(now, 0.1) if past.is_floating_point() else past.copy_(now)
    print(f"{name:<34}R@1 of held-out pairs {100 * recall_at_1(model):.1f} %")
