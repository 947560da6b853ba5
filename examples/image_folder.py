"""Images in one folder per class: train, look at the features, load the encoder elsewhere.

    python examples/image_folder.py      under a minute; pip install 'rince[train]'

The script makes a folder of small pictures first; point ``ROOT`` at your own instead.
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits

import rince
from rince.cli import main as run

ROOT = Path("pictures")
digits = load_digits()
for i, (pixels, label) in enumerate(zip(digits.images[:600], digits.target[:600], strict=True)):
    folder = ROOT / ("train" if i < 500 else "val") / str(label)
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray((15 * pixels).astype(np.uint8)).convert("RGB").resize((16, 16)).save(folder / f"{i}.png")

# The same as on the command line: rince train --data ImageFolder --data.root pictures ...
options = {
    "--name": "pictures",
    "--data": "ImageFolder",
    "--data.root": str(ROOT),
    "--data.size": "16",
    "--data.batch_size": "100",
    "--data.workers": "0",
    "--views": "SimCLRViews",
    "--views.size": "16",
    "--loss.q": "0.3",
    "--loss.scale": "unit",
    "--encoder.width": "16",
    "--trainer.max_epochs": "3",
    "--trainer.accelerator": "cpu",
    "--trainer.enable_progress_bar": "false",
}
if run(["train", *(word for pair in options.items() for word in pair)]) != 0:
    raise SystemExit("training failed")
run(["evaluate", "runs/pictures", "--k", "20"])

encoder = rince.load_encoder("runs/pictures")  # needs neither Lightning nor the data
print("features of a batch:", tuple(encoder(torch.rand(4, 3, 16, 16)).shape))
