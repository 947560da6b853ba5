import subprocess
import sys

import rince


def test_public_names_resolve_and_are_listed():
    for name in rince.__all__:
        assert getattr(rince, name).__name__ == name
        assert name in dir(rince)


def test_the_core_imports_torch_and_numpy_only():
    """import rince and its losses must work without any extra."""
    code = (
        "import sys; before = set(sys.modules); import torch, numpy; base = set(sys.modules) | before;"
        "import rince; rince.RINCE(), rince.schedules, rince.objectives;"
        "new = {m.split('.')[0] for m in set(sys.modules) - base} - set(sys.stdlib_module_names);"
        "print(sorted(new - {'rince', 'torch', 'numpy', 'typing_extensions', 'sympy', 'mpmath', 'networkx'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
