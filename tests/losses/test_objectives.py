"""The paper's statements about the objectives, and their behavior at the edges of float32."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rince.losses import objectives
from support.losses import reference

SCORES = st.floats(-10, 10)


def scores(*values):
    return [torch.tensor([v], dtype=torch.float64, requires_grad=True) for v in values]


def gradients(f, *inputs):
    return torch.stack(torch.autograd.grad(f(*inputs).sum(), inputs))


@given(SCORES, SCORES, st.floats(1e-3, 1))
def test_lemma_1_rince_goes_over_into_info_nce_plus_log_lam(s, n, lam):
    s, n = scores(s, n)
    limit = objectives.info_nce(s, n) + torch.log(torch.tensor(lam, dtype=torch.float64))
    assert objectives.rince(s, n, 1e-9, lam).item() == pytest.approx(limit.item(), abs=1e-6)
    assert objectives.rince(s, n, 0, lam).item() == pytest.approx(limit.item(), abs=1e-12)
    for q in (0, 1e-9):
        near, info = (
            gradients(lambda a, b, q=q: objectives.rince(a, b, q, lam), s, n),
            gradients(objectives.info_nce, s, n),
        )
        torch.testing.assert_close(near, info, atol=1e-6, rtol=0)


@given(SCORES, st.lists(SCORES, min_size=1, max_size=5), st.floats(1e-3, 1))
def test_at_q_1_the_loss_is_a_sum_of_symmetric_losses(s, negatives, lam):
    """-(1 - lam) e^s+ + lam sum e^s-, that is l(s, y) = -y e^s with l(s, 1) + l(s, -1) = 0."""
    s, *negatives = scores(s, *negatives)
    lse = torch.cat(negatives).logsumexp(0, keepdim=True)
    expected = -(1 - lam) * s.exp() + lam * torch.cat(negatives).exp().sum()
    assert objectives.rince(s, lse, 1, lam).item() == pytest.approx(expected.item(), rel=1e-9, abs=1e-9)


@given(SCORES, SCORES, st.floats(0.01, 1), st.floats(1e-3, 1))
def test_rince_is_the_papers_figure_2_on_exponentials(s, n, q, lam):
    s, n = scores(s, n)
    expected = reference.rince(s.exp(), n.exp(), q, lam)
    assert objectives.rince(s, n, q, lam).item() == pytest.approx(expected.item(), rel=1e-7, abs=1e-7)
    ours = gradients(lambda a, b: objectives.rince(a, b, q, lam), s, n)
    theirs = gradients(lambda a, b: reference.rince(a.exp(), b.exp(), q, lam), s, n)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@given(SCORES, SCORES)
def test_info_nce_and_dcl_match_their_formulas(s, n):
    s, n = scores(s, n)
    assert objectives.info_nce(s, n).item() == pytest.approx(reference.info_nce(s.exp(), n.exp()).item(), rel=1e-9)
    assert objectives.dcl(s, n).item() == pytest.approx((n - s).item(), abs=1e-12)
    assert objectives.dcl(s, n) <= objectives.info_nce(s, n)


@given(SCORES, SCORES, SCORES, st.floats(0.01, 1))
def test_a_shift_of_both_scores_is_a_factor(s, n, shift, q):
    s, n = scores(s, n)
    moved = objectives.rince(s + shift, n + shift, q, 0.1).item()
    assert moved == pytest.approx(
        objectives.rince(s, n, q, 0.1).item() * torch.tensor(q * shift).exp().item(), rel=1e-4
    )


@pytest.mark.parametrize("q, lam", [(1e-8, 0.01), (1e-3, 0.01), (0.5, 0.01), (1, 0.01), (1, 1)])
@pytest.mark.parametrize(
    "s, n", [(80.0, 60.0), (-80.0, 60.0), (-80.0, -70.0), (100.0, 40.0), (0.0, 0.0), (80.0, -80.0)]
)
def test_float32_is_finite_and_right_where_the_true_value_fits(s, n, q, lam):
    true = reference.rince(*(x.exp() for x in scores(s, n)), q, lam).item()
    if q == lam == 1:  # pos + neg - pos, where even float64 would lose neg
        true = math.exp(n)
    single = objectives.rince(torch.tensor(s), torch.tensor(n), q, lam).item()
    if abs(true) < 1e37:
        assert single == pytest.approx(true, rel=2e-5)


@pytest.mark.parametrize("objective", [objectives.info_nce, objectives.dcl, objectives.rince])
def test_an_anchor_without_negatives_has_a_finite_loss_and_gradient(objective):
    s, n = torch.tensor([0.5], requires_grad=True), torch.tensor([-torch.inf], requires_grad=True)
    value = objective(s, n)
    value.backward()
    assert value.isfinite() and s.grad.isfinite() and n.grad == 0


def test_the_gradients_of_scores_and_lam_are_right():
    s, n = (torch.randn(5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    lam = torch.rand(5, dtype=torch.float64).add(0.1).requires_grad_()
    for q in (0, 0.3, 1):
        assert torch.autograd.gradcheck(lambda s, n, lam, q=q: objectives.rince(s, n, q, lam), (s, n, lam))
        assert torch.autograd.gradgradcheck(lambda s, n, q=q: objectives.rince(s, n, q, 0.1), (s, n))


def test_a_single_score_keeps_its_type():
    assert objectives.rince(torch.tensor(1.0), torch.tensor(2.0)).dtype == torch.float32


def test_large_q_listens_to_easy_pairs_and_small_q_to_hard_ones():
    """The observation behind the loss: where the gradient of the positive score is largest."""
    s = torch.linspace(-1, 1, 21, dtype=torch.float64, requires_grad=True)
    n = torch.zeros(21, dtype=torch.float64)
    for q, hardest_first in ((0, True), (1, False)):
        (pull,) = torch.autograd.grad(objectives.rince(s, n, q, 0.5).sum(), s)
        steps = pull.abs().diff()
        assert (steps < 0).all() if hardest_first else (steps > 0).all()
