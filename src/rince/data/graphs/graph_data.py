"""Graphs of your own for training: whole batches cut out of one set of tensors."""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rince._support.fingerprints import of_tensors
from rince._support.optional_imports import require
from rince.data.batches import SeededBatches
from rince.data.graphs.graphs import Graphs
from rince.data.module import DataModule
from rince.errors import UsageError
from rince.noise.pairs import WrongPairs, wrong_pairs

if TYPE_CHECKING:
    from torch_geometric.data import Batch


class GraphData(DataModule):
    """A set of graphs; all of them are trained on, without their labels.

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
            graphs: The graphs; a subclass may read them later, in ``read``.
            batch_size: Graphs in a batch of all processes together; fewer graphs make one batch.
            wrong_pairs: Share of graphs that are paired with a view of another graph, the same one throughout.
            wrong_pairs_seed: Seed that chooses these graphs, and whose view they get.

        Raises:
            UsageError: If wrong_pairs does not lie in [0, 1].
        """
        super().__init__()
        require("torch_geometric", "graph")  # now, not when the first batch is made
        if not 0 <= wrong_pairs <= 1:
            raise UsageError(f"wrong_pairs must lie in [0, 1], got {wrong_pairs}")
        self.batch_size, self.wrong_pairs, self.wrong_pairs_seed = batch_size, wrong_pairs, wrong_pairs_seed
        self._graphs = graphs

    def read(self) -> Graphs:
        """The graphs, where they were not given."""
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
        """For every graph the one whose view it gets, and whether that is another one."""
        return wrong_pairs(len(self.graphs), self.wrong_pairs, self.wrong_pairs_seed)

    def noise_record(self) -> dict[str, Any]:
        return {"partner": self.mispaired.partner, "partner_hit": self.mispaired.hit} if self.wrong_pairs else {}

    def fingerprint(self) -> str:
        return of_tensors([self.graphs.x, self.graphs.edge_index, self.graphs.y])

    @property
    def training_pairs(self) -> int:
        return len(self.graphs)

    def noisy_batches(self, ids: Tensor, batch_size: int = 256) -> "Iterator[Batch]":
        for chosen in ids.split(batch_size):
            yield self.batch(chosen)

    def batch(self, ids: Tensor) -> "Batch":
        """Graphs and, as ``partners``, those that give their second views where these are not the same."""
        batch = self.graphs.batch(ids)
        if self.wrong_pairs:
            batch.partners = self.graphs.batch(torch.from_numpy(self.mispaired.partner)[ids])
        if self.trust is not None:
            batch.weights = self.trust[ids]
        return batch

    def train_dataloader(self) -> "GraphLoader":
        """Batches in an order of the seed's; the last, smaller one is kept, as in GraphCL's own code."""
        trainer = self.trainer
        assert trainer is not None
        size = min(self.batch_size, len(self.graphs) if self.among is None else len(self.among))
        batches = SeededBatches.of_trainer(trainer, len(self.graphs), size, self.seed, self.among, keep_last=True)
        return GraphLoader(self, batches)


class GraphLoader:
    """Indexes whole batches out of the data set: there is nothing for workers to do."""

    def __init__(self, data: GraphData, batches: SeededBatches):
        self.data, self.batches = data, batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> "Iterator[Batch]":
        for chosen in self.batches:
            yield self.data.batch(torch.tensor(chosen))
