"""Views of graphs have the distribution that a plain loop over nodes and edges gives."""

import random

import pytest
import torch

from rince.data.graphs import Graphs
from rince.views.graph import (
    Choice,
    DropNodes,
    MaskAttributes,
    PerturbEdges,
    Subgraph,
)
from support.small_graphs import graph, seeded

SHAPES = {
    "lollipop": (9, {(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8)}),
    "star": (8, {(0, i) for i in range(1, 8)}),
    "two parts and a lone node": (9, {(0, 1), (1, 2), (2, 3), (0, 3), (4, 5), (5, 6), (6, 7)}),
    "nearly complete": (5, {(u, v) for u in range(5) for v in range(u + 1, 5)} - {(0, 1)}),
}
DRAWS = 3000


def rounded(value: float, rng: random.Random) -> int:
    return int(value + rng.random())


def reference_drop(nodes: int, pairs: set, rate: float, rng: random.Random) -> tuple[set, set]:
    number = min(rounded(rate * nodes, rng), nodes - 1)
    kept = set(range(nodes)) - set(rng.sample(range(nodes), number))
    return kept, {(u, v) for u, v in pairs if u in kept and v in kept}


def reference_perturb(nodes: int, pairs: set, rate: float, rng: random.Random) -> tuple[set, set]:
    number = rounded(rate * len(pairs), rng)
    absent = [(u, v) for u in range(nodes) for v in range(u + 1, nodes) if (u, v) not in pairs]
    dropped = set(rng.sample(sorted(pairs), number))
    return set(range(nodes)), (pairs - dropped) | set(rng.sample(absent, min(number, len(absent))))


def reference_walk(nodes: int, pairs: set, rate: float, rng: random.Random) -> tuple[set, set]:
    neighbors = {n: [v for u, v in pairs if u == n] + [u for u, v in pairs if v == n] for n in range(nodes)}
    target = max(1, nodes - rounded(rate * nodes, rng))
    here = rng.randrange(nodes)
    visited, fruitless = {here: None}, 0  # a dictionary keeps the order of the visits
    steps = 0
    while len(visited) < target:
        here = rng.choice(neighbors[here]) if neighbors[here] else here
        fruitless = 0 if here not in visited else fruitless + 1
        visited[here] = None
        steps += 1
        if steps % 32 == 0:
            if fruitless >= 32:
                beside = sorted({n for v in visited for n in neighbors[v]} - set(visited))
                here = rng.choice(beside or [n for n in range(nodes) if n not in visited])
                visited[here] = None
            fruitless = 0
    kept = set(list(visited)[:target])
    return kept, {(u, v) for u, v in pairs if u in kept and v in kept}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("view", "reference"),
    [(DropNodes(0.35), reference_drop), (PerturbEdges(0.35), reference_perturb), (Subgraph(0.35), reference_walk)],
    ids=["drop", "perturb", "walk"],
)
def test_views_have_the_distribution_of_a_plain_loop_over_graphs(shape, view, reference):
    """How often each node and each edge is there, over many draws: within 4.5 standard errors of the reference."""
    nodes, pairs = SHAPES[shape]
    after = view(Graphs.from_list([graph(nodes, pairs)] * DRAWS).batch(), seeded(7))
    ours_nodes = torch.bincount((after.x[:, 0] - 10).long(), minlength=nodes) / DRAWS
    name = (after.x[:, 0] - 10).long()
    ours_edges = (
        torch.bincount(name[after.edge_index[0]] * nodes + name[after.edge_index[1]], minlength=nodes**2) / DRAWS
    )
    rng = random.Random(7)
    plain_nodes, plain_edges = torch.zeros(nodes), torch.zeros(nodes**2)
    for _ in range(DRAWS):
        kept, left = reference(nodes, pairs, view.rate, rng)
        plain_nodes[list(kept)] += 1 / DRAWS
        plain_edges[[u * nodes + v for u, v in left] + [v * nodes + u for u, v in left]] += 1 / DRAWS
    for ours, plain in ((ours_nodes, plain_nodes), (ours_edges, plain_edges)):
        middle = (ours + plain) / 2
        error = (2 * middle * (1 - middle) / DRAWS).clamp(min=0).sqrt()
        assert ((ours - plain).abs() <= 4.5 * error + 1e-6).all()


def test_masking_noise_has_mean_and_deviation_one_half():
    batch = Graphs.from_list([graph(40, {(0, 1)})] * 300).batch()
    after = MaskAttributes(0.5)(batch, seeded(0))
    noise = after.x[(after.x != batch.x).any(1)]
    assert noise.mean() == pytest.approx(0.5, abs=0.02)
    assert noise.std() == pytest.approx(0.5, abs=0.02)


def test_a_choice_draws_its_views_equally_often():
    batch = Graphs.from_list([graph(20, {(i, i + 1) for i in range(19)})] * 2000).batch()
    after = Choice([DropNodes(0.5), MaskAttributes(0.5)])(batch, seeded(0))
    share = float((after.ptr.diff() < 20).float().mean())
    assert share == pytest.approx(0.5, abs=0.05)
