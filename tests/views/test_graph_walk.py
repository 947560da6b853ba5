import torch

from rince.views.graph import walk


def path(nodes: int) -> torch.Tensor:
    one = torch.stack((torch.arange(nodes - 1), torch.arange(1, nodes)))
    return torch.cat((one, one.flip(0)), 1)


def walked(edge_index: torch.Tensor, nodes: int, target: int, seed: int) -> list[int]:
    batch, ptr = torch.zeros(nodes, dtype=torch.long), torch.tensor([0, nodes])
    keep = walk(edge_index, batch, ptr, torch.tensor([target]), torch.Generator().manual_seed(seed))
    return keep.nonzero().squeeze(1).tolist()


def test_a_walk_on_a_path_keeps_a_connected_stretch():
    for seed in range(20):
        kept = walked(path(30), 30, 12, seed)
        assert len(kept) == 12
        assert kept[-1] - kept[0] == 11


def test_several_walkers_on_a_large_path_keep_one_connected_stretch():
    kept = walked(path(400), 400, 30, 0)
    assert len(kept) == 30
    assert kept[-1] - kept[0] == 29


def test_a_used_up_component_is_left_for_another():
    edge_index = torch.cat((path(5), path(5) + 5), 1)
    assert len(walked(edge_index, 10, 9, 0)) == 9


def test_nodes_without_edges_are_kept_in_the_right_number():
    assert len(walked(torch.empty(2, 0, dtype=torch.long), 100, 70, 0)) == 70


def test_graphs_with_target_zero_are_left_alone():
    edge_index = torch.cat((path(5), path(5) + 5), 1)
    batch, ptr = torch.arange(10) // 5, torch.tensor([0, 5, 10])
    keep = walk(edge_index, batch, ptr, torch.tensor([0, 2]), torch.Generator().manual_seed(0))
    assert keep[:5].all()
    assert keep[5:].sum() == 2


def test_edges_need_not_be_sorted():
    shuffled = path(30)[:, torch.randperm(58, generator=torch.Generator().manual_seed(0))]
    kept = walked(shuffled, 30, 10, 1)
    assert kept[-1] - kept[0] == 9
