"""A ranking loss on two processes, for test_sentence_transformers.py."""

import itertools

import torch
import torch.distributed as dist

DIRECTIONS = (
    (("query_to_doc",), "joint"),
    (("query_to_doc", "doc_to_query"), "per_direction"),
    (("query_to_doc", "doc_to_query"), "joint"),
    (("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"), "joint"),
)


def worker(rank, world, folder):
    from rince.integrations.sentence_transformers import RINCELoss

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    g = torch.Generator().manual_seed(0)
    whole = [torch.randn(12, 8, generator=g, dtype=torch.float64) for _ in range(3)]
    own = slice(6 * rank, 6 * rank + 6)
    found = {}
    for weighted, directions in itertools.product((False, True), DIRECTIONS):
        columns = [z[own].clone().requires_grad_() for z in whole]
        weights = (torch.arange(12) % 4)[own] if weighted else None
        loss = RINCELoss(
            None, directions=directions[0], partition_mode=directions[1], weighted=weighted, gather_across_devices=True
        )
        value = loss.compute_loss_from_embeddings(columns, weights)
        found[weighted, directions] = value.detach(), torch.stack(torch.autograd.grad(value, columns))
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
