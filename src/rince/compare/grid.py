"""A grid of runs, sequential or in several processes. Each result is a file, so finished runs are not repeated."""

import gc
import json
import os
import re
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, TypeVar

from rince._support.atomic_files import check_writable, write_text
from rince._support.progress import duration, note
from rince._support.signals import children_without_interrupts
from rince.errors import ExistingFile, MissingFile, UsageError

REPORTS = ("results.csv", "table.md", "summary.json", "comparison.html", "figure.png")
Run = Mapping[str, Any]  # the settings of one run, plain values only
Result = dict[str, Any]
Item = TypeVar("Item")
Output = TypeVar("Output")


def run_grid(
    runs: Sequence[Run],
    work: Callable[[Run], Result],
    folder: Path,
    name: Callable[[Run], str],
    workers: int = 1,
    say: Callable[[str], None] = note,
) -> list[Result]:
    """Results of ``work`` for all runs, in their order. Each is written to ``folder/NAME.json`` when it is done.

    Runs are started in the given order. ``work`` must be importable, because other processes call it.
    """
    paths = _paths(runs, folder, name)
    if not folder.exists():
        check_no_report(folder.parent, "the report on these runs")
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder)
    done = {i: result for i, run in enumerate(runs) if (result := _finished(paths[i], run)) is not None}
    if done:
        say(f"{len(done)} of {len(runs)} runs are already finished in {folder}")
    pending = [i for i in range(len(runs)) if i not in done]
    start = time.monotonic()
    for i, result, seconds in work_off([(i, runs[i]) for i in pending], work, workers):
        done[i] = {"settings": dict(runs[i]), "seconds": seconds, **result}
        write_text(paths[i], json.dumps(done[i], indent=1) + "\n")
        left = _time_left(runs, done, workers, time.monotonic() - start)
        place = f"[{len(done):>{len(str(len(runs)))}}/{len(runs)}]"
        say(f"{place} {name(runs[i])}: {result.get('headline', 'done')}, {seconds:.0f} s{left}")
    return [done[i] for i in range(len(runs))]


def check_no_report(folder: Path, content: str) -> None:
    """Reject a folder that holds report files of something other than ``content``."""
    existing = [name for name in REPORTS if (folder / name).exists()]
    if existing:
        raise ExistingFile(f"{folder / existing[0]} exists and is not {content}: choose another --out")


def finished_runs(runs: Sequence[Run], folder: Path, name: Callable[[Run], str], needed: bool = True) -> list[Result]:
    """Results of the finished runs. Raises an error for none of them if ``needed``."""
    loaded = [_finished(path, run) for path, run in zip(_paths(runs, folder, name), runs, strict=True)]
    results = [result for result in loaded if result is not None]
    if needed and not results:
        raise MissingFile(f"none of the {len(runs)} runs is finished in {folder}")
    return results


def _paths(runs: Sequence[Run], folder: Path, name: Callable[[Run], str]) -> list[Path]:
    paths = [folder / (re.sub(r"[^\w.+-]+", "_", name(run)) + ".json") for run in runs]
    if len(set(paths)) != len(paths):
        raise UsageError("two runs of a grid have the same name")
    return paths


def _finished(path: Path, run: Run) -> Result | None:
    if not path.exists():
        return None
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        settings = result["settings"]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is not the result of a run ({error!r}): remove it to repeat the run") from error
    if settings != json.loads(json.dumps(dict(run))):
        other = sorted(key for key in {*settings, *run} if settings.get(key) != run.get(key))
        raise UsageError(f"{path} is from a run with different {', '.join(other)}: choose another --out")
    return result


def _time_left(runs: Sequence[Run], done: Mapping[int, Result], workers: int, passed: float) -> str:
    """Estimate by the mean time of finished runs on the same data set, if any, or of all."""
    left = [run.get("dataset") for i, run in enumerate(runs) if i not in done]
    if not left:
        return f"; all done in {duration(passed)}"
    seconds = [(runs[i].get("dataset"), float(result["seconds"])) for i, result in done.items()]
    means = {
        dataset: statistics.fmean([s for name, s in seconds if name == dataset] or [s for _, s in seconds])
        for dataset in {*left}
    }
    return f"; about {duration(sum(means[name] for name in left) / workers)} left"


def _timed(work: Callable[[Item], Output], item: Item) -> tuple[Output, float]:
    # A trainer and its model form a reference cycle. Python collects cycles only after many new objects, which would
    # keep about 20 finished runs in memory. Freezing the objects from before makes the collection quick.
    gc.freeze()
    try:
        start = time.monotonic()
        output = work(item), time.monotonic() - start
        gc.collect()
    finally:
        gc.unfreeze()
    return output


def _single_threaded() -> None:
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its children
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit when the parent was killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def work_off(
    todo: Sequence[tuple[int, Item]], work: Callable[[Item], Output], workers: int
) -> Iterator[tuple[int, Output, float]]:
    """Yield index, result and seconds of every item as it finishes, from ``workers`` processes with one thread each.

    With one worker the items run in this process, and ``work`` need not be importable.
    """
    if workers <= 1 or len(todo) <= 1:
        for i, item in todo:
            yield i, *_timed(work, item)
        return
    # The processes fill the cores; further threads would slow each other down.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_single_threaded)
    waiting = list(todo)
    running: dict[Future[tuple[Output, float]], int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:  # not all at once: less to cancel on an interrupt
                i, item = waiting.pop(0)
                with children_without_interrupts():  # the first call starts the processes
                    running[pool.submit(_timed, work, item)] = i
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                i = running.pop(future)
                yield i, *future.result()
    except BaseException:
        for process in list(getattr(pool, "_processes", {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
