import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.audit.fit.features import Features, Labels, Ranks


def values(x):
    return Features(x.astype(np.float32), "a")[np.arange(len(x))]


@pytest.mark.parametrize("change", [np.exp, lambda x: x**3, lambda x: 1e6 * x, lambda x: np.sinh(3 * x)])
def test_features_are_compared_with_themselves_by_rank_only(change):
    x = np.random.default_rng(0).normal(size=(600, 4))
    plain, changed = values(x), values(np.column_stack([change(x[:, :2]), x[:, 2:]]))
    assert torch.equal(plain[:, 2:], changed[:, 2:])
    assert np.corrcoef(plain[:, 0], changed[:, 0])[0, 1] > 0.99


def test_features_are_standardized_in_memory_and_in_batches(monkeypatch):
    a = np.random.default_rng(0).normal(size=(300, 20)) * 100
    a[:, 4] = 7.0
    whole = Features(a, "a")
    rows = np.array([5, 1, 200])
    monkeypatch.setattr("rince.audit.fit.features.IN_MEMORY", 0)
    streamed = Features(a, "a")
    everything = whole[np.arange(300)]
    assert torch.allclose(everything[:, :4].mean(0), torch.zeros(4), atol=1e-5)
    assert torch.allclose(everything[:, :4].std(0), torch.ones(4), atol=0.01)
    assert not everything[:, 4].any()
    assert torch.equal(whole[rows], streamed[rows])


def test_a_column_of_unix_times_leaves_the_others_as_they_are():
    x = np.random.default_rng(0).normal(size=(400, 3))
    times = 1.7e9 + 1e7 * np.random.default_rng(1).random(400)
    assert torch.equal(values(x), values(np.column_stack([x, times]))[:, :3])
    assert values(np.column_stack([x, times]))[:, 3].std() == pytest.approx(1, abs=0.01)


def test_what_is_constant_up_to_rounding_is_nothing():
    x = np.random.default_rng(0).normal(size=(300, 3))
    x[:, 1] = 1e6 + 0.05 * np.sign(x[:, 1])
    x[:, 2] = 0
    found = values(x)
    assert not found[:, 1:].any() and found[:, 0].std() > 0.9


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0, 100.0]), min_size=20, max_size=80).filter(lambda x: len(set(x)) > 1)
)
def test_equal_values_stay_equal_and_order_is_kept(column):
    x = np.array(column)[:, None]
    found = values(np.column_stack([x, np.arange(len(x))]))[:, 0].numpy()  # alone it would be a label
    assert np.isfinite(found).all()
    for one, other in zip(x[:-1, 0], x[1:, 0], strict=True):
        assert (one < other) <= (found[x[:, 0] == one][0] < found[x[:, 0] == other][0])
    assert all(np.ptp(found[x[:, 0] == value]) == 0 for value in set(column))


def test_ranks_of_a_sample_serve_all_rows(monkeypatch):
    x = np.random.default_rng(0).normal(size=(30_000, 2))
    whole = values(x)
    monkeypatch.setattr("rince.audit.fit.features.SAMPLE_ROWS", 3000)
    assert (values(x) - whole).abs().mean() < 0.05


def test_a_single_feature_with_few_values_becomes_indicators():
    """The order of labels means nothing: nine is not nearer to eight than to one."""
    random = np.random.default_rng(0)
    label = random.choice([1.0, 8.0, 9.0], p=[0.2, 0.3, 0.5], size=600)
    column = Features(label[:, None].astype(np.float32), "b")
    rows = column[np.arange(600)]
    assert rows.shape == (600, 3) == (600, column.width)
    assert torch.allclose(rows.mean(0), torch.zeros(3), atol=1e-5)
    assert torch.allclose(rows.std(0, correction=0), torch.ones(3), atol=1e-4)
    assert torch.equal(rows.argmax(1), torch.from_numpy(np.searchsorted([1, 8, 9], label)))
    new = column.scale.of(torch.tensor([[4.0]]))
    assert (new < 0).all(), "a label that nobody has seen is none of the others"


def test_numeric_features_are_not_read_as_labels():
    few = (np.arange(600) % 3).astype(np.float32)
    assert isinstance(Features(np.arange(600, dtype=np.float32)[:, None], "a").scale, Ranks)
    assert isinstance(Features(np.stack([few, few + np.arange(600) % 2], 1), "a").scale, Ranks)
    assert Labels.of_column(np.zeros((600, 1), dtype=np.float32)) is None
    assert Labels.of_column(few[:25, None]) is None, "eight of a class are too few"
