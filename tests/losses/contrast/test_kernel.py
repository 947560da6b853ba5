import pytest
import torch

from rince.losses.contrast import Second, kernel, tiled
from rince.losses.contrast.tiles import DENSE


def dense(rows, columns, row_keys, column_keys):
    scores = rows.double() @ columns.double().T
    return scores.masked_fill(row_keys[:, None] == column_keys, -torch.inf)


def embeddings(n, temperature, seed=0, width=24):
    g = torch.Generator().manual_seed(seed)
    z = torch.nn.functional.normalize(torch.randn(n, width, generator=g), dim=1)
    return (z * temperature**-0.5).requires_grad_()


def agree(got, expected, inputs, bound):
    """Values, and gradients of a weighted sum, so that every row has a weight of its own."""
    g = torch.Generator().manual_seed(1)
    weights = [torch.rand(x.shape, generator=g) for x in got]
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=bound, atol=bound)
    ours = torch.autograd.grad(sum((x * w).sum() for x, w in zip(got, weights, strict=True)), inputs)
    total = sum((x * w).sum() for x, w in zip(expected, weights, strict=True))
    theirs = torch.autograd.grad(total, inputs, retain_graph=True)
    for a, b in zip(ours, theirs, strict=True):
        assert (a.double() - b).norm() <= bound * b.norm()


# 0.02 has scores too far apart for one shift; 600 and 700 leave ragged last tiles.
@pytest.mark.parametrize("temperature, bound", [(1, 2e-6), (0.1, 5e-6), (0.02, 5e-5)])
@pytest.mark.parametrize("keys", ["own", "shared", "scattered"])
def test_tiles_equal_the_dense_matrix(temperature, bound, keys):
    n, m = 600, 700
    a, b = embeddings(n, temperature), embeddings(m, temperature, seed=1)
    everyone = {
        "own": torch.arange(m),
        "shared": torch.arange(m) // 3,
        "scattered": torch.randint(-(2**62), 2**62, (m // 7,)).repeat(7),
    }[keys]
    row_keys = everyone[50 : 50 + n]
    scores = dense(a, b, row_keys, everyone)
    assert n * m > DENSE
    agree([kernel.negative_scores(a, b, row_keys, everyone).lse], [scores.logsumexp(1)], [a, b], bound)
    both = [side.lse for side in kernel.negative_scores_both(a, b, row_keys, everyone)]
    agree(both, [scores.logsumexp(1), scores.logsumexp(0)], [a, b], bound)
    itself = [dense(a, a, row_keys, row_keys).logsumexp(1)]
    agree([kernel.negative_scores_self(a, row_keys).lse], itself, [a], bound)


@pytest.mark.parametrize("temperature", (0.5, 0.01))
@pytest.mark.parametrize("n", (4, 600))
def test_rows_without_negatives_are_minus_infinity_with_no_gradient(n, temperature):
    a = embeddings(n, temperature)
    keys = torch.zeros(n, dtype=torch.int64)
    lse = kernel.negative_scores_self(a, keys).lse
    assert torch.isneginf(lse).all()
    lse.masked_fill(torch.isneginf(lse), 0).sum().backward()
    assert (a.grad == 0).all()


def test_columns_without_gradient_cost_none(monkeypatch):
    asked = []
    backward = tiled.tiled_backward
    monkeypatch.setattr(tiled, "tiled_backward", lambda *given: asked.append(given[-2:]) or backward(*given))
    a, b = embeddings(600, 0.5), embeddings(700, 0.5, seed=1)
    for rows, columns in ((a, b.detach()), (a.detach(), b), (a, b)):
        kernel.negative_scores(rows, columns, None, None).lse.sum().backward()
    assert asked == [(True, False), (False, True), (True, True)]


def test_the_backward_pass_keeps_no_matrix_of_scores():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        kernel.negative_scores_self(embeddings(2048, 0.5), torch.arange(2048))
    assert kept and max(kept) <= 2048 * 24


SECONDS = {
    "tilted": (Second("tilted", beta=0.5), lambda s, _: (1.5 * s).logsumexp(1) - (0.5 * s).logsumexp(1)),
    "tilted by 1": (Second("tilted", beta=1.0), lambda s, _: (2 * s).logsumexp(1) - s.logsumexp(1)),
    "softplus": (
        Second("softplus", shift=torch.tensor(-2.0)),
        lambda s, _: torch.nn.functional.softplus(s - 2).sum(1),
    ),
    "bag": (Second("bag"), lambda _, bag: bag.logsumexp(1)),
}


# 0.06 is too low for one shift of tilted scores, though not of plain ones.
@pytest.mark.parametrize("temperature, bound", [(1, 5e-6), (0.1, 1e-5), (0.06, 2e-5), (0.02, 1e-4)])
@pytest.mark.parametrize("name", SECONDS)
@pytest.mark.parametrize("n", (6, 600))  # one tile that is kept, and several
def test_second_reductions_equal_the_dense_matrix(name, temperature, bound, n):
    a, b = embeddings(n, temperature), embeddings(n, temperature, seed=1)
    keys = torch.arange(n) // 2
    scattered = keys[torch.randperm(n, generator=torch.Generator().manual_seed(2))]
    second, reduce = SECONDS[name]

    def expected(rows, columns, row_keys, column_keys, itself=False):
        scores, same = rows.double() @ columns.double().T, row_keys[:, None] == column_keys
        bag = same & ~torch.eye(n, dtype=torch.bool) if itself else same
        negatives = scores.masked_fill(same, -torch.inf)
        return [negatives.logsumexp(1), reduce(negatives, scores.masked_fill(~bag, -torch.inf))]

    agree(kernel.negative_scores(a, b, keys, scattered, second), expected(a, b, keys, scattered), [a, b], bound)
    first, other = kernel.negative_scores_both(a, b, keys, scattered, second)
    both = [*expected(a, b, keys, scattered), *expected(b, a, scattered, keys)]
    agree([*first, *other], both, [a, b], bound)
    for row_keys in (keys, scattered):
        itself = expected(a, a, row_keys, row_keys, itself=True)
        agree(kernel.negative_scores_self(a, row_keys, second), itself, [a], bound)
        named = kernel.negative_scores(a, a, row_keys, row_keys, second, diagonal=True)
        agree(named, itself, [a], bound)


@pytest.mark.parametrize("name", SECONDS)
def test_no_second_reduction_keeps_a_matrix_of_scores(name):
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        kernel.negative_scores_self(embeddings(2048, 0.5), torch.arange(2048) // 2, SECONDS[name][0])
    assert kept and max(kept) <= 2048 * 24


def test_the_operators_are_registered_as_torch_wants_them():
    a, b = embeddings(6, 0.5), embeddings(5, 0.5, seed=1)
    keys = torch.arange(6)
    shift = torch.tensor(-1.0, requires_grad=True)
    for arguments in (
        (a, b, keys, keys[:5], None, "", 0.0, False, True, None),
        (a, b, None, None, None, "tilted", 0.5, False, False, 2.0),
        (a, None, keys, None, shift, "softplus", 0.0, False, True, None),
        (a, b, keys // 2, keys[:5], None, "bag", 0.0, True, False, None),
    ):
        utils = "ALL" if arguments[5] in ("", "softplus") else ("test_schema", "test_faketensor")
        torch.library.opcheck(tiled.tiled, arguments, test_utils=utils)


def test_create_graph_is_right_where_the_columns_are_made_of_the_rows():
    """A contrast may compare its anchors with one another and with others: the gradient must not count twice."""
    rows, others = torch.randn(6, 4, dtype=torch.float64, requires_grad=True), torch.randn(3, 4, dtype=torch.float64)

    def total(z):
        keys = torch.arange(6)
        return kernel.negative_scores(z, torch.cat([z, others]), keys, torch.arange(9)).lse.sum()

    (expected,) = torch.autograd.grad(total(rows), rows)
    (twice,) = torch.autograd.grad(total(rows), rows, create_graph=True)
    torch.testing.assert_close(twice, expected, rtol=1e-9, atol=1e-12)
    assert torch.autograd.gradgradcheck(total, rows)
