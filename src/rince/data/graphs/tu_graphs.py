"""TUDataset for ``rince train``: any data set of the collection, by its name."""

from rince.data.graphs.graph_data import GraphData
from rince.data.graphs.graphs import Graphs
from rince.data.graphs.tudataset import tudataset


class TUGraphs(GraphData):
    """Any data set of the TUDataset collection; all its graphs are trained on, without their labels.

    Nothing is read or downloaded before training needs it.

    Example:
        >>> data = rince.data.TUGraphs("PROTEINS", root="data/tudataset", wrong_pairs=0.2)
    """

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
            batch_size: Graphs in a batch of all processes together; fewer graphs make one batch.
            node_attributes: Use real-valued node attributes too, where the data set has them.
            download: Download the data set if it is not in ``root``.
            wrong_pairs: Share of graphs that are paired with a view of another graph, the same one throughout.
            wrong_pairs_seed: Seed that chooses these graphs, and whose view they get.
        """
        super().__init__(None, batch_size, wrong_pairs, wrong_pairs_seed)
        self.dataset, self.root = dataset, root
        self.node_attributes, self.download = node_attributes, download

    def read(self) -> Graphs:
        return tudataset(self.dataset, self.root, self.node_attributes, download=self.download)
