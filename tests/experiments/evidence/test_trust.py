import torch

from experiments.evidence.trust import held_out_embeddings


def test_pairs_are_embedded_by_networks_that_never_saw_them():
    a = b = torch.arange(12.0)[:, None]
    fold = torch.arange(12) % 3

    class Seen(torch.nn.Module):
        def __init__(self, rows):
            super().__init__()
            self.rows = set(rows.tolist())

        def forward(self, x):
            return torch.tensor([[float(int(row) in self.rows)] for row in x])

    sides = held_out_embeddings(a, b, fold, 1, lambda rows: (Seen(rows), Seen(rows)))
    assert not any(side.any() for side in sides)
