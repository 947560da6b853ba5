import pytest
import torch

from rince.noise.labels import CIFAR10_PAIRS, LabelFlips, PaperFlips, UniformFlips

LABELS = torch.arange(10).repeat(2000)


def test_label_flips_apply_to_paired_classes_at_the_rate():
    noisy = LabelFlips(0.4, seed=1)(LABELS)
    for old in range(10):
        mine = noisy.labels[old == LABELS]
        if old in CIFAR10_PAIRS:
            assert set(mine.tolist()) == {old, CIFAR10_PAIRS[old]}
            assert abs((mine != old).float().mean() - 0.4) < 0.05
        else:
            assert (mine == old).all()


def test_noise_record_lists_changed_items_and_hashes_differ():
    one, same, other = LabelFlips(0.4, 1)(LABELS), LabelFlips(0.4, 1)(LABELS), LabelFlips(0.4, 2)(LABELS)
    assert torch.equal(one.hit, one.labels != LABELS)
    assert one.digest() == same.digest() != other.digest()
    assert set(one.record()) == {"labels", "hit", "sha256"}


def test_a_higher_rate_hits_more_of_the_same():
    less, more = LabelFlips(0.2)(LABELS), LabelFlips(0.6)(LABELS)
    assert (more.hit | ~less.hit).all()


def test_pairs_of_ones_own_and_rates_at_the_ends():
    labels = torch.tensor([0, 1, 2])
    assert LabelFlips(1.0, pairs={0: 2})(labels).labels.tolist() == [2, 1, 2]
    assert not LabelFlips(0.0)(labels).hit.any()


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"\[0, 1\], got 1.2"):
        LabelFlips(1.2)
    with pytest.raises(ValueError, match="must be integers"):
        LabelFlips(0.5)(torch.rand(3))


@pytest.mark.parametrize("pairs", [None, {}, {0: 1, 2: 0}])
def test_items_without_a_label_keep_none_and_are_not_hit(pairs):
    for labels in (torch.tensor([-1, 9, -1, 0, -3]), torch.tensor([-1, -1]), torch.tensor([], dtype=torch.int64)):
        noisy = LabelFlips(1.0, pairs=pairs)(labels)
        assert torch.equal(noisy.labels[labels < 0], labels[labels < 0]) and not noisy.hit[labels < 0].any()
    assert LabelFlips(1.0)(torch.tensor([-1, 9])).hit.tolist() == [False, True]


def test_the_papers_eta_is_twice_the_flip_rate():
    paper, plain = PaperFlips(0.8, seed=3)(LABELS), LabelFlips(0.4, seed=3)(LABELS)
    assert torch.equal(paper.labels, plain.labels)
    cats = PaperFlips(1.0)(LABELS).labels[LABELS == 3]
    assert abs((cats == 5).double().mean() - 0.5) < 0.05  # all that eta can do is to make two classes the same
    with pytest.raises(ValueError, match=r"eta must be in \[0, 1\], got 1.2"):
        PaperFlips(1.2)


def test_uniform_flips_go_to_every_other_class_alike():
    noisy = UniformFlips(0.4, seed=1)(LABELS)
    assert torch.equal(noisy.hit, noisy.labels != LABELS) and abs(noisy.hit.float().mean() - 0.4) < 0.02
    moved = torch.bincount((noisy.labels - LABELS)[noisy.hit] % 10, minlength=10) / noisy.hit.sum()
    assert moved[0] == 0 and (moved[1:] - 1 / 9).abs().max() < 0.02
    assert torch.equal(noisy.labels, UniformFlips(0.4, seed=1)(LABELS).labels)
    assert (UniformFlips(0.6, seed=1)(LABELS).hit | ~noisy.hit).all()


def test_uniform_flips_of_one_class_none_and_unknown_ones():
    one = torch.tensor([0, 0, -1])
    assert not UniformFlips(1.0)(one).hit.any() and UniformFlips(1.0, classes=2)(one).labels.tolist() == [1, 1, -1]
    assert len(UniformFlips(1.0)(torch.tensor([], dtype=torch.int64)).labels) == 0
    with pytest.raises(ValueError, match=r"below 2.* got 4"):
        UniformFlips(1.0, classes=2)(torch.tensor([4]))
