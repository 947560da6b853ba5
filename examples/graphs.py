"""GraphCL with RINCE on your own graphs: features that separate rings from trees, learned without labels.

python examples/graphs.py            about 10 s; pip install 'rince[graph]'
"""

import torch
from torch_geometric.data import Data

import rince
from rince.data import Graphs
from rince.encoders import GIN
from rince.evaluate.svm import features_of, svm_accuracy
from rince.views.graph import GraphViews, graphcl_view

torch.manual_seed(0)


def ring(nodes: int) -> Data:
    around = torch.arange(nodes)
    edges = torch.stack([around, around.roll(-1)])
    return Data(x=torch.ones(nodes, 1), edge_index=torch.cat([edges, edges.flip(0)], 1), y=torch.tensor([0]))


def tree(nodes: int) -> Data:
    child = torch.arange(1, nodes)
    edges = torch.stack([child, (child - 1) // 2])
    return Data(x=torch.ones(nodes, 1), edge_index=torch.cat([edges, edges.flip(0)], 1), y=torch.tensor([1]))


sizes = torch.randint(6, 20, (100,)).tolist()
graphs = Graphs.from_list([ring(n) if i % 2 else tree(n) for i, n in enumerate(sizes)], name="rings and trees")

encoder = GIN(graphs.num_features)
views = GraphViews(graphcl_view(rate=0.1))
loss = rince.RINCE(q=0.1, lam=0.025, temperature=0.2, scale="paper", contrast=rince.CrossView(symmetric=False))
optimizer = torch.optim.Adam(encoder.parameters(), lr=0.01)
random = torch.Generator().manual_seed(0)
for epoch in range(5):
    for batch in torch.randperm(len(graphs), generator=random).split(50):
        first, second = views(graphs.batch(batch), random)
        value = loss(encoder(first), encoder(second))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: loss {value.item():.4f}")
print(f"10-fold SVM on the frozen features: {100 * svm_accuracy(features_of(encoder, graphs), graphs.y).accuracy:.1f}%")
