import numpy as np
import pytest

pytest.importorskip("av")

from rince.data.synthetic.generated_video import GeneratedVideo
from rince.data.synthetic.moving_shapes import CLASSES


def make(root, **options):
    return GeneratedVideo(str(root), **{"train": 16, "test": 8, "batch_size": 8, "workers": 0, **options})


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("videos")


def test_it_trains_on_pairs_and_tests_on_several_clips_of_every_video(root):
    data = make(root, test_clips=3)
    assert data.classes == 8 and data.class_names == tuple(sorted(CLASSES))
    batches = list(data.train_dataloader())
    assert len(batches) == 2
    assert batches[0].a.shape == (8, 8, 32, 32, 3) and batches[0].b.shape == (8, 24000) and batches[0].cropped
    assert batches[0].b.abs().max() > 0.05
    tested = list(make(root, test_clips=3, sound=False).test_dataloader())
    ids = np.concatenate([batch.ids for batch in tested])
    assert sorted(ids.tolist()) == sorted(list(range(8)) * 3)
    assert {batch.clips.shape[1:] for batch in tested} == {(8, 32, 32, 3)}


def test_labels_are_those_of_the_answers(root):
    data = make(root, sound=False)
    videos = data.videos("train")
    for path, label in zip(videos.paths, videos.labels, strict=True):
        assert data.class_names[label] in path
    batch = next(iter(data.train_dataloader()))
    assert batch.labels.tolist() == videos.labels[batch.ids].tolist()


def test_few_videos_of_each_class_are_drawn_by_the_seed(root):
    def chosen(seed):
        data = make(root, per_class=1, batch_size=8)
        data.seed = seed
        videos = data.videos("train")
        assert sorted(videos.labels.tolist()) == list(range(8)) and len(data.videos("test").paths) == 8
        return videos.paths

    assert chosen(0) == chosen(0) and len({tuple(chosen(seed)) for seed in range(4)}) > 1


def test_other_numbers_of_frames(root):
    assert next(iter(make(root, num_frames=32, sound=False).train_dataloader())).clips.shape == (8, 32, 32, 32, 3)


def test_bad_settings_are_refused(root):
    with pytest.raises(ValueError, match="per_class must lie between 1 and the 2 videos of a class, got 3"):
        make(root, per_class=3)
    with pytest.raises(ValueError, match="train must be a multiple of the 8 classes, got 20"):
        make(root, train=20).prepare_data()
