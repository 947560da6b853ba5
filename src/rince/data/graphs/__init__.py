"""Collections of graphs, stored in one piece."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.data.graphs.graph_data import GraphData
    from rince.data.graphs.graphs import Graphs
    from rince.data.graphs.tu_graphs import TUGraphs
    from rince.data.graphs.tudataset import tudataset

HOMES = {  # public name: the module that defines it
    "Graphs": "graphs",
    "GraphData": "graph_data",
    "tudataset": "tudataset",
    "TUGraphs": "tu_graphs",
}

__all__ = [
    "GraphData",
    "Graphs",
    "TUGraphs",
    "tudataset",
]

__getattr__, __dir__ = lazy_names(__name__, HOMES)
