"""What is MoCo's own: slow networks, queues, both directions, keys of other processes."""

import copy
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from rince import CrossView, InfoNCE
from rince.methods.moco import MoCo, MoCoV3, follow
from support import ranks
from support.image_methods import Record, fit, make


def test_the_slow_network_follows_by_the_momentum_and_gets_no_gradient():
    slow, fast = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    before = copy.deepcopy(slow)
    follow(slow, fast, 0.9)
    torch.testing.assert_close(slow.weight, 0.9 * before.weight + 0.1 * fast.weight)
    method = make(MoCo)
    fit(method, epochs=1)
    assert all(p.grad is None for p in method.slow_encoder.parameters())
    assert not torch.equal(method.slow_encoder.layers[0].weight, method.encoder.layers[0].weight)


def test_mocos_queue_holds_the_newest_keys():
    method = make(MoCo)
    fit(method)  # 8 batches of 16 keys into 40 places
    assert int(method.contrast.pushed) == 128
    torch.testing.assert_close(method.contrast.keys.norm(dim=1), torch.ones(40))


def test_moco_v3_scales_both_directions_by_two_temperatures():
    method = make(MoCoV3, InfoNCE(temperature=0.3))
    calls = []
    method.loss.register_forward_hook(lambda module, inputs, output: calls.append(output.detach()))
    record = Record()
    fit(method, epochs=1, callbacks=[record])
    assert record.losses[0] == pytest.approx(float(2 * 0.3 * (calls[0] + calls[1])), rel=1e-5)


def test_moco_v3_compares_each_view_with_the_other_one():
    method, seen = (
        make(MoCoV3, InfoNCE(temperature=0.3)),
        {"views": [], "slow views": [], "queries": [], "keys": [], "pairs": []},
    )
    for module, name in ((method.encoder, "views"), (method.slow_encoder, "slow views")):
        module.register_forward_pre_hook(lambda _, inputs, name=name: seen[name].append(inputs[0]))
    for module, name in ((method.predictor, "queries"), (method.slow_projector, "keys")):
        module.register_forward_hook(lambda _, inputs, output, name=name: seen[name].append(output))
    method.loss.register_forward_pre_hook(lambda _, inputs: seen["pairs"].append(inputs))
    fit(method, epochs=1, max_steps=1)
    assert not torch.equal(*seen["views"])
    assert all(map(torch.equal, seen["views"], seen["slow views"]))
    for (query, key), own_query, other_key in zip(seen["pairs"], seen["queries"], seen["keys"][::-1], strict=True):
        assert query is own_query and key is other_key


def test_moco_v3_gradient_of_learned_temperature():
    temperature = torch.nn.Parameter(torch.tensor(0.3))
    method, gradients = make(MoCoV3, InfoNCE(temperature=temperature)), []
    calls = []
    method.loss.register_forward_pre_hook(lambda _, inputs: calls.append([z.detach() for z in inputs]))
    temperature.register_hook(lambda gradient: gradients.append(float(gradient)))
    fit(method, epochs=1, max_steps=1)
    again = torch.tensor(0.3, requires_grad=True)
    plain = InfoNCE(temperature=again, contrast=CrossView(symmetric=False))
    (plain(*calls[0]) + plain(*calls[1])).backward()
    assert sum(gradients) == pytest.approx(2 * 0.3 * float(again.grad), rel=1e-4)


def test_the_momentum_of_moco_v3_rises_to_one():
    method = make(MoCoV3, momentum=0.9)
    assert method.momentum_of(0.0) == pytest.approx(0.9) and method.momentum_of(1.0) == pytest.approx(1.0)


def keys_of_two_processes(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    method = make(MoCo, width=5)
    method._trainer = SimpleNamespace(world_size=2, global_rank=rank)
    seen = []
    method.slow_encoder = torch.nn.Identity()
    method.slow_encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].clone()))
    method.slow_head = torch.nn.Identity()
    views = torch.arange(8.0)[:, None].expand(8, 5) + 100 * rank
    torch.save((views, method.keys(views), seen[0]), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_moco_encodes_keys_on_other_processes_and_brings_them_back(tmp_path):
    ranks.start(keys_of_two_processes, 2, tmp_path)
    both = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    encoded = torch.cat([seen for _, _, seen in both])
    assert all(torch.equal(keys, views) for views, keys, _ in both)
    assert not any(torch.equal(seen, views) for views, _, seen in both)
    assert torch.equal(encoded.sort(0).values, torch.cat([views for views, _, _ in both]))
    order = encoded[:, 0].argsort()
    assert not torch.equal(order, order.argsort())  # a shuffle that undoes itself would prove nothing


def test_moco_v3_head_norms():
    method = make(MoCoV3)
    assert isinstance(method.projector[-1], torch.nn.BatchNorm1d)
    assert isinstance(method.predictor[-1], torch.nn.Linear) and method.predictor[-1].bias is None
    assert isinstance(make(MoCoV3, predictor_norm=True).predictor[-1], torch.nn.BatchNorm1d)
