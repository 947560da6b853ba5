"""TUDataset for ``rince train``: whole batches cut out of one set of tensors."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from rince._support.fingerprints import of_tensors
from rince._support.optional_imports import require
from rince.data.batches import SeededBatches
from rince.data.graphs.graphs import Graphs
from rince.data.graphs.tudataset import tudataset
from rince.data.module import DataModule

if TYPE_CHECKING:
    from torch_geometric.data import Batch


class TUGraphs(DataModule):
    """Any data set of the TUDataset collection; all its graphs are trained on, without their labels."""

    def __init__(
        self,
        dataset: str,
        root: str = "data/tudataset",
        batch_size: int = 128,
        node_attributes: bool = False,
        download: bool = False,
    ):
        """
        Args:
            dataset: Its name, such as PROTEINS.
            root: A folder with NAME.zip or NAME/NAME_A.txt, or the zip itself.
            batch_size: Graphs in a batch, counted over all processes.
            node_attributes: Use real-valued node attributes too, where the data set has them.
            download: Fetch the data set if it is not in ``root``.
        """
        super().__init__()
        require("torch_geometric", "graph")  # now, not when the first batch is made
        self.dataset, self.root, self.batch_size = dataset, root, batch_size
        self.node_attributes, self.download = node_attributes, download
        self._graphs: Graphs | None = None

    @property
    def graphs(self) -> Graphs:
        if self._graphs is None:
            self._graphs = tudataset(self.dataset, self.root, self.node_attributes, download=self.download)
        return self._graphs

    def setup(self, stage: str | None = None) -> None:
        _ = self.graphs

    @property
    def classes(self) -> int:
        return self.graphs.num_classes

    def fingerprint(self) -> str:
        return of_tensors([self.graphs.x, self.graphs.edge_index, self.graphs.y])

    def train_dataloader(self) -> "GraphLoader":
        trainer = self.trainer
        assert trainer is not None
        batches = SeededBatches.of_trainer(trainer, len(self.graphs), self.batch_size, self.seed)
        return GraphLoader(self.graphs, batches)


class GraphLoader:
    """Indexes whole batches out of the data set: there is nothing for workers to do."""

    def __init__(self, graphs: Graphs, batches: SeededBatches):
        self.graphs, self.batches = graphs, batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> "Iterator[Batch]":
        for chosen in self.batches:
            yield self.graphs.batch(torch.tensor(chosen))
