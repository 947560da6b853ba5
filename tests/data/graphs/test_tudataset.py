"""TUDataset: folders, zip files, downloads, and files that are missing or damaged."""

import zipfile
from pathlib import Path

import pytest
import torch

from rince.data.graphs import tudataset

# Three graphs: a triangle, a pair and a node without an edge at the very end.
TINY = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n3\n",
    "graph_labels": "2\n0\n2\n",
    "node_labels": "1\n2\n1\n3\n1\n1\n",
    "node_attributes": "0.5, 1\n0, 1\n0, 2\n0, 3\n0, 4\n0, 5\n",
    "edge_labels": "0\n0\n1\n1\n0\n0\n2\n2\n",
}


def written(folder: Path, **changes: str | None) -> Path:
    (folder / "TINY").mkdir(exist_ok=True)
    for part, text in {**TINY, **changes}.items():
        if text is not None:
            (folder / "TINY" / f"TINY_{part}.txt").write_text(text)
    return folder


def test_reads_a_folder(tmp_path):
    graphs = tudataset("TINY", written(tmp_path))
    assert len(graphs) == 3
    assert graphs.y.tolist() == [1, 0, 1]  # labels 2 and 0, renumbered
    assert graphs.num_classes == 2
    assert graphs.node_ptr.tolist() == [0, 3, 5, 6]
    assert graphs.edge_ptr.tolist() == [0, 6, 8, 8]
    assert graphs.x.tolist()[:4] == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert graphs[1].edge_index.tolist() == [[0, 1], [1, 0]]


def test_graph_without_edges_is_kept(tmp_path):
    graphs = tudataset("TINY", written(tmp_path))
    assert graphs[2].num_nodes == 1
    assert graphs[2].num_edges == 0
    assert graphs.batch([2, 1]).edge_index.tolist() == [[1, 2], [2, 1]]


def test_attributes_and_edge_labels_are_optional(tmp_path):
    graphs = tudataset("TINY", written(tmp_path), node_attributes=True, edge_labels=True)
    assert graphs.x[0].tolist() == [0.5, 1, 1, 0, 0]
    assert graphs.edge_attr is not None
    pair = {
        tuple(e): k
        for e, k in zip(graphs[0].edge_index.T.tolist(), graphs[0].edge_attr.argmax(1).tolist(), strict=True)
    }
    assert pair[(1, 2)] == pair[(2, 1)] == 1
    assert pair[(0, 1)] == 0


def test_nodes_without_labels_get_a_constant_feature(tmp_path):
    graphs = tudataset("TINY", written(tmp_path, node_labels=None))
    assert torch.equal(graphs.x, torch.ones(6, 1))


def test_zip_file_equals_folder_and_is_not_unpacked_beside_it(tmp_path):
    written(tmp_path)
    archive = tmp_path / "zipped" / "TINY.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as file:
        for part in TINY:
            file.write(tmp_path / "TINY" / f"TINY_{part}.txt", f"TINY/TINY_{part}.txt")
    for root in (archive, archive.parent):
        graphs = tudataset("TINY", root)
        assert torch.equal(graphs.edge_index, tudataset("TINY", tmp_path).edge_index)
    assert [path.name for path in archive.parent.iterdir()] == ["TINY.zip"]


@pytest.mark.parametrize("changes", [{"graph_labels": "0\n1\n"}, {"node_labels": "0\n1\n"}, {"A": "1, two\n"}])
def test_inconsistent_files_are_refused(tmp_path, changes):
    with pytest.raises(ValueError, match="TINY"):
        tudataset("TINY", written(tmp_path, **changes))


@pytest.mark.parametrize("part", ["A", "graph_indicator", "graph_labels"])
def test_missing_file_is_named(tmp_path, part):
    with pytest.raises(FileNotFoundError, match=f"TINY_{part}.txt"):
        tudataset("TINY", written(tmp_path, **{part: None}))


def test_missing_data_set_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="TINY is not in"):
        tudataset("TINY", tmp_path)


def test_damaged_zip_is_refused(tmp_path):
    (tmp_path / "TINY.zip").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(ValueError, match="not a valid zip"):
        tudataset("TINY", tmp_path)


def test_failed_download_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("rince.data.graphs.URL", (tmp_path / "nowhere").as_uri())
    with pytest.raises(OSError, match="cannot download"):
        tudataset("TINY", tmp_path / "data", download=True)
    assert not (tmp_path / "data").exists() or not list((tmp_path / "data").iterdir())


def test_download_is_kept_and_read(tmp_path, monkeypatch):
    served = tmp_path / "served"
    served.mkdir()
    written(tmp_path)
    with zipfile.ZipFile(served / "TINY.zip", "w") as file:
        for part in TINY:
            file.write(tmp_path / "TINY" / f"TINY_{part}.txt", f"TINY/TINY_{part}.txt")
    monkeypatch.setattr("rince.data.graphs.URL", served.as_uri())
    assert len(tudataset("TINY", tmp_path / "data", download=True)) == 3
    assert len(tudataset("TINY", tmp_path / "data")) == 3


def test_real_data_have_the_documented_size(real_data):
    graphs = tudataset("PROTEINS", real_data("tudataset/PROTEINS.zip").parent)
    assert (len(graphs), graphs.num_classes, graphs.num_features) == (1113, 2, 3)
    assert len(graphs.x) == 43471 and graphs.edge_index.shape[1] == 162088
