"""Features of one side for closed-form scorers: scaling, PCA and random ReLU features, applied chunk by chunk.

Nothing here looks at the pairing, so features need no cross-fitting.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PCA_WIDTH = 256
RELU_AXES, RELU_FEATURES = 64, 512
MAX_RANK_WIDTH = 20_000  # wider sides are used on one common scale only
MAX_SAMPLE_NUMBERS = 50_000_000  # numbers of a side from which its PCA is taken
CHUNK_NUMBERS = 8_000_000


@dataclass(frozen=True, eq=False)
class Scaling:
    """One side's features under one scaling: an affine map, or ranks by table, followed by PCA.

    Attributes:
        mean: (p,) mean, or 0 for ranks.
        knots, values: (p, knots) table of normal scores, or None for one common scale.
        axes: (p, width) principal axes, divided by the root of the total variance.
    """

    mean: Tensor
    axes: Tensor
    knots: Tensor | None = None
    values: Tensor | None = None

    def transform(self, x: NDArray[np.generic] | Tensor) -> Tensor:
        """(rows, p) raw values as (rows, width) features."""
        x = torch.as_tensor(np.array(x) if isinstance(x, np.ndarray) else x).float()  # a copy: it may be read-only
        if self.knots is None or self.values is None:
            return (x - self.mean) @ self.axes
        return interpolate(x, self.knots, self.values) @ self.axes


@dataclass(frozen=True, eq=False)
class SideFeatures:
    """Features of one side: scalings that apply to any rows, and their features of the fitted rows.

    Attributes:
        scalings: By whether ranks are used.
        features: The features of the fitted rows under each scaling.
        relu: Weights and offsets of the random ReLU features.
    """

    scalings: dict[bool, Scaling]
    features: dict[bool, Tensor]
    relu: tuple[Tensor, Tensor]

    @classmethod
    def fit(cls, x: NDArray[np.generic], rows: NDArray[np.int64], seed: int, ranks: bool = True) -> "SideFeatures":
        """PCA of a sample of the given rows under every scaling, and the features of these rows."""
        generator = torch.Generator().manual_seed(seed)
        most = max(1000, MAX_SAMPLE_NUMBERS // x.shape[1])
        sample = torch.as_tensor(np.asarray(x[rows[:: -(-len(rows) // most)]])).float()
        mean = sample.mean(0)
        scalings = {False: Scaling(mean, principal_axes(sample - mean, generator))}
        if ranks and x.shape[1] <= MAX_RANK_WIDTH:
            knots, values = rank_table(sample)
            axes = principal_axes(interpolate(sample, knots, values), generator)
            scalings[True] = Scaling(torch.zeros(()), axes, knots, values)
        features = {
            key: torch.cat([scaling.transform(x[rows[part]]) for part in chunks(len(rows), x.shape[1])])
            for key, scaling in scalings.items()
        }
        count = min(RELU_FEATURES, max(32, len(rows) // 4))
        weights = torch.randn(RELU_AXES, count, generator=generator)
        return cls(scalings, features, (weights, torch.randn(count, generator=generator)))

    def expand(self, x: Tensor) -> Tensor:
        """Features with random ReLU features of the first axes appended."""
        weights, offsets = self.relu
        axes = min(RELU_AXES, x.shape[1])
        hidden = torch.relu(x[:, :axes] @ weights[:axes] + offsets * 0.5)
        return torch.cat([x, hidden * weights.shape[1] ** -0.5], dim=1)

    def fitted(self, ranks: bool, relu: bool) -> Tensor:
        """Features of the fitted rows."""
        return self.expand(self.features[ranks]) if relu else self.features[ranks]

    def transform(self, x: NDArray[np.generic] | Tensor, ranks: bool, relu: bool) -> Tensor:
        """Features of any rows."""
        features = self.scalings[ranks].transform(x)
        return self.expand(features) if relu else features


def principal_axes(x: Tensor, generator: torch.Generator) -> Tensor:
    """(p, width) principal axes of centered rows, divided by the root of the total variance.

    Exact from the smaller Gram matrix up to 512, else by randomized subspace iteration.
    """
    rows, p = x.shape
    scale = torch.ldexp(torch.ones(()), torch.frexp(x.abs().max()).exponent - 1)  # squares of huge outliers overflow
    x = x / scale
    total = (x.square().sum() / rows).clamp_min(1e-30)
    width = min(PCA_WIDTH, p, max(1, rows - 1))
    if p <= 512:
        axes = torch.linalg.eigh((x.T @ x).double()).eigenvectors.flip(1)[:, :width].float()
    else:
        basis = torch.linalg.qr(x.T @ torch.randn(rows, min(width + 16, rows, p), generator=generator)).Q
        for _ in range(2):
            basis = torch.linalg.qr(x.T @ (x @ basis)).Q
        axes = basis @ torch.linalg.svd(x @ basis, full_matrices=False).Vh[:width].T
    return axes / total.sqrt() / scale


def rank_table(sample: Tensor, size: int = 65) -> tuple[Tensor, Tensor]:
    """For every column knots, and the standardized normal scores of their ranks: (p, size) each. Ties share a rank."""
    rows = len(sample)
    ordered = sample.T.contiguous().sort(dim=1).values
    levels = torch.special.ndtr(torch.linspace(-3.2, 3.2, size))
    knots = ordered[:, (levels * rows).long().clamp_max(rows - 1)].contiguous()
    below, not_above = (torch.searchsorted(ordered, knots, right=right) for right in (False, True))
    ranks = ((below + not_above) / (2 * rows)).clamp(0.5 / rows, 1 - 0.5 / rows)
    values = torch.special.ndtri(ranks)
    deviation, mean = torch.std_mean(interpolate(sample, knots, values), dim=0, correction=0)
    constant = ordered[:, -1] - ordered[:, 0] <= 4e-7 * ordered[:, [0, -1]].abs().amax(1)  # rounding
    deviation[constant | (deviation == 0)] = torch.inf
    return knots, (values - mean[:, None]) / deviation[:, None]


def interpolate(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Column by column the value at x: linear between knots, constant beyond them."""
    out = torch.empty_like(x)
    for part in chunks(len(x), 8 * x.shape[1]):
        columns = x[part].T.contiguous()
        right = torch.searchsorted(knots, columns).clamp_(1, knots.shape[1] - 1)
        x0, x1 = knots.gather(1, right - 1), knots.gather(1, right)
        share = ((columns - x0) / (x1 - x0).clamp_min(1e-38)).clamp_(0, 1)
        out[part] = torch.lerp(values.gather(1, right - 1), values.gather(1, right), share).T
    return out


def chunks(rows: int, width: int) -> Iterator[NDArray[np.int64]]:
    """Consecutive row numbers in chunks of about ``CHUNK_NUMBERS`` numbers."""
    step = max(256, CHUNK_NUMBERS // max(width, 1))
    for start in range(0, rows, step):
        yield np.arange(start, min(start + step, rows))


def row_codes(x: NDArray[np.generic]) -> NDArray[np.int64]:
    """One code per row, equal for equal rows."""
    factors = np.random.default_rng(0).integers(1, 2**63, size=x.shape[1], dtype=np.uint64) | np.uint64(1)
    codes = np.empty(len(x), dtype=np.uint64)
    for part in chunks(len(x), 2 * x.shape[1]):
        bits = (np.asarray(x[part]).astype(np.float32) + np.float32(0)).view(np.uint32)
        codes[part] = (bits * factors).sum(1)
    return codes.view(np.int64)
