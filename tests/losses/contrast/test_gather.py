import pytest
import torch

from processes import cases, step, worker


@pytest.mark.parametrize("world", (2, 3))
def test_gradients_of_several_processes_equal_one_process_on_the_joined_batch(world, tmp_path):
    torch.multiprocessing.spawn(worker, args=(world, tmp_path), nprocs=world)
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(world)]
    for i, case in enumerate(cases(world)):
        value, gradient, state, of_loss = step(*case)
        for rank in ranks:
            _, got, other_state, _ = rank[i]
            assert (got - gradient).norm() <= 1e-5 * gradient.norm(), case
            for name in state:
                torch.testing.assert_close(other_state[name], state[name], rtol=1e-5, atol=1e-6)
        for part, expected in ((0, value), (3, of_loss)):
            mean = torch.stack([rank[i][part] for rank in ranks]).mean(0)
            torch.testing.assert_close(mean, expected, rtol=1e-5, atol=1e-6)
