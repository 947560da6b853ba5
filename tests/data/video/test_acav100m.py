import pytest

from rince.data.video.videos import ACAV100M


def test_acav100m_draws_nested_subsets_by_seed(tmp_path):
    (tmp_path / "list.txt").write_text("".join(f"{i}.mp4\n" for i in range(1000)))

    def subset(size, seed=0):
        data = ACAV100M(str(tmp_path), str(tmp_path / "list.txt"), subset=size, subset_seed=seed)
        return data.videos("train").paths

    assert len(subset(None)) == 1000 and len(subset(100)) == 100 and subset(100) == subset(100)
    assert set(subset(100)) < set(subset(300)) and subset(100) != subset(100, seed=1)
    with pytest.raises(ValueError, match="at most the 1000 videos"):
        subset(1001)
    (tmp_path / "list.txt").write_text("path,start\na.mp4,3\n")
    assert ACAV100M(str(tmp_path), str(tmp_path / "list.txt")).videos("train").starts.tolist() == [3.0]
