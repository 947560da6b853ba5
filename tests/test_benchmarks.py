"""Scripts in benchmarks/ and experiments/ use names that rince has, and benchmarks run in their smallest setting."""

import ast
import importlib
import importlib.util
import inspect
import io
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

FOLDER = Path(__file__).parents[1] / "benchmarks"
SOURCES = sorted([*FOLDER.rglob("*.py"), *(FOLDER.parent / "experiments").rglob("*.py")])
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text("utf-8"))


@pytest.fixture
def script(monkeypatch):
    """``script("loss")`` is benchmarks/loss.py as a module, found beside its neighbors as when it is started."""
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)

    def load(name):
        spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def run(script, monkeypatch, capsys):
    """Run a script's ``main`` with arguments and parts replaced; the result is what it printed."""

    def start(name, *arguments, **replaced):
        module = script(name)
        for part, value in replaced.items():
            monkeypatch.setattr(module, part, value)
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        assert not module.main()
        return capsys.readouterr().out

    return start


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_needs_no_peer(name, script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    for peer in ("sentence_transformers", "transformers", "datasets", "tokenizers", "lightly", "kornia", "cleanlab"):
        monkeypatch.setitem(sys.modules, peer, None)  # importing it fails, as where it is not installed
    with pytest.raises(SystemExit) as end:
        script(name).main()
    assert end.value.code == 0 and "usage:" in capsys.readouterr().out


# Names and keyword arguments, also in those lines that no test runs.


def resolved(module, name):
    try:
        return getattr(module, name)
    except AttributeError:
        return importlib.import_module(f"{module.__name__}.{name}")


def taken(module, name):
    """A name of a module of rince; None for an integration whose peer is not installed."""
    try:
        return resolved(importlib.import_module(module), name)
    except ImportError as error:
        if "this needs" not in str(error):
            raise
        return None


def imported(nodes):
    """What import statements among the nodes take from rince, by the name that it gets."""
    names = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "rince":
            names |= {alias.asname or alias.name: taken(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "rince":
                    importlib.import_module(alias.name)
                    names["rince"] = sys.modules["rince"]
    return names


def called(node, names):
    """The object of rince that a call names, or None where the call is of something else."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and inspect.ismodule(owner := called(node.value, names)):
        return getattr(owner, node.attr)
    return None


def unknown_keywords(call, function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return set()
    return {keyword.arg for keyword in call.keywords if keyword.arg} - {p.name for p in parameters}


def wrong_calls(text):
    body = ast.parse(text).body
    everywhere = imported(body)
    for part in body:  # a function may import names of its own
        names = everywhere | imported(ast.walk(part))
        for node in ast.walk(part):
            if isinstance(node, ast.Call) and callable(function := called(node.func, names)):
                for keyword in unknown_keywords(node, function):
                    yield f"line {node.lineno}: {function.__qualname__} has no argument {keyword!r}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(FOLDER.parent)))
def test_names_and_keyword_arguments_of_rince_exist(path):
    pytest.importorskip("torch_geometric")
    assert not list(wrong_calls(path.read_text("utf-8")))


def test_a_renamed_argument_would_be_found():
    text = "import rince\nfrom rince.noise.pairs import wrong_pairs as w\nrince.RINCE(q=1, tau=2)\nw(3, share=0.1)"
    assert len(list(wrong_calls(text))) == 2
    with pytest.raises(ImportError):
        list(wrong_calls("from rince.noise.pairs import right_pairs"))


# The smallest settings.


def test_audit_of_made_up_pairs(script, tmp_path):
    script("audit").made_up(tmp_path, 1200, width=4, step=500)
    a, b = (np.load(tmp_path / f"{x}.npy") for x in "ab")
    assert a.shape == b.shape == (1200, 4) and b.any(1).all()


def test_audit_of_partitions(run):
    out = run("audit_cluster", "--pairs", 3000, "--width", 16, "--no-cluster", ROWS=1000, BLOCK=500)
    assert "one process" in out and "3,000 pairs" in out


def test_cached(script, capsys):
    script("cached").one(32, True)
    assert float(capsys.readouterr().out) >= 0


def test_clean(run):
    sizes = ["--pairs", 400, "--width", 8, "--flagged", 20, "--candidates", 400]
    here = {"measured": lambda work, *given: print(work(*given))}  # without a process of its own
    assert "20 of 400 rows" in run("clean", *sizes, "--parts", "clean", "repair", **here)


def test_streams(run):
    pytest.importorskip("PIL")
    out = run("streams", "--pairs", 300, "--parts", "read", "--rounds", 1)
    assert "rince: " in out and "pairs per CPU second" in out


def test_generated_shards_are_the_same_every_time(script, tmp_path):
    for name in ("one", "other"):
        script("file_shards").generate(tmp_path / name, 60, 3, 4)
    one, other = ([np.load(file) for file in sorted((tmp_path / name / "a").glob("*"))] for name in ("one", "other"))
    assert [len(part) for part in one] == [20, 20, 20] and np.array_equal(one, other)


def test_clips(run, tmp_path):
    pytest.importorskip("av")
    from support.video.films import film

    film(tmp_path / "a.mp4", seconds=3.0)
    out = run("clips", "--root", tmp_path, "--clips", 1, "--rounds", 1, "--memory", 1)
    assert "decoder to arrays" in out and "memory over 1 clips" in out


def test_gpu(run, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)  # tests/losses/test_triton_kernel.py covers the kernel
    out = run("gpu", "--sizes", 20, "--width", 8, "--rounds", 1, "--no-compile")
    rows = [[cell.strip() for cell in line.split("|")] for line in out.splitlines() if line.startswith("| 20 ")]
    assert [row[2] for row in rows] == ["dense PyTorch", *(f"blocks, {p}" for p in ("highest", "tf32", "bfloat16"))]
    assert all(float(row[5]) < 1e-2 and float(row[6]) < 1e-2 for row in rows) and float(rows[1][6]) < 1e-5


def test_graph(script, run, tmp_path):
    path = script("kill_resume").random_graphs(tmp_path, count=40)
    out = run("graph", "--root", path, "--datasets", "RANDOM", "--parts", "epoch", "growth")
    assert "graph by graph" in out and "4x" in out


def test_settings_of_runs_that_are_killed(script):
    from rince.train.config import parse, train_parser

    module, parser = script("kill_resume"), train_parser()
    for method, options in module.OPTIONS.items():
        data = module.GRAPHS if method == "graph" else module.IMAGES
        assert parse(parser, [*options, *data, *module.COMMON, "--trainer.max_epochs", "1"]).data is not None


def test_long_run(script, tmp_path):
    module = script("long_run")
    assert module.short_run({"seed": 0, "q": 0.5}, str(tmp_path)).keys() == {"linear", "knn"}
    flat, growing = ([module.Sample(i, 100 + growth * i, i / 10) for i in range(1, 41)] for growth in (0, 1))
    assert not module.judge("flat", "step", flat)
    assert "memory changes" in module.judge("growing", "step", growing)[0]


def test_loss(script, run):
    ratio = script("loss").paired_ratio
    quick = {
        "peak_megabytes": lambda name, n: 1.0,
        "paired_ratio": lambda a, b, n, t=0.5, budget=0: ratio(a, b, n, t, 0),
    }
    out = run("loss", "--sizes", 256, "--memory-only", "--rounds", 1, **quick)
    assert "RINCE takes" in out and "published" in out
    assert "at t 0.05 takes" in run("loss", "--sizes", 64, "--ratios", **quick)


def test_loss_before_after(script, monkeypatch, capsys):
    module = script("loss_before_after")
    for name in module.LOSSES:
        monkeypatch.setattr(sys, "argv", ["-c", name, "16", "1"])
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
        exec(compile(module.CHILD, "child", "exec"), {})
        assert float(capsys.readouterr().out) >= 0


def test_peers(run):
    import rince

    peers = {"own": lambda: {"RINCE": (rince.RINCE(), rince.InfoNCE())}}
    out = run("peers", "--sizes", 16, "--repetitions", 1, 1, "--peers", "own", PEERS=peers, memory=lambda *_: 1.0)
    assert "| RINCE | 16 |" in out


def test_step(run):
    assert "everything else" in run("step", "--batch", 2, "--steps", 1)


def test_views(run):
    assert "Pillow" in run("views", "--images", 512, "--rounds", 1)
