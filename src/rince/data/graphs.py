"""Data sets of small graphs, stored in one set of tensors, and TUDataset."""

import functools
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from rince._support.fingerprints import of_tensors
from rince._support.optional_imports import require
from rince._support.ragged import offsets, spans
from rince._support.zip_files import opened_zip
from rince.data.download import fetch
from rince.data.module import DataModule, SeededBatches, SeededLoader
from rince.errors import FileError, MissingFile, UsageError
from rince.noise.pairs import WrongPairs, wrong_pairs

if TYPE_CHECKING:
    from torch_geometric.data import Batch, Data

__path__: list[str] = []  # until 0.4, rince._moved finds the submodules of version 0.2


@dataclass(eq=False)
class Graphs(Dataset[Any]):
    """Data set of graphs, with the nodes and edges of all graphs concatenated.

    Graph ``i`` has the nodes ``node_ptr[i]:node_ptr[i + 1]`` and the edges ``edge_ptr[i]:edge_ptr[i + 1]``.
    :meth:`batch`, or a ``DataLoader`` with ``collate_fn=Graphs.collate``, returns PyG batches a hundred times faster
    than collating graphs one by one.

    Args:
        x: (nodes, features) node features.
        edge_index: (2, edges) nodes of every edge, counted from 0 within each graph.
        node_ptr: (graphs + 1,) index of the first node of each graph.
        edge_ptr: (graphs + 1,) index of the first edge of each graph.
        y: (graphs,) classes from 0.
        edge_attr: (edges, features) edge features. Default: None.
        name: Name of the data set.

    Example:
        >>> from torch_geometric.data import Data
        >>> edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> several = [Data(x=torch.ones(3, 1), edge_index=edges, y=torch.tensor([i % 2])) for i in range(4)]
        >>> graphs = rince.data.Graphs.from_list(several)
        >>> len(graphs), graphs.num_classes, graphs.batch([0, 2]).num_nodes
        (4, 2, 6)
    """

    x: Tensor
    edge_index: Tensor
    node_ptr: Tensor
    edge_ptr: Tensor
    y: Tensor
    edge_attr: Tensor | None = None
    name: str = "graphs"

    def __len__(self) -> int:
        return len(self.node_ptr) - 1

    @property
    def num_features(self) -> int:
        """Number of node features."""
        return self.x.shape[1]

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return int(self.y.max()) + 1 if len(self.y) else 0

    def batch(self, index: Tensor | Sequence[int] | None = None) -> "Batch":
        """PyG batch of the graphs ``index``, in that order. Default: all graphs."""
        from torch_geometric.data import Batch

        if index is None:
            index = torch.arange(len(self))
        index = torch.as_tensor(index, dtype=torch.long)
        start, count = self.node_ptr[index], self.node_ptr[index + 1] - self.node_ptr[index]
        nodes, ptr = spans(start, count), offsets(count)
        edge_count = self.edge_ptr[index + 1] - self.edge_ptr[index]
        edges = spans(self.edge_ptr[index], edge_count)
        shift = torch.repeat_interleave(ptr[:-1], edge_count)
        optional = {} if self.edge_attr is None else {"edge_attr": self.edge_attr.index_select(0, edges)}
        return Batch(
            x=self.x.index_select(0, nodes),
            edge_index=self.edge_index.index_select(1, edges) + shift,
            y=self.y[index],
            batch=torch.repeat_interleave(count),
            ptr=ptr,
            ids=index,
            **optional,
        )

    def __getitem__(self, index: int) -> "Data":
        from torch_geometric.data import Data

        if not -len(self) <= index < len(self):
            raise IndexError(f"graph {index} of {len(self)}")
        index %= len(self)
        nodes = slice(int(self.node_ptr[index]), int(self.node_ptr[index + 1]))
        edges = slice(int(self.edge_ptr[index]), int(self.edge_ptr[index + 1]))
        return Data(
            x=self.x[nodes],
            edge_index=self.edge_index[:, edges],
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
            y=self.y[index : index + 1],
        )

    def __getitems__(self, index: list[int]) -> "list[Batch]":
        # A DataLoader passes the indices of a whole batch.
        return [self.batch(index)]

    @staticmethod
    def collate(batches: "list[Batch]") -> "Batch":
        """``collate_fn`` of a ``DataLoader``: the batch itself."""
        return batches[0]

    def subset(self, index: Tensor | Sequence[int]) -> "Graphs":
        """Data set of the graphs ``index``, which may repeat."""
        return self.from_list([self[int(i)] for i in index], self.name)

    @classmethod
    def from_list(cls, graphs: "Sequence[Data]", name: str = "graphs") -> "Graphs":
        """Convert a PyG data set or a list of graphs."""
        require("torch_geometric", "graph")
        if not len(graphs):
            raise UsageError("a data set needs at least one graph, got an empty list")
        has_edge_attr = graphs[0].edge_attr is not None
        return cls(
            x=torch.cat([_features(graph) for graph in graphs]),
            edge_index=torch.cat([graph.edge_index for graph in graphs], dim=1),
            node_ptr=offsets(torch.tensor([graph.num_nodes for graph in graphs])),
            edge_ptr=offsets(torch.tensor([graph.num_edges for graph in graphs])),
            y=torch.cat([_label(graph) for graph in graphs]),
            edge_attr=torch.cat([graph.edge_attr for graph in graphs]) if has_edge_attr else None,
            name=name,
        )


def _features(graph: Any) -> Tensor:
    return torch.ones(graph.num_nodes, 1) if graph.x is None else graph.x.float()


def _label(graph: Any) -> Tensor:
    return torch.zeros(1, dtype=torch.long) if graph.y is None else graph.y.reshape(-1)[:1].long()


class GraphData(DataModule):
    """Unsupervised training on all graphs of a data set.

    Example:
        >>> from torch_geometric.data import Data
        >>> edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> graphs = rince.data.Graphs.from_list([Data(x=torch.ones(3, 1), edge_index=edges)] * 20)
        >>> data = rince.data.GraphData(graphs, batch_size=10, wrong_pairs=0.2)
        >>> int(data.noise_record()["partner_hit"].sum())
        4
    """

    def __init__(
        self,
        graphs: Graphs | None = None,
        batch_size: int = 128,
        wrong_pairs: float = 0.0,
        wrong_pairs_seed: int = 0,
    ):
        """
        Args:
            graphs: The graphs. Default: None, the return value of a subclass's ``read``.
            batch_size: Batch size over all processes, at most the number of graphs.
            wrong_pairs: Share of graphs that are paired with a view of another graph, the same one in all epochs.
            wrong_pairs_seed: Seed of ``wrong_pairs``.
        """
        super().__init__()
        require("torch_geometric", "graph")  # fail early, not at the first batch
        self.batch_size, self.wrong_pairs, self.wrong_pairs_seed = batch_size, wrong_pairs, wrong_pairs_seed
        self._graphs = graphs

    def read(self) -> Graphs:
        """Graphs to use if none were passed."""
        raise NotImplementedError

    @property
    def graphs(self) -> Graphs:
        """All graphs, read on first use."""
        if self._graphs is None:
            self._graphs = self.read()
        return self._graphs

    def setup(self, stage: str | None = None) -> None:
        _ = self.graphs

    @property
    def classes(self) -> int:
        return self.graphs.num_classes

    @functools.cached_property
    def mispaired(self) -> WrongPairs:
        """Mismatched pairs of graphs."""
        return wrong_pairs(len(self.graphs), self.wrong_pairs, self.wrong_pairs_seed)

    def noise_record(self) -> dict[str, Any]:
        return self.mispaired.record() if self.wrong_pairs else {}

    def fingerprint(self) -> str:
        return of_tensors([self.graphs.x, self.graphs.edge_index, self.graphs.y])

    @property
    def training_pairs(self) -> int:
        return len(self.graphs)

    def noisy_batches(self, ids: Tensor, batch_size: int = 256) -> "Iterator[Batch]":
        for chosen in ids.split(batch_size):
            yield self.batch(chosen)

    def batch(self, ids: Tensor) -> "Batch":
        """Batch of graphs; ``partners`` are the graphs of the second views if pairs are mismatched."""
        batch = self.graphs.batch(ids)
        if self.wrong_pairs:
            batch.partners = self.graphs.batch(torch.from_numpy(self.mispaired.partner)[ids])
        if self.weights is not None:
            batch.weights = self.weights[ids]
        return batch

    def train_dataloader(self) -> SeededLoader:
        """Random batches. The last, smaller one is kept, as in GraphCL's code."""
        size = min(self.batch_size, len(self.graphs) if self.among is None else len(self.among))
        batches = SeededBatches.of_trainer(self.trainer, len(self.graphs), size, self.seed, self.among, keep_last=True)
        return SeededLoader(batches, lambda ids, step: self.batch(ids))


URL = "https://www.chrsmrrs.com/graphkerneldatasets"
REQUIRED = ("A", "graph_indicator", "graph_labels")


def tudataset(
    name: str,
    root: str | os.PathLike[str] = "data/tudataset",
    node_attributes: bool = False,
    edge_labels: bool = False,
    download: bool = False,
) -> Graphs:
    r"""Read a data set of the TUDataset collection.

    Graph labels are renumbered from 0. Node features are one-hot node labels, or a constant 1 without labels.

    Args:
        name: Name of the data set, such as ``"MUTAG"``.
        root: Folder with ``NAME.zip`` or ``NAME/NAME_A.txt``, or the zip file.
        node_attributes: Real-valued node attributes as features too, before the labels.
        edge_labels: One-hot edge labels as ``edge_attr``.
        download: Download the data set if it is not in ``root``.

    Returns:
        The graphs.

    Raises:
        MissingFile: If the data set is not in ``root`` and ``download`` is not set.
        UsageError: If its files cannot be read.

    Example:
        >>> from pathlib import Path
        >>> Path("TINY").mkdir()
        >>> edges, graph_of_node, labels = "1, 2\n2, 1\n3, 4\n4, 3\n", "1\n1\n2\n2\n", "-1\n1\n"
        >>> for kind, text in (("A", edges), ("graph_indicator", graph_of_node), ("graph_labels", labels)):
        ...     _ = Path(f"TINY/TINY_{kind}.txt").write_text(text)
        >>> graphs = rince.data.tudataset("TINY", root=".")
        >>> len(graphs), graphs.y.tolist()
        (2, [0, 1])
    """
    require("torch_geometric", "graph")
    root = Path(root)
    source = _find(name, root)
    if source is None and download:
        source = root / f"{name}.zip"
        try:
            fetch(f"{URL}/{name}.zip", source)
        except FileError as error:
            raise FileError(f"{error}; is {name} the exact name of the data set?") from error
    if source is None:
        raise MissingFile(
            f"{name} is not in {root}: looked for {name}.zip and {name}/{name}_A.txt; "
            f"pass its folder as root, or set download to fetch {URL}/{name}.zip"
        )
    if source.is_dir():
        return _read(name, source, source, node_attributes, edge_labels)
    with tempfile.TemporaryDirectory() as folder, opened_zip(source) as archive:
        for member in archive.namelist():
            if member.endswith(".txt"):
                Path(folder, Path(member).name).write_bytes(archive.read(member))
        return _read(name, Path(folder), source, node_attributes, edge_labels)


def _find(name: str, root: Path) -> Path | None:
    """The folder or zip file of a data set."""
    if root.is_file():
        return root
    for folder in (root, root / "tudataset"):
        for inner in (folder / name, folder / name / "raw", folder / name / name, folder):
            if any((inner / f"{name}_{part}.txt").exists() for part in REQUIRED):
                return inner
        if (folder / f"{name}.zip").exists():
            return folder / f"{name}.zip"
    return None


def _read(name: str, folder: Path, source: Path, node_attributes: bool, edge_labels: bool) -> Graphs:
    """Read text files with PyG. ``source`` is the folder or zip file that errors name."""
    from torch_geometric.io import read_tu_data, read_txt_array

    missing = [f"{name}_{part}.txt" for part in REQUIRED if not (folder / f"{name}_{part}.txt").is_file()]
    if missing:
        raise MissingFile(f"{source} has no {' and no '.join(missing)}: the data set {name} is incomplete")
    try:
        data, slices, sizes = read_tu_data(str(folder), name)
        nodes = torch.bincount(read_txt_array(str(folder / f"{name}_graph_indicator.txt"), dtype=torch.long) - 1)
    except (ValueError, RuntimeError, IndexError) as error:
        raise UsageError(f"{name} in {source} cannot be read ({error}): download it again") from error
    if len(nodes) != len(data.y) or data.y.is_floating_point():
        raise UsageError(f"{name} in {source} must have one class per graph, got {len(data.y)} for {len(nodes)} graphs")
    edge_ptr = slices["edge_index"]
    x = torch.ones(int(nodes.sum()), 1)
    if data.x is not None:
        columns = data.x[:, 0 if node_attributes else sizes["num_node_attributes"] :]
        x = columns if columns.shape[1] else x
    return Graphs(
        x=x,
        edge_index=data.edge_index,
        node_ptr=offsets(nodes),
        # PyG omits trailing graphs without edges.
        edge_ptr=torch.cat([edge_ptr, edge_ptr[-1:].expand(len(nodes) + 1 - len(edge_ptr))]),
        y=data.y,
        edge_attr=data.edge_attr[:, sizes["num_edge_attributes"] :]
        if edge_labels and sizes["num_edge_labels"]
        else None,
        name=name,
    )


class TUGraphs(GraphData):
    """Unsupervised training on a data set of the TUDataset collection.

    Files are read or downloaded when training needs them. Further options are those of :class:`rince.data.GraphData`.

    Example:
        >>> data = rince.data.TUGraphs("PROTEINS", root="data/tudataset", wrong_pairs=0.2)
    """

    def __init__(
        self,
        dataset: str,
        root: str = "data/tudataset",
        node_attributes: bool = False,
        download: bool = False,
        **options: Any,
    ):
        """
        Args:
            dataset: Name of the data set, such as PROTEINS.
            root: Folder with NAME.zip or NAME/NAME_A.txt, or the zip file.
            node_attributes: Real-valued node attributes as features too.
            download: Download the data set if it is not in ``root``.
        """
        super().__init__(None, **options)
        self.dataset, self.root = dataset, root
        self.node_attributes, self.download = node_attributes, download

    def read(self) -> Graphs:
        return tudataset(self.dataset, self.root, self.node_attributes, download=self.download)
