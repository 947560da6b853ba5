"""Images in one folder per class: train SimCLR, evaluate the features, load the encoder.

    python examples/image_folder.py      under a minute; pip install 'rince[train]'

The script first writes a folder of small images; set ``ROOT`` to your own instead.
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits

import rince
from rince.cli import main as run

ROOT = Path("images")
digits = load_digits()
for i, (pixels, label) in enumerate(zip(digits.images[:600], digits.target[:600], strict=True)):
    folder = ROOT / ("train" if i < 500 else "val") / str(label)
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray((15 * pixels).astype(np.uint8)).convert("RGB").resize((16, 16)).save(folder / f"{i}.png")

# The same as on the command line: rince train --data ImageFolder --data.root images ...
options = {
    "--name": "images",
    "--data": "ImageFolder",
    "--data.root": str(ROOT),
    "--data.size": "16",
    "--data.batch_size": "100",
    "--data.workers": "0",
    "--views": "SimCLRViews",
    "--views.size": "16",
    "--loss": "InfoNCE",
    "--loss.temperature": "0.2",
    "--encoder.width": "16",
    "--trainer.max_epochs": "3",
    "--trainer.accelerator": "cpu",
    "--trainer.enable_progress_bar": "false",
}
if run(["train", *(word for pair in options.items() for word in pair)]) != 0:
    raise SystemExit("training failed")
run(["evaluate", "runs/images", "--k", "20"])

encoder = rince.load_encoder("runs/images")  # needs neither Lightning nor the data
print("features of a batch:", tuple(encoder(torch.rand(4, 3, 16, 16)).shape))
