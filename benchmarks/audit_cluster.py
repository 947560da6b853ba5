"""The audit of many millions of pairs that are made where they are scored, on a Dask cluster of this machine.

    python benchmarks/audit_cluster.py --pairs 20000000                       two workers, beside one process
    python benchmarks/audit_cluster.py --pairs 20000000 --kill                one of them is killed midway
    python benchmarks/audit_cluster.py --pairs 100000000 --no-single          more, and the cluster alone
    python benchmarks/audit_cluster.py --fit --pairs 2000000 --width 128 --no-cluster     towers, in one process

Every partition makes 500,000 pairs x 64 in float16, of which 20 % are wrong. Printed are wall time and CPU seconds of
all processes, the largest memory of each, and the verdict. With two idle cores the time to compare with is half of the
CPU seconds of one process; where cores are shared, compare CPU seconds.
"""

import argparse
import contextlib
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from process_status import cpu_seconds, peak_megabytes

from rince.audit import Partition, ShardedAudit, audit_shards
from rince.audit.fit.towers import FitConfig
from rince.audit.shards.runner import connected

ROWS = 500_000
BLOCK = 50_000
WRONG = 0.2


class Made(Partition):
    """Pairs that a seed makes, the same every time; the first process that reads a deadly one is killed midway."""

    def __init__(self, number: int, rows: int, width: int, deadly: Path | None = None):
        self.number, self._rows, self.width, self.deadly = number, rows, width, deadly
        self.name = f"partition {number}"

    @property
    def rows(self) -> int:
        return self._rows

    def wrong(self) -> np.ndarray:
        return np.random.default_rng([self.number, 1]).random(self._rows) < WRONG

    def blocks(self):
        random, wrong = np.random.default_rng([self.number, 0]), self.wrong()
        for start in range(0, self._rows, BLOCK):
            shape = (min(BLOCK, self._rows - start), self.width)
            a = random.standard_normal(shape, dtype=np.float32)
            b = 1.5 * random.standard_normal(shape, dtype=np.float32)
            if start > self._rows // 2 and self.deadly is not None and not self.deadly.exists():
                self.deadly.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            b[~wrong[start : start + BLOCK]] += a[~wrong[start : start + BLOCK]]
            yield a.astype(np.float16), b.astype(np.float16)


def partitions(pairs: int, width: int, deadly: Path | None = None) -> list[Partition]:
    """All partitions, of which one in the middle may be deadly."""
    count = -(-pairs // ROWS)
    rows = [min(ROWS, pairs - ROWS * k) for k in range(count)]
    return [Made(k, rows[k], width, deadly if k == count // 2 else None) for k in range(count)]


def status(pid: int) -> tuple[float, float]:
    """CPU seconds so far and the largest memory in MB of a process."""
    return cpu_seconds(pid), peak_megabytes(pid)


class Watch:
    """CPU and memory of worker processes, looked at every two seconds: one that is killed says nothing afterwards."""

    def __init__(self):
        self.seen, self.over = {}, threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self.over.wait(2):
            for pid in {*self.seen, *children()}:
                with contextlib.suppress(OSError, IndexError):  # it may be gone
                    self.seen[pid] = status(pid)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error) -> None:
        self.over.set()
        self.thread.join()


def children() -> list[int]:
    """All processes that this one started, directly or not, which run tasks."""
    found, todo = [], [os.getpid()]
    while todo:
        pid = todo.pop()
        try:
            threads = Path(f"/proc/{pid}/task").glob("*/children")
            below = [int(one) for thread in threads for one in thread.read_text().split()]
        except OSError:
            continue
        found, todo = found + below, todo + below
    return found


def told(name: str, found: ShardedAudit, wall: float, cpu: float, peaks: list[float]) -> None:
    low, high = found.interval
    memory = ", ".join(f"{peak:,.0f}" for peak in sorted(peaks, reverse=True)[:4])
    print(
        f"{name}: {wall:.1f} s, {cpu:.1f} CPU s, largest memory {memory} MB; {found.pairs:,} pairs, rate "
        f"{found.noise_rate:.5f} ({low:.5f} to {high:.5f}), {found.flagged:,} flagged",
        flush=True,
    )


def single(options: argparse.Namespace) -> ShardedAudit:
    start, before = time.perf_counter(), time.process_time()
    parts = partitions(options.pairs, options.width)
    found = audit_shards(parts, fit=options.fit, config=FitConfig(steps=options.steps), out=options.out)
    told("one process", found, time.perf_counter() - start, time.process_time() - before, [status(os.getpid())[1]])
    return found


def cluster(options: argparse.Namespace) -> ShardedAudit:
    with connected(workers=options.workers) as client, Watch() as watch:
        client.run(warm)  # imports are not what is measured
        before = {pid: status(pid)[0] for pid in children()}
        start, own = time.perf_counter(), time.process_time()
        deadly = Path(tempfile.mkdtemp()) / "killed" if options.kill else None
        parts = partitions(options.pairs, options.width, deadly)
        recipe = FitConfig(steps=options.steps)
        found = audit_shards(parts, client=client, fit=options.fit, config=recipe, out=options.out, force=True)
        assert deadly is None or deadly.exists()
        wall = time.perf_counter() - start
        time.sleep(3)  # one more look
        cpu = sum(seconds - before.get(pid, 0.0) for pid, (seconds, _) in watch.seen.items())
        peaks = [peak for _, peak in watch.seen.values()]
        client_cpu = time.process_time() - own
        name = f"{options.workers} workers" + (", one killed" if options.kill else "")
        told(name, found, wall, cpu + client_cpu, [*peaks, status(os.getpid())[1]])
        print(f"of which the client and scheduler {client_cpu:.1f} CPU s, {status(os.getpid())[1]:,.0f} MB")
    return found


def warm() -> None:
    import rince.audit.fit.cross_fit
    import rince.audit.shards.run  # noqa: F401


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20_000_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill", action="store_true", help="kill one worker on the way")
    parser.add_argument("--no-single", action="store_true", help="the cluster alone")
    parser.add_argument("--fit", action="store_true", help="by towers instead of the cosine")
    parser.add_argument("--steps", type=int, help="of the towers, instead of up to 2,000; memory is the same")
    parser.add_argument("--no-cluster", action="store_true")
    parser.add_argument("--out", default=None, help="write the table there")
    options = parser.parse_args()
    if not options.no_single:
        single(options)
    if not options.no_cluster:
        cluster(options)


if __name__ == "__main__":
    main()
