"""Features of one side for closed-form scorers: scaling, PCA and random ReLU features, applied chunk by chunk.

Nothing here looks at the pairing, so features need no cross-fitting.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince.pairs.matrix import chunks

PCA_WIDTH, EXACT_ROWS = 256, 1000
RELU_AXES, RELU_FEATURES = 64, 512
MAX_RANK_WIDTH = 20_000  # wider sides are used on one common scale only
MAX_SAMPLE_NUMBERS = 50_000_000  # numbers of a side from which its PCA is taken
LEVELS = torch.special.ndtr(torch.linspace(-3.2, 3.2, 65, dtype=torch.float64))
NEIGHBORS, NEIGHBOR_AXES, NEIGHBOR_WIDTH, DIFFUSION_STEPS = 20, 40, 48, 4
MAX_NEIGHBOR_ROWS = 10_000  # rows up to which all distances are computed
ROUNDING = 4e-7  # a feature that varies by less of its own size is rounding in single precision, not information


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
    """Features of one side: scalings that apply to any rows, and the features of the rows they were fitted to.

    Attributes:
        scalings: By whether ranks are used.
        features: The features of the fitted rows under each scaling.
        relu: Weights and offsets of the random ReLU features.
    """

    scalings: dict[bool, Scaling]
    features: dict[bool, Tensor]
    relu: tuple[Tensor, Tensor]

    @classmethod
    def fit(cls, x: Tensor, seed: int, ranks: bool = True) -> "SideFeatures":
        """PCA of some of the rows under every scaling, and the features of all of them."""
        generator = torch.Generator().manual_seed(seed)
        max_rows = max(1000, MAX_SAMPLE_NUMBERS // x.shape[1])
        sample = x[:: -(-len(x) // max_rows)]
        mean = sample.mean(0)
        scalings = {False: Scaling(mean, principal_axes(sample - mean, generator))}
        if ranks and x.shape[1] <= MAX_RANK_WIDTH:
            knots, values = rank_tables(sample)
            axes = principal_axes(interpolate(sample, knots, values), generator)
            scalings[True] = Scaling(torch.zeros(()), axes, knots, values)
        features = {
            key: torch.cat([scaling.transform(x[part]) for part in chunks(*x.shape)])
            for key, scaling in scalings.items()
        }
        count = min(RELU_FEATURES, max(32, len(x) // 4))
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

    Exact from the smaller Gram matrix for up to 512 columns or 1,000 rows, else by randomized subspace iteration. Axes
    without variance are 0.
    """
    rows, p = x.shape
    scale = torch.ldexp(torch.ones(()), torch.frexp(x.abs().max()).exponent - 1)  # squares of huge outliers overflow
    x = x / scale
    total = (x.square().sum() / rows).clamp_min(1e-30)
    width = min(PCA_WIDTH, p, max(1, rows - 1))
    if p <= 512:
        axes = torch.linalg.eigh((x.T @ x).double()).eigenvectors.flip(1)[:, :width].float()
    elif rows <= min(p, EXACT_ROWS):
        gram = sum(x[:, part].double() @ x[:, part].double().T for part in chunks(p, rows))
        values, vectors = torch.linalg.eigh(gram)
        values, vectors = values.flip(0)[:width], vectors.flip(1)[:, :width]
        scales = torch.where(values > 1e-12 * values[0], values.clamp_min(1e-30).rsqrt(), 0)
        axes = x.T @ (vectors * scales).float()
    else:
        basis = torch.linalg.qr(x.T @ torch.randn(rows, min(width + 16, rows, p), generator=generator)).Q
        for _ in range(2):
            basis = torch.linalg.qr(x.T @ (x @ basis)).Q
        axes = basis @ torch.linalg.svd(x @ basis, full_matrices=False).Vh[:width].T
    return axes / total.sqrt() / scale


def rank_tables(sample: Tensor) -> tuple[Tensor, Tensor]:
    """For every column of (rows, p) knots, and the standardized normal scores of their ranks: (p, 65) each.

    Equal values share the middle of their ranks. Columns that are constant up to rounding become 0.
    """
    rows = len(sample)
    ordered = sample.T.contiguous().sort(dim=1).values
    knots = ordered[:, (LEVELS * rows).long().clamp_max(rows - 1)].contiguous()
    below, not_above = (torch.searchsorted(ordered, knots, right=right) for right in (False, True))
    ranks = ((below + not_above).double() / (2 * rows)).clamp(0.5 / rows, 1 - 0.5 / rows)
    values = torch.special.ndtri(ranks).float()
    deviation, mean = torch.std_mean(interpolate(sample, knots, values), dim=0, correction=0)
    constant = ordered[:, -1] - ordered[:, 0] <= ROUNDING * ordered[:, [0, -1]].abs().amax(1)
    deviation[constant | (deviation == 0)] = torch.inf
    return knots, (values - mean[:, None]) / deviation[:, None]


def interpolate(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Column by column the value at x: linear between knots, constant beyond them."""
    out = torch.empty_like(x)
    for part in chunks(len(x), 8 * x.shape[1]):
        columns = x[part].T.contiguous()
        right = torch.searchsorted(knots, columns).clamp_(1, knots.shape[1] - 1)
        x0, x1 = knots.gather(1, right - 1), knots.gather(1, right)
        share = ((columns - x0) / (x1 - x0).clamp_min(torch.finfo(x.dtype).tiny)).clamp_(0, 1)
        out[part] = torch.lerp(values.gather(1, right - 1), values.gather(1, right), share).T
    return out


def neighborhoods(x: Tensor, seed: int) -> Tensor:
    """(rows, 48) coordinates of (rows, p) features in the graph of their nearest neighbors (a diffusion map).

    Rows with the same neighbors come close to one another, so that clusters become directions. Equal rows get equal
    coordinates.
    """
    x, inverse = x.unique(dim=0, return_inverse=True)
    generator = torch.Generator().manual_seed(seed)
    centered = x - x.mean(0)
    x = centered @ principal_axes(centered, generator)[:, :NEIGHBOR_AXES]
    neighbors = [
        torch.cdist(x[part], x).topk(min(NEIGHBORS + 1, len(x)), largest=False) for part in chunks(len(x), len(x))
    ]
    distance, column = (torch.cat(values) for values in zip(*neighbors, strict=True))
    scale = distance[:, len(distance[0]) // 3].clamp_min(1e-12)
    similarity = (-distance.square() / (scale[:, None] * scale[column])).exp()
    row = torch.arange(len(x))[:, None].expand_as(column)
    edges = torch.stack([torch.cat([row, column]).flatten(), torch.cat([column, row]).flatten()])
    root = torch.zeros(len(x)).index_add(0, edges[0], similarity.repeat(2, 1).flatten()).rsqrt()
    weights = similarity.repeat(2, 1).flatten() * root[edges[0]] * root[edges[1]]
    graph = torch.sparse_coo_tensor(edges, weights, (len(x), len(x)), check_invariants=False).coalesce()
    basis = torch.randn(len(x), min(2 * NEIGHBOR_WIDTH, len(x)), generator=generator)
    for _ in range(20):
        basis = torch.linalg.qr(graph @ basis).Q
    values, vectors = torch.linalg.eigh(basis.T @ (graph @ basis))
    values, vectors = values.flip(0)[1 : NEIGHBOR_WIDTH + 1], vectors.flip(1)[:, 1 : NEIGHBOR_WIDTH + 1]
    # The first eigenvector is the root of the degrees; dividing by it gives coordinates that do not depend on density.
    return (basis @ vectors * root[:, None] * values.clamp_min(0) ** DIFFUSION_STEPS)[inverse]
