"""The wheel and the sdist: their content, and the wheel in an environment with torch and numpy only."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import rince

ROOT = Path(__file__).parents[1]
pytest.importorskip("build")


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Wheel and sdist of the files tracked by git."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, tracked.decode().split("\0")):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def requirements(name: str, seen: set[str]) -> set[str]:
    """Add a distribution and its dependencies without extras to ``seen``."""
    if name in seen:
        return seen
    seen.add(name)
    for line in importlib.metadata.requires(name) or ():
        if "extra ==" in line:
            continue
        other = re.split(r"[\s;<>=!~\[(]", line)[0]
        try:
            importlib.metadata.distribution(other)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform or Python
        requirements(other, seen)
    return seen


@pytest.fixture(scope="module")
def bare(dist, tmp_path_factory):
    """Run Python in an environment with the wheel, torch, numpy and their dependencies only."""
    home = tmp_path_factory.mktemp("bare")
    for name in requirements("torch", requirements("numpy", set())):
        distribution = importlib.metadata.distribution(name)
        for top in {str(file).split("/")[0] for file in distribution.files or () if not str(file).startswith("..")}:
            place = Path(str(distribution.locate_file(top)))
            if place.exists() and not (home / top).exists():
                (home / top).symlink_to(place)
    with zipfile.ZipFile(dist[0]) as wheel:
        wheel.extractall(home)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(home), "HOME": str(home)}
        return subprocess.run(
            [sys.executable, "-S", *arguments], capture_output=True, text=True, env=environment, cwd=home, timeout=120
        )

    return run


def test_command_and_loss_need_torch_and_numpy_only(bare):
    result = bare("-m", "rince", "--help")
    assert result.returncode == 0 and "rince COMMAND" in result.stdout, result.stderr
    code = (
        "import sys, torch, rince; assert 'site-packages' not in rince.__file__;"
        "z1, z2 = torch.randn(2, 8, 4, requires_grad=True); rince.RINCE()(z1, z2).backward(); print(rince.__version__)"
    )
    result = bare("-c", code)
    assert result.returncode == 0 and result.stdout.strip() == rince.__version__, result.stderr


def test_audit_of_arrays_needs_torch_and_numpy_only(bare):
    code = (
        "import numpy as np; from rince.audit import audit_pairs; r = np.random.default_rng(0);"
        "a = r.normal(size=(500, 8)); b = a + 0.2 * r.normal(size=a.shape); b[:100] = b[:100][::-1];"
        "print(audit_pairs(a, b).noise_rate)"
    )
    result = bare("-c", code)
    assert result.returncode == 0 and abs(float(result.stdout) - 0.2) < 0.05, result.stderr


@pytest.mark.parametrize(
    "command", ["train digits/simclr", "evaluate runs/x", "finetune runs/x", "export runs/x x.safetensors"]
)
def test_missing_extra_is_named_in_one_line(bare, command):
    bare("-c", "import pathlib; p = pathlib.Path('runs/x'); p.mkdir(parents=True, exist_ok=True); "
         "(p / 'config.yaml').write_text('seed: 1')")  # fmt: skip
    result = bare("-m", "rince", *command.split())
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.count("\n") == 1 and "pip install 'rince[train]'" in result.stderr, result.stderr


def test_wheel_has_the_package_only(dist):
    names = zipfile.ZipFile(dist[0]).namelist()
    assert "rince/py.typed" in names and "rince/configs/digits/simclr.yaml" in names
    assert {f"rince/report/{name}" for name in ("page.js", "page.css", "audit.html")} <= set(names)
    assert {name.split("/")[0] for name in names if not re.match(r"rince-[\w.]+\.dist-info", name)} == {"rince"}


def test_sdist_has_tests_and_documents(dist):
    with tarfile.open(dist[1]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    documents = {"README.md", "LICENSE", "CHANGELOG.md", "docs/losses.md", "notebooks/audit.ipynb"}
    assert documents | {"pyproject.toml", "tests/conftest.py"} <= names


def test_version_comes_from_the_package_and_has_a_changelog_section():
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text("utf-8")
    version = re.search(r'__version__ = "(.+?)"', (ROOT / "src/rince/__init__.py").read_text("utf-8"))
    assert version is not None and f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
