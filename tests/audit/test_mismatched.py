import numpy as np
import pytest
import torch

from rince.audit.columns import row_codes
from rince.audit.mismatched import Scored, as_scored, mismatched_index
from support.audit_scores import cosine_scores


def test_mismatched_pairs_share_no_key_and_are_drawn_evenly():
    random = np.random.default_rng(0)
    own, group = np.arange(60), np.repeat(np.arange(20), 3)
    i, j = mismatched_index([own, group], [own, group], 3000, random)
    assert len(i) == 3000 and (group[i] != group[j]).all()
    assert np.abs(np.bincount(j, minlength=60) / 50 - 1).max() < 0.6


def test_few_mismatched_pairs_are_all_taken_once():
    own, group = np.arange(60), np.repeat(np.arange(20), 3)
    i, j = mismatched_index([own, group], [own, group], 100_000, np.random.default_rng(0))
    wanted = {(x, y) for x in range(60) for y in range(60) if x // 3 != y // 3}
    assert len(i) == len(wanted) and set(zip(i.tolist(), j.tolist(), strict=True)) == wanted
    assert len(set(i[:300].tolist())) > 50, "in random order: some may be content with the first of them"


def test_without_mismatched_pairs_there_is_an_error():
    with pytest.raises(ValueError, match="no mismatched pairs"):
        mismatched_index([np.zeros(5, int)], [np.zeros(5, int)], 10, np.random.default_rng(0))


def test_scores_are_cosines_and_the_null_is_the_cosines_of_all_other_pairs(monkeypatch):
    random = np.random.default_rng(0)
    a, b = random.normal(size=(80, 5)), random.normal(size=(80, 5))
    scored = cosine_scores(a, b, [], seed=0, mismatched=200_000)
    table = (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T
    assert np.allclose(scored.scores, np.diag(table), atol=1e-6)
    others = table[~np.eye(80, dtype=bool)]
    assert np.allclose(np.quantile(scored.null, [0.1, 0.5, 0.9]), np.quantile(others, [0.1, 0.5, 0.9]), atol=0.01)


def test_the_same_caption_twice_is_no_mismatched_pair():
    """b repeats every row, so its partner's twin would be a perfect match among the mismatched pairs."""
    random = np.random.default_rng(0)
    b = np.repeat(random.normal(size=(40, 6)), 3, axis=0).astype(np.float32)
    a = b + 0.01 * random.normal(size=b.shape).astype(np.float32)
    assert cosine_scores(a, b, [], mismatched=50_000).null.max() < 0.98
    assert cosine_scores(b, a, [], mismatched=50_000).null.max() < 0.98


def test_equal_pairs_and_pairs_of_a_key_are_one_thing():
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 50, 6)).astype(np.float32)
    often = random.permutation(np.repeat(np.arange(50), 3))
    assert cosine_scores(a, b, mismatched=100).things == 50
    assert cosine_scores(a[often], b[often], mismatched=100).things == 50
    assert cosine_scores(a[often], random.normal(size=(150, 6)), mismatched=100).things == 150, "one row only"
    assert cosine_scores(a[often], b[often], [often // 2], mismatched=100).things == 25


def test_near_duplicates_are_no_mismatched_pairs_if_they_share_an_id():
    random = np.random.default_rng(0)
    b = np.repeat(random.normal(size=(40, 6)), 3, axis=0) + 0.001 * random.normal(size=(120, 6))
    a = b + 0.01 * random.normal(size=b.shape)
    groups = np.repeat(np.arange(40), 3)
    assert cosine_scores(a, b, [], mismatched=50_000).null.max() > 0.99
    assert cosine_scores(a, b, [groups], mismatched=50_000).null.max() < 0.98


def test_chunks_and_a_small_pool_change_nothing_but_the_sample(monkeypatch, tmp_path):
    random = np.random.default_rng(0)
    a = random.normal(size=(3000, 8)).astype(np.float32)
    b = (a + random.normal(size=a.shape)).astype(np.float32)
    whole = cosine_scores(a, b, [])
    np.save(tmp_path / "a.npy", a)
    monkeypatch.setattr("rince.audit.columns.CHUNK_NUMBERS", 4096)
    parts = cosine_scores(np.load(tmp_path / "a.npy", mmap_mode="r"), b, pool=1000)
    assert (whole.scores == parts.scores).all()
    quantiles = np.linspace(0.05, 0.95, 10)
    assert np.allclose(np.quantile(whole.null, quantiles), np.quantile(parts.null, quantiles), atol=0.05)


def test_row_codes_are_equal_for_equal_rows_only():
    x = torch.randn(5000, 3).round(decimals=1)
    x[0], x[1] = 0.0, -0.0
    codes = row_codes(x)
    assert codes[0] == codes[1]
    assert len(np.unique(codes)) == len(torch.unique(x, dim=0))
    assert len(np.unique(row_codes(torch.eye(64)))) == 64


def scores_and_null(n=300):
    random = np.random.default_rng(0)
    return random.normal(size=n), random.normal(size=1000)


@pytest.mark.parametrize("form", [list, np.asarray, torch.from_numpy, lambda x: torch.from_numpy(x).bfloat16()])
def test_scores_from_anywhere_are_the_same_as_arrays(form):
    scores, null = scores_and_null()
    for found in (as_scored(form(scores), form(null)), as_scored(Scored(form(scores), form(null)))):
        for mine, given in zip(found[:2], (scores, null), strict=True):
            assert mine.dtype == np.float32 and np.allclose(mine, given, rtol=0.01)


@pytest.mark.parametrize(
    "change, error, message",
    [
        (
            lambda s, z: (np.where(np.arange(300) == 7, np.nan, s), z),
            ValueError,
            "scores must be finite, got nan in row 7",
        ),
        (lambda s, z: (s, np.append(z, [np.inf, -np.inf])), ValueError, r"null must be finite, got inf in 2 rows"),
        (lambda s, z: (s * 1e300, z), ValueError, "scores must be finite"),
        (lambda s, z: (s[:3], z), ValueError, "at least 50 pairs to say anything, got 3"),
        (lambda s, z: (s, z[:0]), ValueError, "null must hold the scores of mismatched pairs, got none"),
        (lambda s, z: (s, []), ValueError, "null must hold the scores of mismatched pairs, got none"),
        (lambda s, z: (s[:, None], z), ValueError, r"scores must .* one dimension, got the shape \(300, 1\)"),
        (lambda s, z: (s.astype(str), z), TypeError, "scores must hold real numbers"),
        (lambda s, z: (s,), TypeError, "the scores of mismatched pairs are missing"),
        (lambda s, z: (Scored(s, z), 3), TypeError, "not both"),
    ],
)
def test_scores_that_cannot_be_judged_are_one_clear_error(change, error, message):
    with pytest.raises(error, match=message):
        as_scored(*change(*scores_and_null()))
