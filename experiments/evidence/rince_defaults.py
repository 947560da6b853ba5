"""Which defaults of RINCE train two towers and SimCLR out of the box, on scikit-learn digits.

    python -m experiments.evidence.rince_defaults --seeds 3

Two towers match the even and the odd rows of a digit (``CrossView``): R@1 among 397 clean test pairs after training on
clean pairs and on pairs of which 40 % are mismatched. One encoder learns from two noisy views of a digit (``TwoView``):
accuracy of a 5-nearest-neighbor classifier on 397 test images. Every candidate has the same steps and learning rate.
"""

import argparse
import itertools
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor, nn

from rince.compare.towers import batches, split
from rince.demo import train_towers
from rince.losses import GCE, RINCE, Contrast, ContrastiveLoss, CrossView, DensityRatio, InfoNCE, TwoView

Make = Callable[[Contrast], ContrastiveLoss]


def candidates() -> dict[str, Make]:
    """Losses by name, as functions of a contrast."""
    losses: dict[str, Make] = {}
    for t in (0.1, 0.2, 0.5):
        losses[f"InfoNCE t {t}"] = lambda contrast, t=t: InfoNCE(temperature=t, contrast=contrast)
    losses["GCE q 1 t 0.2"] = lambda contrast: GCE(q=1.0, temperature=0.2, contrast=contrast)
    lams: dict[str, Any] = {"balanced": "balanced", "DensityRatio(2.5)": DensityRatio(2.5), "0.01": 0.01}
    for q, t, (name, lam) in itertools.product((0.1, 0.5), (0.1, 0.2, 0.5), lams.items()):
        settings: dict[str, Any] = {"q": q, "lam": lam, "temperature": t, "scale": "unit"}
        losses[f"RINCE q {q} t {t} lam {name}"] = lambda contrast, s=settings: RINCE(contrast=contrast, **s)
    return losses


def two_towers(make: Make, rate: float, seed: int, epochs: int) -> float:
    """R@1 in percent."""
    digits = load_digits().images.astype(np.float32) / 16
    a, b = digits[:, ::2].reshape(len(digits), -1), digits[:, 1::2].reshape(len(digits), -1)
    data = split(torch.from_numpy(a), torch.from_numpy(b), rate, seed, 0, 397)
    f, g = train_towers(data.a, data.b, make(CrossView()), seed, epochs)
    with torch.no_grad():
        x, y = (nn.functional.normalize(net(side)) for net, side in zip((f, g), data.test, strict=True))
    return 100 * float(((x @ y.T).argmax(1) == torch.arange(len(x))).float().mean())


def simclr(make: Make, seed: int, epochs: int) -> float:
    """Accuracy of the 5 nearest neighbors in percent; views have a third of the pixels dropped, and noise."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    x = torch.from_numpy(images[order].astype(np.float32) / 16)
    y, test = labels[order], slice(0, 397)
    g = torch.Generator().manual_seed(seed)

    def view(rows: Tensor) -> Tensor:
        noise = 0.2 * torch.randn(rows.shape, generator=g)
        return (rows + noise) * (torch.rand(rows.shape, generator=g) > 1 / 3)

    torch.manual_seed(seed)
    encoder = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 128))
    head = nn.Sequential(nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64))
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-3)
    loss, train = make(TwoView()), x[397:]
    for rows in itertools.chain.from_iterable(batches(len(train), epochs, g, 256)):
        optimizer.zero_grad()
        loss(head(encoder(view(train[rows]))), head(encoder(view(train[rows])))).backward()
        optimizer.step()
    with torch.no_grad():
        features = nn.functional.normalize(encoder.eval()(x)).numpy()
    return 100 * float(KNeighborsClassifier(5).fit(features[397:], y[397:]).score(features[test], y[test]))


def main() -> None:
    """Print one line per candidate: mean and standard deviation over seeds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--only", default="", help="candidates whose name contains this text")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(10, 10 + arguments.seeds)
    print(f"{'':36}{'R@1, clean':>16}{'R@1, 40 % wrong':>18}{'SimCLR 5-NN':>16}")
    for name, make in candidates().items():
        if arguments.only not in name:
            continue
        columns = [
            [two_towers(make, 0.0, seed, arguments.epochs) for seed in seeds],
            [two_towers(make, 0.4, seed, arguments.epochs) for seed in seeds],
            [simclr(make, seed, arguments.epochs) for seed in seeds],
        ]
        cells = [f"{statistics.mean(c):6.1f} ± {statistics.stdev(c) if len(c) > 1 else 0:3.1f}" for c in columns]
        print(f"{name:36}{cells[0]:>16}{cells[1]:>18}{cells[2]:>16}", flush=True)


if __name__ == "__main__":
    main()
