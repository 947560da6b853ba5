"""Training on pairs that are streamed from WebDataset tars: reading rate beside webdataset, and a killed run.

    python benchmarks/streams.py --tars 'flickr8k-*.tar' --parts read     reading rate, beside the package webdataset
    python benchmarks/streams.py --tars 'flickr8k-*.tar' --parts kill     two processes, killed and resumed

Without --tars, seven tars of generated pictures and captions are read. Reading rates are pairs per CPU second, with the
same decoding (pictures of 32 x 32 pixels, counts of hashed words) and the same shuffle buffer, in alternating rounds.
The killed run must end with the encoder of an uninterrupted one, bit for bit.
"""

import argparse
import glob
import hashlib
import importlib.util
import io
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from rince.audit.encode.encoders import pixels
from rince.audit.encode.run import decode_image
from rince.trust import StreamedPairs
from rince.trust.streamed_pairs import StreamLoader, word_counts

CONFIG = """
method: {{class_path: CrossModal, init_args: {{width: 32, hidden: 64}}}}
encoder:
  class_path: Towers
  init_args:
    a: {{class_path: ConvNet, init_args: {{width: 4}}}}
    b: {{class_path: MLP, init_args: {{widths: [{words}, 64]}}}}
loss: {{class_path: GCE}}
views:
  class_path: PairViews
  init_args: {{a: {{class_path: Unchanged, init_args: {{mean: 127, std: 64}}}}, b: {{class_path: Unchanged}}}}
optimizer: {{class_path: Adam, init_args: {{lr: 0.001}}}}
data:
  class_path: StreamedPairs
  init_args: {{a: "{tars}:jpg", b: "{tars}:txt", batch_size: 128, shuffle: {shuffle}, image_size: 32, words: {words}}}
trainer: {{max_epochs: {epochs}, accelerator: cpu, devices: {devices}, strategy: ddp}}
checkpoint_every: 5
"""
SHUFFLE, WORDS, SIDE = 1000, 1024, 32


def generate(folder: Path, pairs: int) -> str:
    from PIL import Image

    random = np.random.default_rng(0)
    for number, rows in enumerate(np.array_split(np.arange(pairs), 7)):
        with tarfile.open(folder / f"{number}.tar", "w") as archive:
            for row in rows.tolist():
                file = io.BytesIO()
                colors = random.integers(0, 255, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(colors).resize((112, 112)).save(file, "JPEG")
                text = " ".join(f"word{k}" for k in random.integers(0, 500, 10))
                for field, content in (("jpg", file.getvalue()), ("txt", text.encode())):
                    entry = tarfile.TarInfo(f"{row:08d}.{field}")
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))
    return f"{folder}/*.tar"


def timed(make: Callable[[str], Any], tars: str) -> tuple[int, float]:
    """Pairs read, and CPU seconds, those of opening the tars included."""
    start, pairs = time.process_time(), 0
    for batch in make(tars):
        pairs += len(batch[0])
    return pairs, time.process_time() - start


def streamed(tars: str) -> Any:
    data = StreamedPairs(f"{tars}:jpg", f"{tars}:txt", batch_size=128, image_size=SIDE, words=WORDS)
    stream = data.stream("train")
    stream.shuffle = SHUFFLE
    return StreamLoader(stream, 128, 0, data.collate(stream), lambda: 0, 1.0)


def webdataset(tars: str) -> Any:
    """The same items by the package webdataset."""
    import torch
    import webdataset as wds

    def decode(sample: tuple[bytes, bytes]) -> tuple[Any, str]:
        return decode_image(sample[0], "picture"), sample[1].decode()

    def collate(samples: list[tuple[Any, str]]) -> tuple[Any, Any]:
        texts = np.stack([word_counts(text, WORDS) for _, text in samples])
        return pixels([picture for picture, _ in samples], SIDE), torch.from_numpy(texts)

    files = sorted(glob.glob(tars))
    samples = wds.WebDataset(files, shardshuffle=len(files), seed=0).shuffle(SHUFFLE).to_tuple("jpg", "txt")
    return DataLoader(samples.map(decode), batch_size=128, collate_fn=collate, drop_last=True)


def read(tars: str, rounds: int) -> None:
    kinds = {"rince": streamed}
    if importlib.util.find_spec("webdataset") is None:
        print("webdataset is not installed: rince alone")
    else:
        kinds["webdataset"] = webdataset
    rates: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, make in kinds.items():
            pairs, seconds = timed(make, tars)
            rates[name].append(pairs / seconds)
    for name, found in rates.items():
        print(f"{name}: {np.median(found):,.0f} pairs per CPU second ({min(found):,.0f} to {max(found):,.0f})")


def train(folder: Path, name: str, kill: bool = False) -> float:
    """A run on two processes; ``kill`` ends all of them once a checkpoint is there."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "rince", "train", str(folder / "run.yaml"), "--name", name, "--out", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None:
        if kill and any((folder / name).glob("**/last.ckpt")):
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.1)
    process.wait()
    print(f"{name}: exit code {process.returncode} after {time.perf_counter() - start:.0f} s", flush=True)
    return process.returncode


def killed(folder: Path, tars: str, epochs: int, devices: int) -> None:
    config = CONFIG.format(tars=tars, shuffle=SHUFFLE, words=WORDS, epochs=epochs, devices=devices)
    (folder / "run.yaml").write_text(config)
    train(folder, "stopped", kill=True)
    train(folder, "stopped")
    train(folder, "whole")
    codes = []
    for name in ("stopped", "whole"):
        codes.append(hashlib.sha256((folder / name / "encoder.safetensors").read_bytes()).hexdigest()[:16])
        print(f"{name}: encoder {codes[-1]}")
    print("equal bits" if codes[0] == codes[1] else "BITS DIFFER")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tars", help="pattern of tars with jpg and txt")
    parser.add_argument("--pairs", type=int, default=6000, help="of generated tars")
    parser.add_argument("--parts", nargs="+", default=["read", "kill"], choices=("read", "kill"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--devices", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        tars = options.tars or generate(Path(place), options.pairs)
        if "read" in options.parts:
            read(tars, options.rounds)
        if "kill" in options.parts:
            killed(Path(place), tars, options.epochs, options.devices)


if __name__ == "__main__":
    main()
