import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from rince.evaluate.probes import fit_adam, fit_linear, logistic_regression


def steepness(weight, x, y, decay):
    """The gradient of mean cross-entropy + decay / 2 |W|^2 at a weight whose last column is the bias."""
    weight = weight.clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(x @ weight[:, :-1].T + weight[:, -1], y)
    (gradient,) = torch.autograd.grad(loss + decay / 2 * weight[:, :-1].square().sum(), weight)
    return float(gradient.abs().max())


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("decay", [1e-1, 1e-3])
def test_the_exact_probe_is_a_minimum(decay, classes):
    x, y = load_digits(return_X_y=True)
    few = y < classes
    x, y = torch.from_numpy(StandardScaler().fit_transform(x[few][:600])), torch.from_numpy(y[few][:600])
    weight = logistic_regression(x, y, classes, decay, tolerance=1e-8)
    assert steepness(weight, x, y, decay) < 1e-6
    again = logistic_regression(x, y, classes, decay, start=weight, tolerance=1e-8)
    torch.testing.assert_close(again, weight, atol=1e-4, rtol=0)


@pytest.mark.parametrize("small, threads", [(10**7, 1), (1, 2)])
def test_small_probe_uses_one_thread_and_a_large_one_all(monkeypatch, small, threads):
    from threadpoolctl import threadpool_info, threadpool_limits

    seen, real = [], LogisticRegression.fit

    def fit(self, x, y):
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return real(self, x, y)

    monkeypatch.setattr(LogisticRegression, "fit", fit)
    monkeypatch.setattr("rince.evaluate.probes.SMALL", small)
    x, y = torch.randn(60, 4, dtype=torch.float64), torch.arange(60) % 3
    with threadpool_limits(2, user_api="blas"):
        logistic_regression(x, y, 3, 0.1)
    assert seen and set(seen) == {threads}


def test_a_class_that_does_not_occur_is_never_chosen():
    x = torch.randn(60, 4, dtype=torch.float64)
    y = torch.arange(60) % 2 * 2  # classes 0 and 2
    weight = logistic_regression(x, y, 4, 0.1)
    chosen = (x @ weight[:, :-1].T + weight[:, -1]).argmax(1)
    assert set(chosen.tolist()) <= {0, 2}


def test_the_probe_with_a_chosen_decay_predicts_like_scikit_learns():
    x, y = load_digits(return_X_y=True)
    train, test = slice(0, 1000), slice(1000, None)
    probe = fit_linear(torch.from_numpy(x[train]), torch.from_numpy(y[train]), decay=0.01)
    scaler = StandardScaler().fit(x[train])
    theirs = LogisticRegression(C=1 / (1000 * 0.01), max_iter=5000).fit(scaler.transform(x[train]), y[train])
    mine = probe.predict(torch.from_numpy(x[test])).numpy()
    assert (mine == theirs.predict(scaler.transform(x[test]))).mean() > 0.99


def test_decay_is_tuned_for_few_items_with_many_noise_features():
    x, y = make_classification(400, 300, n_informative=5, n_redundant=0, random_state=0)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    chosen, weakest = fit_linear(x[:200], y[:200]), fit_linear(x[:200], y[:200], decay=1e-6)
    assert chosen.decay > 1e-3
    assert chosen.accuracy(x[200:], y[200:]) > weakest.accuracy(x[200:], y[200:])


def test_the_papers_probe_learns_and_is_reproducible():
    x, y = load_digits(return_X_y=True)
    x, y = torch.from_numpy(x).float() / 16, torch.from_numpy(y)
    first, second = (fit_adam(x[:1000], y[:1000], epochs=15, batch_size=16) for _ in range(2))
    assert torch.equal(first.weight, second.weight)
    assert first.accuracy(x[1000:], y[1000:]) > 0.8


def test_bad_features_are_refused():
    y = torch.tensor([0, 1])
    for x, message in ((torch.zeros(3, 2), r"labels \(n,\)"), (torch.full((2, 2), torch.nan), "non-finite")):
        with pytest.raises(ValueError, match=message):
            fit_linear(x, y)
    with pytest.raises(ValueError, match="two classes"):
        fit_linear(torch.zeros(2, 2), torch.tensor([0, 0]))


@pytest.mark.parametrize("decay", [0, 1, np.float32(0.1)])
def test_decay_may_be_any_real_number(decay):
    x, y = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
    probe, same = fit_linear(x, y, decay=decay), fit_linear(x, y, decay=[float(decay)])
    assert type(probe.decay) is float and probe.decay == decay and torch.equal(probe.weight, same.weight)


@pytest.mark.parametrize("decay", [-1, [0.1, -0.1], []])
def test_a_negative_decay_or_none_is_refused(decay):
    with pytest.raises(ValueError, match="decay must be at least 0"):
        fit_linear(torch.zeros(2, 2), torch.tensor([0, 1]), decay=decay)


@pytest.mark.parametrize("label", [0, 1, 5])
def test_a_single_class_is_refused_whatever_its_number(label):
    for fit in (fit_linear, fit_adam):
        with pytest.raises(ValueError, match="two classes"):
            fit(torch.zeros(4, 2), torch.full((4,), label))
