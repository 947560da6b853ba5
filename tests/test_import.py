import subprocess
import sys
from pathlib import Path

import numpy as np

import rince


def test_public_names_resolve_and_are_listed():
    for name in rince.__all__:
        assert getattr(rince, name).__name__ == name
        assert name in dir(rince)


def test_every_package_is_an_attribute_of_rince():
    """Also torch comes only with those that need it."""
    code = (
        "import sys, rince; rince.noise, rince.data, rince.methods, rince.train, rince.views, rince.encoders;"
        "assert 'torch' not in sys.modules;"
        "assert rince.optimizers.LARS and rince.encoders.save_encoder and rince.noise.wrong_pairs"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    for path in (Path(rince.__file__).parent).iterdir():
        # Private rooms and the subcommands are no part of the library.
        if (path / "__init__.py").exists() and path.name != "commands" and not path.name.startswith("_"):
            assert getattr(rince, path.name).__name__ == f"rince.{path.name}"


def test_an_audit_of_two_arrays_imports_no_torch(tmp_path):
    random = np.random.default_rng(0)
    a = random.normal(size=(200, 8)).astype(np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", a + 0.1 * random.normal(size=a.shape))
    code = (
        "import sys; from rince.cli import main;"
        "assert main(['audit', 'a.npy', 'b.npy', '--out', 'out', '--quiet']) == 0;"
        "assert main(['clean', 'a.npy', 'b.npy', '--audit', 'out', '--out', 'clean']) == 0;"
        "print([name for name in ('torch', 'scipy', 'pandas', 'pyarrow') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"


def test_the_core_imports_torch_and_numpy_only():
    """import rince and its losses must work without any extra."""
    code = (
        "import sys; before = set(sys.modules); import torch, numpy; base = set(sys.modules) | before;"
        "import rince; rince.RINCE(), rince.losses.schedules, rince.losses.objectives;"
        "new = {m.split('.')[0] for m in set(sys.modules) - base} - set(sys.stdlib_module_names);"
        "print(sorted(new - {'rince', 'torch', 'numpy', 'typing_extensions', 'sympy', 'mpmath', 'networkx'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
