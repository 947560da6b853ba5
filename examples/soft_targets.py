"""Weights from a teacher, as in robust-xID: a momentum copy of the model weights every pair by its score.

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
noise = wrong_pairs(1400, rate=0.4, seed=0)
train_a, train_b = a[:1400], b[:1400][torch.from_numpy(noise.partner)]
test_a, test_b = a[1400:], b[1400:]


def tower() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 64))


@torch.no_grad()
def teacher_weights(teacher: nn.ModuleList) -> torch.Tensor:
    """Weights in [0.05, 1]: 0.5 for a score two standard deviations above the mean of mismatched pairs."""
    z_a, z_b = teacher[0].eval()(train_a), teacher[1].eval()(train_b)
    mismatched = cosine_similarity(z_a, z_b.roll(1, 0))
    z_score = (cosine_similarity(z_a, z_b) - mismatched.mean()) / mismatched.std()
    return torch.special.ndtr((z_score - 2) / 0.5).clamp(min=0.05)


@torch.no_grad()
def recall_at_1(model: nn.ModuleList) -> float:
    z_a, z_b = normalize(model[0].eval()(test_a)), normalize(model[1].eval()(test_b))
    return float((z_a @ z_b.T).argmax(1).eq(torch.arange(len(z_a))).float().mean())


loss = rince.InfoNCE(temperature=0.2, contrast=rince.CrossView())
for name in ("equal weights", "weights from the teacher"):
    torch.manual_seed(0)
    model = nn.ModuleList([tower(), tower()])
    teacher = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(30):
        weights = teacher_weights(teacher) if epoch >= 5 and name != "equal weights" else torch.ones(1400)
        model.train()
        for batch in torch.randperm(1400).split(256)[:-1]:
            optimizer.zero_grad()
            loss(model[0](train_a[batch]), model[1](train_b[batch]), weights=weights[batch]).backward()
            optimizer.step()
            for new, old in zip(model.state_dict().values(), teacher.state_dict().values(), strict=True):
                old.lerp_(new, 0.1) if old.is_floating_point() else old.copy_(new)
    print(f"{name:<25} R@1 of held-out pairs {recall_at_1(model):.1%}")
