"""Commands of rince in a Python in which some packages are not installed."""

import os
import sys


class Absent:
    def __init__(self, missing):
        self.missing = missing

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.missing:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)


def run(missing, commands, folder="."):
    """0 if every command ends as one does that a user has to mend."""
    assert not {name.split(".")[0] for name in sys.modules} & set(missing), "it has been imported already"
    os.chdir(folder)
    sys.meta_path.insert(0, Absent(missing))
    from rince.cli import main

    return int(any(main(command) != 2 for command in commands))
