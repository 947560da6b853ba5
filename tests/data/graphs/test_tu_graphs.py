from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data

from rince.data.graphs import Graphs, TUGraphs


def loaded(graphs: int = 10, batch_size: int = 4, seen: int = 0) -> TUGraphs:
    data = TUGraphs("ANY", batch_size=batch_size)
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    one = [Data(x=torch.full((3, 1), float(i)), edge_index=ring, y=torch.tensor([i % 3])) for i in range(graphs)]
    data._graphs = Graphs.from_list(one)
    method = SimpleNamespace(batches_seen=lambda: seen)
    data.trainer = SimpleNamespace(lightning_module=method, global_rank=0, world_size=1)
    return data


def test_an_epoch_has_whole_batches_and_no_graph_twice():
    loader = loaded().train_dataloader()
    batches = list(loader)
    assert len(batches) == len(loader) == 3
    ids = torch.cat([batch.ids for batch in batches])
    assert len(ids) == len(ids.unique()) == 10
    assert torch.equal(batches[0].x[::3, 0], batches[0].ids.float())


def test_the_order_goes_on_where_training_stopped():
    whole, rest = list(loaded().train_dataloader()), list(loaded(seen=1).train_dataloader())
    assert torch.equal(whole[1].ids, rest[0].ids)
    assert len(rest) == 2


def test_classes_are_counted():
    assert loaded().classes == 3


def test_a_missing_data_set_is_named_before_training(tmp_path):
    with pytest.raises(FileNotFoundError, match="NONE is not in"):
        TUGraphs("NONE", root=str(tmp_path)).setup()


def test_wrong_pairs_come_with_the_graphs_whose_views_they_get():
    data = loaded()
    data.wrong_pairs = 0.5
    partner = torch.from_numpy(data.mispaired.partner)
    assert data.mispaired.hit.sum() == 5 and set(data.noise_record()) == {"partner", "partner_hit", "partner_sha256"}
    for batch in data.train_dataloader():
        assert torch.equal(batch.partners.ids, partner[batch.ids])
    assert "partners" not in next(iter(loaded().train_dataloader()))
