"""requirements.lock is what constraints.txt says, with hashes, and tells nothing of the machine it was made on."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = (ROOT / "requirements.lock").read_text()
LEFT_OUT = {"torch"}  # its builds differ by machine, and in their hashes
# Only what `make test-peers` compares with; some of them want a newer Python than rince.
PEERS = {"accelerate", "datasets", "pytorch-metric-learning", "sentence-transformers", "transformers"}
PEERS |= {"onnx", "onnxruntime", "onnxscript", "tensorboard", "wandb"}
PEERS |= {"lightly", "open-clip-torch", "pygcl"}
TOOLS = {"uv", "cyclonedx-bom", "pip-audit"}


def locked():
    """Name and version of every entry, and its hashes."""
    entries = re.split(r"\n(?=[a-zA-Z])", re.sub(r"^#.*\n", "", LOCK, flags=re.MULTILINE).strip())
    for entry in entries:
        name, version = re.match(r"([\w.-]+)==([\w.]+)", entry).groups()
        yield name.lower(), version, re.findall(r"--hash=sha256:[0-9a-f]{64}", entry)


def test_every_entry_has_hashes_and_nothing_names_an_index_or_a_path():
    entries = list(locked())
    assert len(entries) > 100 and all(hashes for _, _, hashes in entries)
    assert not re.search(r"://|--(?!hash)|\s@\s|(^|\s)/", LOCK)


def test_the_lock_holds_the_versions_of_the_constraints():
    versions = {(name, version) for name, version, _ in locked()}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if found := re.match(r"([\w.-]+)==([\w.]+)", line):
            name, version = found[1].lower().replace("_", "-"), found[2]
            if name not in TOOLS | LEFT_OUT | PEERS:
                assert (name, version) in versions, f"{line}: run `make lock`"


def test_the_lock_leaves_out_torch_and_what_only_its_cuda_builds_need():
    names = {name for name, _, _ in locked()}
    assert not {name for name in names if re.match(r"torch$|triton|nvidia|cuda", name)}
    assert {"torch-geometric", "torchmetrics", "lightning"} <= names
