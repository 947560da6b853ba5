"""The reader against PyG's on real data, and every way in which a data set can be broken."""

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


def test_a_folder_is_read(tmp_path):
    graphs = tudataset("TINY", written(tmp_path))
    assert len(graphs) == 3
    assert graphs.y.tolist() == [1, 0, 1]  # labels 2 and 0, renumbered
    assert graphs.num_classes == 2
    assert graphs.node_ptr.tolist() == [0, 3, 5, 6]
    assert graphs.edge_ptr.tolist() == [0, 6, 8, 8]
    assert graphs.x.tolist()[:4] == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert graphs[1].edge_index.tolist() == [[0, 1], [1, 0]]


def test_a_graph_without_edges_is_a_graph(tmp_path):
    graphs = tudataset("TINY", written(tmp_path))
    assert graphs[2].num_nodes == 1
    assert graphs[2].num_edges == 0
    assert graphs.batch([2, 1]).edge_index.tolist() == [[1, 2], [2, 1]]


def test_a_data_set_without_any_edge_is_read(tmp_path):
    graphs = tudataset("TINY", written(tmp_path, A="", edge_labels=None))
    assert graphs.edge_index.shape == (2, 0)
    assert graphs.edge_ptr.tolist() == [0, 0, 0, 0]


def test_attributes_and_edge_labels_come_on_request(tmp_path):
    graphs = tudataset("TINY", written(tmp_path), node_attributes=True, edge_labels=True)
    assert graphs.x[0].tolist() == [0.5, 1, 1, 0, 0]
    assert graphs.edge_attr is not None
    pair = {
        tuple(e): k
        for e, k in zip(graphs[0].edge_index.T.tolist(), graphs[0].edge_attr.argmax(1).tolist(), strict=True)
    }
    assert pair[(1, 2)] == pair[(2, 1)] == 1
    assert pair[(0, 1)] == 0


def test_constant_features_where_there_are_none(tmp_path):
    graphs = tudataset("TINY", written(tmp_path, node_labels=None))
    assert torch.equal(graphs.x, torch.ones(6, 1))


def test_a_zip_is_read_in_place_and_gives_the_same(tmp_path):
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"graph_labels": "0\n1\n"}, "TINY_graph_labels.txt .* has 2 rows for 3 graphs"),
        ({"node_labels": "0\n1\n"}, "TINY_node_labels.txt .* has 2 rows for 6 nodes"),
        ({"graph_indicator": "1\n1\n2\n1\n2\n3\n"}, "must count graphs upwards"),
        ({"graph_indicator": "1\n1\n1\n3\n3\n3\n"}, "graph 2 of TINY .* has no nodes"),
        ({"graph_indicator": ""}, "no nodes"),
        ({"A": "1, 2\n2, 9\n"}, "names node 9, but there are 6 nodes"),
        ({"A": "1, 4\n"}, "an edge between two graphs"),
        ({"A": "1, two\n"}, "does not hold numbers only"),
        ({"A": "1, 2, 3\n"}, "two columns"),
    ],
)
def test_an_inconsistent_data_set_is_named(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        tudataset("TINY", written(tmp_path, **changes))


@pytest.mark.parametrize("part", ["A", "graph_indicator", "graph_labels"])
def test_a_missing_file_is_named(tmp_path, part):
    with pytest.raises(FileNotFoundError, match=f"holds no TINY_{part}.txt"):
        tudataset("TINY", written(tmp_path, **{part: None}))


def test_a_missing_data_set_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"TINY is not in .*looked for TINY.zip"):
        tudataset("TINY", tmp_path)


def test_a_damaged_zip_is_named(tmp_path):
    (tmp_path / "TINY.zip").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(ValueError, match="not a whole zip"):
        tudataset("TINY", tmp_path)


@pytest.mark.parametrize("name", ["../TINY", "a/b", ""])
def test_a_name_cannot_leave_the_folder(tmp_path, name):
    with pytest.raises(ValueError, match="not the name of a TUDataset"):
        tudataset(name, tmp_path)


def test_a_download_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("rince.data.graphs.URL", (tmp_path / "nowhere").as_uri())
    with pytest.raises(OSError, match="could not be fetched"):
        tudataset("TINY", tmp_path / "data", download=True)
    assert not (tmp_path / "data").exists() or not list((tmp_path / "data").iterdir())


def test_a_download_is_kept_and_read(tmp_path, monkeypatch):
    served = tmp_path / "served"
    served.mkdir()
    written(tmp_path)
    with zipfile.ZipFile(served / "TINY.zip", "w") as file:
        for part in TINY:
            file.write(tmp_path / "TINY" / f"TINY_{part}.txt", f"TINY/TINY_{part}.txt")
    monkeypatch.setattr("rince.data.graphs.URL", served.as_uri())
    assert len(tudataset("TINY", tmp_path / "data", download=True)) == 3
    assert len(tudataset("TINY", tmp_path / "data")) == 3


@pytest.mark.parametrize("name", ["MUTAG", "PROTEINS"])
def test_real_data_are_read_as_pyg_reads_them(real_data, tmp_path, name):
    from torch_geometric.io import read_tu_data

    archive = real_data(f"tudataset/{name}.zip")
    with zipfile.ZipFile(archive) as file:
        file.extractall(tmp_path)
    data, slices, _ = read_tu_data(str(tmp_path / name), name)
    graphs = tudataset(name, archive.parent, node_attributes=True, edge_labels=True)
    assert torch.equal(graphs.x, data.x)
    assert torch.equal(graphs.edge_index, data.edge_index)
    assert torch.equal(graphs.node_ptr, slices["x"])
    assert torch.equal(graphs.edge_ptr, slices["edge_index"])
    assert torch.equal(graphs.y, data.y)
    if data.edge_attr is not None:
        assert torch.equal(graphs.edge_attr, data.edge_attr)
