import pytest
import torch

import rince
from rince.losses import ExtraReduction, logsumexp
from rince.losses.blocks import DENSE, SAFE
from support.losses import reference
from support.losses.loss_cases import batch, same


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


# 0.02 has scores too far apart for one shift; 600 and 700 leave ragged last blocks.
@pytest.mark.parametrize("temperature, bound", [(1, 2e-6), (0.1, 5e-6), (0.02, 5e-5)])
@pytest.mark.parametrize("keys", ["own", "shared", "scattered"])
def test_blocks_equal_the_dense_matrix(temperature, bound, keys):
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
    agree([logsumexp.negative_scores(a, b, row_keys, everyone).lse], [scores.logsumexp(1)], [a, b], bound)
    both = [side.lse for side in logsumexp.negative_scores_both(a, b, row_keys, everyone)]
    agree(both, [scores.logsumexp(1), scores.logsumexp(0)], [a, b], bound)
    itself = [dense(a, a, row_keys, row_keys).logsumexp(1)]
    agree([logsumexp.negative_scores_self(a, row_keys).lse], itself, [a], bound)


@pytest.mark.parametrize("temperature", (0.5, 0.01))
@pytest.mark.parametrize("n", (4, 600))
def test_rows_without_negatives_are_minus_infinity_with_no_gradient(n, temperature):
    a = embeddings(n, temperature)
    keys = torch.zeros(n, dtype=torch.int64)
    lse = logsumexp.negative_scores_self(a, keys).lse
    assert torch.isneginf(lse).all()
    lse.masked_fill(torch.isneginf(lse), 0).sum().backward()
    assert (a.grad == 0).all()


def test_columns_without_gradient_cost_none(monkeypatch):
    asked = []
    backward = logsumexp.reductions_backward
    monkeypatch.setattr(logsumexp, "reductions_backward", lambda *given: asked.append(given[-2:]) or backward(*given))
    a, b = embeddings(600, 0.5), embeddings(700, 0.5, seed=1)
    for rows, columns in ((a, b.detach()), (a.detach(), b), (a, b)):
        logsumexp.negative_scores(rows, columns, None, None).lse.sum().backward()
    assert asked == [(True, False), (False, True), (True, True)]


def test_the_backward_pass_keeps_no_matrix_of_scores():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        logsumexp.negative_scores_self(embeddings(2048, 0.5), torch.arange(2048))
    assert kept and max(kept) <= 2048 * 24


EXTRA = {
    "hard_negatives": (
        ExtraReduction("hard_negatives", beta=0.5),
        lambda s, _: (1.5 * s).logsumexp(1) - (0.5 * s).logsumexp(1),
    ),
    "hard_negatives by 1": (
        ExtraReduction("hard_negatives", beta=1.0),
        lambda s, _: (2 * s).logsumexp(1) - s.logsumexp(1),
    ),
    "softplus": (
        ExtraReduction("softplus", shift=torch.tensor(-2.0)),
        lambda s, _: torch.nn.functional.softplus(s - 2).sum(1),
    ),
    "bag": (ExtraReduction("bag"), lambda _, bag: bag.logsumexp(1)),
}


# 0.06 is too low for one shift of weighted scores, though not of plain ones.
@pytest.mark.parametrize("temperature, bound", [(1, 5e-6), (0.1, 1e-5), (0.06, 2e-5), (0.02, 1e-4)])
@pytest.mark.parametrize("name", EXTRA)
@pytest.mark.parametrize("n", (6, 600))  # one block that is kept, and several
def test_second_reductions_equal_the_dense_matrix(name, temperature, bound, n):
    a, b = embeddings(n, temperature), embeddings(n, temperature, seed=1)
    keys = torch.arange(n) // 2
    scattered = keys[torch.randperm(n, generator=torch.Generator().manual_seed(2))]
    second, reduce = EXTRA[name]

    def expected(rows, columns, row_keys, column_keys, itself=False):
        scores, same = rows.double() @ columns.double().T, row_keys[:, None] == column_keys
        bag = same & ~torch.eye(n, dtype=torch.bool) if itself else same
        negatives = scores.masked_fill(same, -torch.inf)
        return [negatives.logsumexp(1), reduce(negatives, scores.masked_fill(~bag, -torch.inf))]

    agree(logsumexp.negative_scores(a, b, keys, scattered, second), expected(a, b, keys, scattered), [a, b], bound)
    first, other = logsumexp.negative_scores_both(a, b, keys, scattered, second)
    both = [*expected(a, b, keys, scattered), *expected(b, a, scattered, keys)]
    agree([*first, *other], both, [a, b], bound)
    for row_keys in (keys, scattered):
        itself = expected(a, a, row_keys, row_keys, itself=True)
        agree(logsumexp.negative_scores_self(a, row_keys, second), itself, [a], bound)
        named = logsumexp.negative_scores(a, a, row_keys, row_keys, second, diagonal=True)
        agree(named, itself, [a], bound)


@pytest.mark.parametrize("name", EXTRA)
def test_no_second_reduction_keeps_a_matrix_of_scores(name):
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        logsumexp.negative_scores_self(embeddings(2048, 0.5), torch.arange(2048) // 2, EXTRA[name][0])
    assert kept and max(kept) <= 2048 * 24


def test_the_operators_are_registered_as_torch_wants_them():
    a, b = embeddings(6, 0.5), embeddings(5, 0.5, seed=1)
    keys = torch.arange(6)
    shift = torch.tensor(-1.0, requires_grad=True)
    for arguments in (
        (a, b, keys, keys[:5], None, "", 0.0, False, True, None, "highest"),
        (a, b, None, None, None, "hard_negatives", 0.5, False, False, 2.0, "tf32"),
        (a, None, keys, None, shift, "softplus", 0.0, False, True, None, "bfloat16"),
        (a, b, keys // 2, keys[:5], None, "bag", 0.0, True, False, None, "highest"),
    ):
        utils = "ALL" if arguments[5] in ("", "softplus") else ("test_schema", "test_faketensor")
        torch.library.opcheck(logsumexp.reductions, arguments, test_utils=utils)


def test_create_graph_is_right_where_the_columns_are_made_of_the_rows():
    """A contrast may compare its anchors with one another and with others: the gradient must not count twice."""
    rows, others = torch.randn(6, 4, dtype=torch.float64, requires_grad=True), torch.randn(3, 4, dtype=torch.float64)

    def total(z):
        keys = torch.arange(6)
        return logsumexp.negative_scores(z, torch.cat([z, others]), keys, torch.arange(9)).lse.sum()

    (expected,) = torch.autograd.grad(total(rows), rows)
    (twice,) = torch.autograd.grad(total(rows), rows, create_graph=True)
    torch.testing.assert_close(twice, expected, rtol=1e-9, atol=1e-12)
    assert torch.autograd.gradgradcheck(total, rows)


# Both sides of every switch: one shift for all scores up to a spread of SAFE, one block up to DENSE scores, blocks of
# 256 or 512 rows, keys or none, a bound that is given or computed.
SIDE = int(DENSE**0.5)


def dense_loss(kind, z1, z2, t, ids, weights):
    each = reference.losses(reference.info_nce, *reference.halves(kind, z1, z2, t, ids=ids))
    if weights is None:
        return each.mean()
    weights = weights.double().repeat(len(each) // len(weights))
    return (each * weights).sum() / weights.sum()


# The spread of scores is 2 / t: the switch lies at t = 2 / SAFE = 0.0333.
@pytest.mark.parametrize("learned", (False, True))  # the bound is looked for, or known
@pytest.mark.parametrize("t", [2 / SAFE * factor for factor in (0.97, 0.9999, 1.0001, 1.03)])
@pytest.mark.parametrize("kind", ("TwoView", "CrossView", "CrossView one way"))
def test_temperatures_on_both_sides_of_one_shift_for_all_scores(kind, t, learned):
    g = torch.Generator().manual_seed(3)
    contrast = rince.TwoView() if kind == "TwoView" else rince.CrossView(symmetric=kind == "CrossView")
    loss = rince.InfoNCE(
        temperature=torch.nn.Parameter(torch.tensor(t, dtype=torch.float64)) if learned else t, contrast=contrast
    )
    for n, width in ((9, 2), (9, 16), (40, 3)):
        z1, z2, *_ = batch(n, 1, width)
        for ids in (None, torch.arange(n) // 2):
            for weights in (None, torch.rand(n, generator=g)):
                expected = dense_loss(kind, z1, z2, t, ids, weights)
                same(loss(z1, z2, ids=ids, weights=weights), expected, (z1, z2), 1e-4)


def test_opposite_embeddings_at_the_switch_keep_full_precision():
    """The worst case for one shift: every score lies as far below the bound as can be."""
    z1 = torch.randn(1, 8).repeat(6, 1)
    for t in (2 / SAFE * 0.999, 2 / SAFE * 1.001):
        a, b = z1.clone().requires_grad_(), (-z1 + 1e-3 * torch.randn(6, 8)).requires_grad_()
        same(
            rince.InfoNCE(temperature=t, contrast=rince.CrossView())(a, b),
            dense_loss("CrossView", a, b, t, None, None),
            (a, b),
            2e-4,
        )


@pytest.mark.parametrize("t, limit", [(0.02, 5e-5), (0.1, 1e-5)])
@pytest.mark.parametrize("n, m", [(SIDE, SIDE - 1), (SIDE, SIDE), (SIDE, SIDE + 1), (1, DENSE + 1), (1025, 300)])
def test_matrices_on_both_sides_of_one_block(n, m, t, limit):
    g = torch.Generator().manual_seed(0)
    unit = [torch.nn.functional.normalize(torch.randn(k, 4, generator=g), dim=1) for k in (n, m)]
    rows, columns = ((z * t**-0.5).requires_grad_() for z in unit)
    weights = torch.rand(n, generator=g)
    for keys in (None, torch.arange(max(n, m)) // 3):
        row_keys, column_keys = (None, None) if keys is None else (keys[:n], keys[:m])
        scores = rows.double() @ columns.double().T
        if keys is not None:
            scores = scores.masked_fill(row_keys[:, None] == column_keys, -torch.inf)
        expected = (scores.logsumexp(1) * weights.double()).sum()
        for bound in (None, 1 / t):
            lse = logsumexp.negative_scores(rows, columns, row_keys, column_keys, bound=bound).lse
            value = (lse * weights).sum()
            assert value.item() == pytest.approx(expected.item(), rel=1e-6)
            got = torch.autograd.grad(value, (rows, columns), retain_graph=True)
            true = torch.autograd.grad(expected, (rows, columns), retain_graph=True)
            for a, b in zip(got, true, strict=True):
                assert (a - b).norm() <= limit * b.norm()


# Hard negatives whose scores spread too far for one exponential.
def pair(n, dtype=torch.float32):
    g = torch.Generator().manual_seed(n)
    return [torch.randn(n, 16, generator=g, dtype=torch.float64).to(dtype).requires_grad_() for _ in range(2)]


@pytest.mark.parametrize("contrast", ["TwoView", "CrossView"])
@pytest.mark.parametrize("n", (3, 600))  # one block, and several
@pytest.mark.parametrize("t", (0.01, 0.03, 0.06))
@pytest.mark.parametrize("beta", (0.3, 1.0, 2.0, 5.0))
def test_hard_negatives_equal_the_dense_float64_reference(beta, t, n, contrast):
    z = pair(n)
    exact = [x.detach().double().requires_grad_() for x in z]
    value = rince.HardNegatives(beta=beta, tau_plus=0.0, temperature=t, contrast=getattr(rince, contrast)())(*z)
    expected = reference.hard_negatives(reference.rows(contrast, *exact, t), beta, 0.0).mean()
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    for ours, theirs in zip(torch.autograd.grad(value, z), torch.autograd.grad(expected, exact), strict=True):
        assert (ours - theirs).norm() <= 2e-4 * theirs.norm()


@pytest.mark.parametrize("beta", (0.5, 1.0, 2.0))
@pytest.mark.parametrize("n", (4, 600))
def test_hard_negatives_of_anchors_without_negatives_have_no_gradient(n, beta):
    z = pair(n)
    ids = torch.zeros(n, dtype=torch.long)
    alone = rince.HardNegatives(beta=beta, tau_plus=0.0, temperature=0.02)(*z, ids=ids)
    assert alone.item() == 0 and not any(g.any() for g in torch.autograd.grad(alone, z))
    ids[: n // 2] = torch.arange(1, n // 2 + 1)  # the others have these as negatives only
    value = rince.HardNegatives(beta=beta, tau_plus=0.0, temperature=0.02)(*z, ids=ids)
    gradients = torch.autograd.grad(value, z)
    assert value.isfinite() and all(g.isfinite().all() and g.any() for g in gradients)


def test_hard_negatives_propagate_nan():
    z1, z2 = pair(600)
    with torch.no_grad():
        z2[599, 3] = torch.nan
    assert rince.HardNegatives(beta=1.0, tau_plus=0.0, temperature=0.02)(z1, z2).isnan()
