import pytest
import torch

from support import ranks
from support.losses.processes import NCCL, cases, step, worker


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What three processes have left behind: one pool for all cases, and one import of torch for the pool."""
    place = tmp_path_factory.mktemp("processes")
    ranks.start(worker, 3, place)
    return place


@pytest.mark.parametrize("world", (2, 3))
def test_gradients_of_several_processes_equal_one_process_on_the_joined_batch(world, folder):
    """With gloo, and with the branch for nccl."""
    ranks = [torch.load(folder / f"{world}-{rank}.pt") for rank in range(world)]
    every = [*cases(world), *(NCCL if world == 2 else [])]
    assert {len(steps) for steps in ranks} == {len(every)}
    for i, case in enumerate(every):
        value, gradient, state, of_loss = step(*case)
        for rank in ranks:
            _, got, other_state, _ = rank[i]
            assert (got - gradient).norm() <= 1e-5 * gradient.norm(), case
            for name in state:
                torch.testing.assert_close(other_state[name], state[name], rtol=1e-5, atol=1e-6)
        for part, expected in ((0, value), (3, of_loss)):
            mean = torch.stack([rank[i][part] for rank in ranks]).mean(0)
            torch.testing.assert_close(mean, expected, rtol=1e-5, atol=1e-6)
