"""A short fine-tuning on digits: its options, and data as a user's package would have them."""

import json

from rince.data.images import DigitImages

QUIET = [
    "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false",
]  # fmt: skip


PRETRAIN = [
    "--encoder.channels", "1", "--encoder.width", "4", "--encoder.norm", "group",
    "--method.hidden", "16", "--method.width", "8",
    "--views.size", "8", "--views.mean", "[0.3]", "--views.std", "[0.4]", "--views.jitter", "[0.4, 0.4, 0, 0]",
    "--data", "DigitImages", "--data.limit", "256", "--data.batch_size", "64", "--trainer.max_epochs", "1", *QUIET,
]  # fmt: skip


SHORT = ["--trainer.max_epochs", "3", "--trainer.log_every_n_steps", "1", "--method.head_epochs", "1", *QUIET]


class SplitDigits(DigitImages):
    """Digits with several official splits."""

    def __init__(self, split: int = 1, batch_size: int = 64, limit: int = 256):
        super().__init__(batch_size, limit=limit)
        self.split_number = split

    def read(self):
        parts = super().read()
        images, labels = parts["train"]
        return parts | {"train": (images.roll(self.split_number, 0), labels.roll(self.split_number))}


class NoLabels(DigitImages):
    def read(self):
        return {name: (images, 0 * labels) for name, (images, labels) in super().read().items()}


def result_of(folder):
    return json.loads((folder / "result.json").read_text())
