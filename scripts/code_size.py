"""Count lines of code, without blank lines, comments and docstrings, and the files that run in five typical flows.

python scripts/code_size.py                 # lines and files per package
python scripts/code_size.py --flows         # files of rince and experiments that run in each flow
"""

import argparse
import ast
import io
import runpy
import sys
import tempfile
import tokenize
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


def code_lines(path: Path) -> int:
    """Number of lines that hold code."""
    text = path.read_text("utf-8")
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            for statement in body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    docstrings.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SKIPPED and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def report_sizes(folder: Path) -> None:
    """Print lines and files per package of a folder, and in total."""
    sizes: dict[str, list[int]] = {}
    for path in sorted(folder.rglob("*.py")):
        package = path.relative_to(folder).parts[0].removesuffix(".py")
        sizes.setdefault(package, []).append(code_lines(path))
    for package, lines in sizes.items():
        print(f"{package:16} {sum(lines):6} lines {len(lines):4} files")
    total = [count for lines in sizes.values() for count in lines]
    print(f"{folder.name:16} {sum(total):6} lines {len(total):4} files")


def traced_files(function: Callable[[], object], folders: list[Path]) -> int:
    """Number of files below some folders with functions that run during a call."""
    files: set[str] = set()

    def profile(frame: object, event: str, argument: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_name != "<module>":
            files.add(code.co_filename)

    sys.setprofile(profile)
    try:
        function()
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
    return len({name for name in files if name.startswith(tuple(map(str, folders)))})


def command(module: str, *arguments: str) -> Callable[[], object]:
    """Call of ``python -m MODULE ARGUMENTS`` in this process."""

    def run() -> None:
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__")

    return run


def loss_backward() -> None:
    import torch

    import rince

    a, b = torch.randn(2, 64, 32, requires_grad=True)
    rince.RINCE()(a, b).backward()


def report_flows() -> None:
    """Print the number of files that run in each flow."""
    import os

    import numpy as np

    import rince

    sys.path.insert(0, str(ROOT))
    folders = [Path(rince.__file__).parent, ROOT / "experiments"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        random = np.random.default_rng(0)
        a = random.normal(size=(400, 8))
        b = a + 0.3 * random.normal(size=a.shape)
        np.save("a.npy", a)
        np.save("b.npy", b)
        np.savez("pairs.npz", a=a.astype("float32"), b=b.astype("float32"))
        short = ("--trainer.max_epochs", "1", "--trainer.enable_progress_bar", "false")
        little = ("--losses", "infonce", "--rates", "0.4", "--temperatures", "0.2", "--seeds", "1", "--epochs", "1")
        flows = {
            "loss backward": loss_backward,
            "audit --fit": command("rince", "audit", "a.npy", "b.npy", "--fit"),
            "train digits/simclr": command("rince", "train", "digits/simclr", *short),
            "train --trust auto": command("rince", "train", "pairs.yaml", "--trust", "auto", *short),
            "experiments compare": command("experiments", "compare", "digits", *little, "--workers", "1"),
        }
        Path("pairs.yaml").write_text(PAIRS)
        for name, function in flows.items():
            count = 0
            for _ in range(2):  # the first call also imports modules
                os.chdir(tempfile.mkdtemp(dir=folder))
                for file in ("a.npy", "b.npy", "pairs.npz", "pairs.yaml"):
                    Path(file).symlink_to(Path(folder, file))
                count = traced_files(function, folders)
            print(f"{name:20} {count:4} files", flush=True)


PAIRS = """
method: {class_path: CrossModal, init_args: {hidden: 16, width: 8}}
encoder:
  class_path: Towers
  init_args:
    a: {class_path: MLP, init_args: {widths: [8, 16]}}
    b: {class_path: MLP, init_args: {widths: [8, 16]}}
views:
  class_path: PairViews
  init_args: {a: {class_path: Unchanged}, b: {class_path: Unchanged}}
loss: {class_path: GCE}
data: {class_path: PairedArrays, init_args: {path: pairs.npz, batch_size: 50}}
"""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[ROOT / "src" / "rince"])
    parser.add_argument("--flows", action="store_true", help="count the files that run in typical flows")
    options = parser.parse_args()
    if options.flows:
        report_flows()
    else:
        for folder in options.folders:
            report_sizes(folder)
