"""Time, memory and error of the loss on a GPU, as a table to send back.

    pip install 'rince[triton]'
    python benchmarks/gpu.py

Compares dense PyTorch (cross-entropy both ways), the blocked form, the compiled blocked form and the Triton kernel, in
the precisions of the option: forward and backward on two matrices of N x D embeddings, the median of the rounds. Values
and gradients are compared with float64. Without a GPU it runs on the CPU, the Triton kernel only with
TRITON_INTERPRET=1 and only at tiny sizes, which shows that it works and says nothing about its speed.
"""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

import rince

TEMPERATURE = 0.1
Loss = Callable[[Tensor, Tensor], Tensor]


def dense(a: Tensor, b: Tensor) -> Tensor:
    scores = normalize(a, dim=1) @ normalize(b, dim=1).T / TEMPERATURE
    targets = torch.arange(len(a), device=a.device)
    return (cross_entropy(scores, targets) + cross_entropy(scores.T, targets)) / 2


def variants(compiled: bool, triton: bool) -> Iterator[tuple[str, str, Loss]]:
    """Name, kernel and loss."""
    yield "dense PyTorch", "blocks", dense
    losses = {
        precision: rince.InfoNCE(temperature=TEMPERATURE, contrast=rince.CrossView(precision=precision))
        for precision in ("highest", "tf32", "bfloat16")
    }
    for precision, loss in losses.items():
        yield f"blocks, {precision}", "blocks", loss
    if compiled:
        yield "compiled, highest", "blocks", torch.compile(losses["highest"], dynamic=False)
    if triton:
        for precision, loss in losses.items():
            yield f"Triton, {precision}", "triton", loss


def reference(a: Tensor, b: Tensor, rows: int = 1024) -> tuple[Tensor, Tensor]:
    """Value and gradient of ``a`` in float64, some rows at a time."""
    a, b = a.detach().double().requires_grad_(), b.detach().double()
    left, right = normalize(a, dim=1), normalize(b, dim=1)
    unit = left.detach().requires_grad_()
    total, sums = torch.zeros((), dtype=torch.float64, device=a.device), []
    for start in range(0, len(a), rows):
        scores = unit.detach()[start : start + rows] @ right.T / TEMPERATURE
        sums.append(scores.logsumexp(0))
    of_columns = torch.stack(sums).logsumexp(0)
    gradient = torch.zeros_like(unit)
    for start in range(0, len(a), rows):
        part = slice(start, start + rows)
        scores = unit.detach()[part] @ right.T / TEMPERATURE
        of_rows, positive = scores.logsumexp(1), (unit.detach()[part] * right[part]).sum(1) / TEMPERATURE
        total += ((of_rows + of_columns[part]) / 2 - positive).sum() / len(a)
        weights = ((scores - of_rows[:, None]).exp() + (scores - of_columns).exp()) / 2
        gradient[part] = (weights @ right - right[part]) / (TEMPERATURE * len(a))
    return total, torch.autograd.grad(left, a, gradient)[0]


@contextmanager
def kernel(name: str) -> Iterator[None]:
    before = os.environ.get("RINCE_KERNEL")
    os.environ["RINCE_KERNEL"] = name
    try:
        yield
    finally:
        os.environ.pop("RINCE_KERNEL")
        if before is not None:
            os.environ["RINCE_KERNEL"] = before


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def step(loss: Loss, a: Tensor, b: Tensor) -> Tensor:
    a.grad = b.grad = None
    value = loss(a, b)
    value.backward()
    return value.detach()


def measure(loss: Loss, a: Tensor, b: Tensor, rounds: int) -> tuple[float, float, Tensor]:
    """Milliseconds, extra megabytes (of a GPU) and the value."""
    value = step(loss, a, b)  # compiles
    step(loss, a, b)
    wait(a.device)
    megabytes = float("nan")
    if a.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step(loss, a, b)
        wait(a.device)
        megabytes = (torch.cuda.max_memory_allocated() - before) / 2**20
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        step(loss, a, b)
        wait(a.device)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times), megabytes, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2**k for k in range(8, 17)])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        import triton

        version, can = triton.__version__, device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    except ImportError:
        version, can = "not installed", False
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU ({platform.machine()}), not a GPU"
    print(f"{name}, torch {torch.__version__}, Triton {version}, rince {rince.__version__}, D = {options.width}\n")
    print("| N | form | ms | extra MB | error of the value | of the gradient |")
    print("| ---: | --- " + "| ---: " * 4 + "|")
    for n in options.sizes:
        g = torch.Generator().manual_seed(0)
        z = torch.randn(n, options.width, generator=g)
        a, b = (x.to(device).requires_grad_() for x in (z, z + torch.randn(n, options.width, generator=g)))
        true, gradient = reference(a, b)
        for label, chosen, loss in variants(not options.no_compile, can):
            try:
                with kernel(chosen):
                    ms, megabytes, value = measure(loss, a, b, options.rounds)
            except torch.OutOfMemoryError:
                print(f"| {n} | {label} | out of memory | | | |", flush=True)
                torch.cuda.empty_cache()
                continue
            assert a.grad is not None
            wrong = float((a.grad.double() - gradient).norm() / gradient.norm())
            cells = f"{ms:.3f} | {megabytes:.1f} | {abs(float(value / true) - 1):.1e} | {wrong:.1e}"
            print(f"| {n} | {label} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
