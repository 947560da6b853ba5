"""What a forward pass has to find as it was when it is repeated: modes, buffers, random numbers, autocast."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def modes_of(owner: nn.Module) -> list[tuple[nn.Module, bool]]:
    return [(m, m.training) for m in owner.modules()]


def set_modes(modes: list[tuple[nn.Module, bool]]) -> None:
    """One by one: ``train`` and ``eval`` would go on to the parts, which may have modes of their own."""
    for module, training in modes:
        if module.training != training:
            module.training = training


def buffers_of(owner: nn.Module) -> list[tuple[nn.Module, str, Tensor]]:
    """Copies of what a forward pass may change, such as running statistics. In evaluation nothing changes."""
    trained = (m for m in owner.modules() if m.training)
    return [(m, name, b.detach().clone()) for m in trained for name, b in m._buffers.items() if b is not None]


@torch.no_grad()
def restore(buffers: list[tuple[nn.Module, str, Tensor]]) -> None:
    for module, name, value in buffers:
        buffer = module._buffers[name]
        if buffer is not None and buffer.shape == value.shape:
            buffer.copy_(value)
        else:
            module._buffers[name] = value.clone()


def random_state(devices: Sequence[torch.device]) -> list[Tensor]:
    others = [torch.get_device_module(d).get_rng_state(d) for d in devices if d.type not in ("cpu", "meta")]
    return [torch.get_rng_state(), *others]


def set_random_state(devices: Sequence[torch.device], state: list[Tensor]) -> None:
    torch.set_rng_state(state[0])
    for device, value in zip((d for d in devices if d.type not in ("cpu", "meta")), state[1:], strict=True):
        torch.get_device_module(device).set_rng_state(value, device)


def autocast_state(kind: str) -> tuple[str, torch.dtype, bool]:
    return kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)
