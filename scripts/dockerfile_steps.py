"""Run the steps of the Dockerfile in a plain shell, for machines without a Docker engine.

python scripts/dockerfile_steps.py [--build-arg NAME=VALUE] [--python PYTHON] [COMMAND ...]

COPY copies into an empty folder, by the rules of .dockerignore as far as this Dockerfile needs them. RUN lines with
pip run in a new environment of PYTHON; the line that adds a user is left out. Then the entry point runs COMMAND (demo)
in an empty folder: as root, as another user, and with a read-only home.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOBODY = 65534


def instructions(text: str) -> list[tuple[str, str]]:
    """Instruction and arguments of every line; comments are left out, continued lines joined."""
    lines = re.sub(r"(?m)^\s*#.*\n", "", text).replace("\\\n", " ").splitlines()
    return [(line.split()[0].upper(), line.split(None, 1)[1]) for line in lines if line.strip()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("command", nargs="*", default=["demo"])
    options = parser.parse_args()
    given = dict(pair.split("=", 1) for pair in options.build_arg)
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        build, home, data = (Path(scratch, name) for name in ("build", "home", "data"))
        for folder in (build, home, data):
            folder.mkdir()
        subprocess.run([options.python, "-m", "venv", f"{scratch}/venv"], check=True)
        environment = {**os.environ, "PATH": f"{scratch}/venv/bin:{os.environ['PATH']}"}
        environment.pop("PYTHONPATH", None)
        entry: list[str] = []
        for instruction, rest in instructions((ROOT / "Dockerfile").read_text()):
            if instruction == "ARG":
                name, value = rest.split("=", 1)
                environment[name] = given.get(name, shlex.split(value)[0] if shlex.split(value) else "")
            elif instruction == "ENV":
                environment |= dict(pair.split("=", 1) for pair in shlex.split(rest))
            elif instruction == "COPY":
                *sources, target = rest.split()
                for source in sources:
                    if (ROOT / source).is_dir():
                        shutil.copytree(ROOT / source, build / target, ignore=shutil.ignore_patterns("__pycache__"))
                    else:
                        shutil.copy(ROOT / source, build / target)
            elif instruction == "RUN" and "useradd" not in rest:
                print(f"RUN {rest}", flush=True)
                subprocess.run(["sh", "-e", "-c", rest], cwd=build, env=environment, check=True)
            elif instruction == "ENTRYPOINT":
                entry = re.findall(r'"([^"]*)"', rest)
        home.chmod(0o555)
        user = {}
        if os.geteuid() == 0:
            os.chown(data, NOBODY, NOBODY)
            user = {"user": NOBODY, "group": NOBODY}
        environment["HOME"] = str(home)
        print(f"{' '.join([*entry, *options.command])}", flush=True)
        words = [f"{scratch}/venv/bin/{entry[0]}", *entry[1:], *options.command]
        return subprocess.run(words, cwd=data, env=environment, stdin=subprocess.DEVNULL, **user).returncode


if __name__ == "__main__":
    sys.exit(main())
