"""TUDataset for ``rince train``: whole batches cut out of one set of tensors."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rince._support.fingerprints import of_tensors
from rince._support.optional_imports import require
from rince.data.batches import SeededBatches
from rince.data.graphs.graphs import Graphs
from rince.data.graphs.tudataset import tudataset
from rince.data.module import DataModule
from rince.errors import UsageError
from rince.noise.pairs import WrongPairs, wrong_pairs

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
        wrong_pairs: float = 0.0,
        wrong_pairs_seed: int = 0,
    ):
        """
        Args:
            dataset: Its name, such as PROTEINS.
            root: A folder with NAME.zip or NAME/NAME_A.txt, or the zip itself.
            batch_size: Graphs in a batch, counted over all processes.
            node_attributes: Use real-valued node attributes too, where the data set has them.
            download: Fetch the data set if it is not in ``root``.
            wrong_pairs: Share of graphs whose second view is one of another graph.
            wrong_pairs_seed: Which graphs that are, and whose view they get.
        """
        super().__init__()
        require("torch_geometric", "graph")  # now, not when the first batch is made
        if not 0 <= wrong_pairs <= 1:
            raise UsageError(f"wrong_pairs must lie in [0, 1], got {wrong_pairs}")
        self.wrong_pairs, self.wrong_pairs_seed = wrong_pairs, wrong_pairs_seed
        self.mispaired: WrongPairs | None = None
        self.dataset, self.root, self.batch_size = dataset, root, batch_size
        self.node_attributes, self.download = node_attributes, download
        self._graphs: Graphs | None = None

    @property
    def graphs(self) -> Graphs:
        if self._graphs is None:
            self._graphs = tudataset(self.dataset, self.root, self.node_attributes, download=self.download)
        return self._graphs

    def setup(self, stage: str | None = None) -> None:
        graphs = self.graphs
        if self.wrong_pairs and self.mispaired is None:
            self.mispaired = wrong_pairs(len(graphs), self.wrong_pairs, self.wrong_pairs_seed)

    def noise_record(self) -> dict[str, Any]:
        self.setup()
        if self.mispaired is None:
            return {}
        return {"partner": self.mispaired.partner, "partner_hit": self.mispaired.hit}

    @property
    def training_pairs(self) -> int:
        return len(self.graphs)

    def noisy_batches(self, ids: Tensor, batch_size: int = 256) -> "Iterator[Batch]":
        self.setup()
        for chosen in ids.split(batch_size):
            yield self.batch(chosen)

    def batch(self, ids: Tensor) -> "Batch":
        """Graphs and, as ``partners``, those that give their second views where these are not the same."""
        batch = self.graphs.batch(ids)
        if self.mispaired is not None:
            batch.partners = self.graphs.batch(torch.from_numpy(self.mispaired.partner)[ids])
        if self.trust is not None:
            batch.weights = self.trust[ids]
        return batch

    @property
    def classes(self) -> int:
        return self.graphs.num_classes

    def fingerprint(self) -> str:
        return of_tensors([self.graphs.x, self.graphs.edge_index, self.graphs.y])

    def train_dataloader(self) -> "GraphLoader":
        trainer = self.trainer
        assert trainer is not None
        batches = SeededBatches.of_trainer(trainer, len(self.graphs), self.batch_size, self.seed, self.among)
        return GraphLoader(self, batches)


class GraphLoader:
    """Indexes whole batches out of the data set: there is nothing for workers to do."""

    def __init__(self, data: TUGraphs, batches: SeededBatches):
        self.data, self.batches = data, batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> "Iterator[Batch]":
        for chosen in self.batches:
            yield self.data.batch(torch.tensor(chosen))
