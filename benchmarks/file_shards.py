"""`rince audit` and `rince clean` on many pairs in .npy shards: one process, Dask workers, killed processes.

    python benchmarks/file_shards.py --pairs 10000000 --shards 100
    python benchmarks/file_shards.py --pairs 1000000 --shards 100 --folder /scratch/pairs --steps workers kill-worker

Pairs are generated, 64 float16 numbers per side, 20 % of them wrong. Every step runs the commands as a user does, in
processes of their own, and prints wall time, CPU seconds, and the largest memory of the client and of a worker. All
steps must give the same clean files, and the same table of all pairs. With ``--folder``, the pairs and the results of
steps are kept there, so that further steps can follow, and a step that was stopped continues.
"""

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from process_status import cpu_seconds, peak_megabytes

from rince.pairs.columns import number_batches
from rince.pairs.source import source

WRONG = 0.2
STEPS = ("one", "workers", "kill-worker", "kill-client", "kill-both")


class Cost(NamedTuple):
    wall: float
    cpu: float
    client: float
    worker: float
    code: int

    def __str__(self) -> str:
        memory = f"{self.client:,.0f} MB" + (f" (worker {self.worker:,.0f} MB)" if self.worker else "")
        return f"{self.wall:.0f} s, {self.cpu:.0f} CPU s, {memory}"


def generate(folder: Path, pairs: int, shards: int, width: int) -> None:
    for side in "ab":
        (folder / side).mkdir(parents=True)
    for number, rows in enumerate(np.array_split(np.arange(pairs), shards)):
        random = np.random.default_rng(number)
        a = random.standard_normal((len(rows), width), dtype=np.float32)
        b = 1.5 * random.standard_normal(a.shape, dtype=np.float32)
        right = random.random(len(rows)) >= WRONG
        b[right] += a[right]
        for side, x in (("a", a), ("b", b)):
            np.save(folder / side / f"{number:04d}.npy", x.astype(np.float16))


def below(pid: int) -> list[int]:
    """All processes that a process has started, directly or not."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").glob("*/children"):
            for one in thread.read_text().split():
                found += [int(one), *below(int(one))]
    return found


def run(arguments: list[str], kill: str = "", after: float = 0.0) -> Cost:
    """Run a command of rince; ``kill`` a "worker" or the "client" after so many seconds of its work."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "rince", *arguments], stdout=subprocess.DEVNULL)
    cpu: dict[int, float] = {}
    peak: dict[int, float] = {}
    killed = not kill
    while process.poll() is None:
        children = below(process.pid)
        for pid in [process.pid, *children]:
            with contextlib.suppress(OSError, IndexError):
                cpu[pid], peak[pid] = cpu_seconds(pid), peak_megabytes(pid)
        busy = sorted(children, key=lambda pid: cpu.get(pid, 0.0))
        if not killed and busy and cpu.get(busy[-1], 0.0) > after:
            os.kill(busy[-1] if kill == "worker" else process.pid, signal.SIGKILL)
            killed = True
        time.sleep(0.2)
    for pid in below(process.pid):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    if not killed:
        raise SystemExit(f"the command ended before its {kill} could be killed: use more pairs")
    workers = [value for pid, value in peak.items() if pid != process.pid]
    wall = time.perf_counter() - start
    return Cost(wall, sum(cpu.values()), peak[process.pid], max(workers, default=0.0), process.returncode)


def digest(clean: Path, audit: Path) -> str:
    """A code of all clean files, which must hold the rows that are not flagged, and one of the table of the audit."""
    files, table, flags = hashlib.sha256(), hashlib.sha256(), []
    for batch in number_batches(source(str(audit / "audit.parquet:id,score,p_wrong,flagged"))):
        table.update(batch.tobytes())
        flags.append(batch[:, 3] == 1)
    for side in "ab":
        flagged, start = np.concatenate(flags), 0
        for file in sorted((clean.parent / side).glob("*.npy")):
            rows = np.load(file)
            kept = np.load(clean / side / file.name)
            if not np.array_equal(kept, rows[~flagged[start : start + len(rows)]]):
                raise SystemExit(f"{clean / side / file.name} is not what the audit says")
            start += len(rows)
            files.update(kept.tobytes())
    return f"files {files.hexdigest()[:12]}, table {table.hexdigest()[:12]}"


def told(step: str, folder: Path, options: argparse.Namespace, kill: str = "") -> str:
    """Audit and clean; what both cost, and what must be the same for every step."""
    columns = [str(folder / "a" / "*.npy"), str(folder / "b" / "*.npy")]
    audit, clean = options.audit or folder / f"audit-{step}", folder / f"clean-{step}"
    several = ["--table", "parquet"] if step == "one" else ["--workers", str(options.workers)]
    commands = {
        "audit": (["audit", *columns, "--out", str(audit), *several, "--quiet"], audit),
        "clean": (["clean", *columns, "--audit", str(audit), "--out", str(clean), *several[-2:]], clean),
    }
    if step == "one":
        commands["clean"] = (commands["clean"][0][:-2], clean)
    for name, (arguments, out) in commands.items():
        if (out / f"{name}.json").exists():  # of an earlier call that was stopped
            continue
        for killed in {"": [""], "worker": ["worker"], "client": ["client", ""], "both": ["client", "worker"]}[kill]:
            cost = run(arguments, killed, options.after)
            print(f"{step}, {name}{killed and f', {killed} killed'}: {cost}, exit code {cost.code}", flush=True)
            if killed == "client":
                files = [file for file in out.rglob("*") if file.is_file()] if out.exists() else []
                print(f"{step}, {name}: {len(files)} files in {out.name} after the kill", flush=True)
    record = json.loads((audit / "audit.json").read_text())
    kept = json.loads((clean / "clean.json").read_text())["kept"]
    low, high = record["interval"]
    same = f"rate {record['noise_rate']:.5f} ({low:.5f} to {high:.5f}), {record['flagged']:,} flagged, {kept:,} kept"
    same = f"{same}, {digest(clean, audit)}"
    shutil.rmtree(clean)
    if not options.audit:
        shutil.rmtree(audit)
    return same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--shards", type=int, default=100)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", nargs="+", default=list(STEPS[:4]), choices=STEPS)
    parser.add_argument("--after", type=float, default=10.0, help="CPU seconds of a worker before something is killed")
    parser.add_argument("--audit", type=Path, help="clean by this audit; no other is made")
    parser.add_argument("--folder", type=Path, help="keep the pairs and the results of steps here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = options.folder or Path(place)
        results = folder / "results.json"
        if not results.exists():
            generate(folder, options.pairs, options.shards, options.width)
            results.write_text("{}")
        found = json.loads(results.read_text())
        for step in options.steps:
            kill = step.removeprefix("kill-") if step.startswith("kill-") else ""
            found[step] = told(step, folder, options, kill)
            results.write_text(json.dumps(found))
            print(f"{step}: {found[step]}", flush=True)
        print(f"{', '.join(found)} gave the same" if len(set(found.values())) == 1 else "STEPS DIFFER")


if __name__ == "__main__":
    main()
