"""Texts of ``rince train --help`` and ``rince finetune --help``. They need neither torch nor Lightning."""

import textwrap

from rince.train.short_names import PARTS, configs_for, known_classes, summary

OPTIONS = {
    "config": "A YAML file with any of the options below.",
    "name": "Name of the run. Default: the name of the configuration.",
    "out": "Folder of all runs (runs).",
    "seed": "Random seed of everything except added noise.",
    "checkpoint_every": "Steps between checkpoints (100).",
    "probe": "Train a linear probe on the features during training, and log its accuracy (true).",
    "trust": "Weights of pairs: a table such as audit/audit.csv, or auto or copies to estimate them.",
}
FINETUNE_OPTIONS = {
    "tower": "Encoder of a cross-modal run: a or b.",
    "linear": "Train the classifier only.",
    "from_scratch": "Start from random weights, and train all of them from the first epoch.",
    "splits": "Splits of the data, such as 1 2 3: one run per split, and the mean.",
}
PART_HELP = {
    "method": "Training method.",
    "encoder": "Network from views to features.",
    "loss": "Loss.",
    "views": "Random views of a batch.",
    "data": "Training data.",
    "optimizer": "Optimizer.",
    "noise": "Synthetic noise: --data.noise CLASS, --views.noise CLASS.",
}
TRAINER = {
    "max_epochs": "Number of epochs.",
    "accelerator": "cpu, gpu, mps or auto.",
    "devices": "Number of devices; data.batch_size is divided among them.",
    "num_nodes": "Number of machines.",
    "precision": "32-true, bf16-mixed, 16-mixed or 64-true.",
    "accumulate_grad_batches": "Batches per optimizer step.",
    "gradient_clip_val": "Maximum norm of the gradient.",
    "sync_batchnorm": "Batch norm over all devices (GPUs).",
    "limit_train_batches": "Batches per epoch, as a number or a share.",
    "log_every_n_steps": "Steps between lines of metrics.csv.",
    "logger": "true for TensorBoard files in the run folder, or a Lightning logger.",
    "enable_progress_bar": "true or false. Default: on terminals only.",
    "callbacks+": "A Lightning callback, your own, or PairMonitor, which estimates the share of wrong pairs.",
}
TEXTS = {
    "train": """usage: rince train CONFIG [--OPTION VALUE ...]

Train an encoder. The same command resumes an interrupted run. CONFIG is a YAML file, or the name of a built-in
configuration such as digits/simclr (rince train --list). Options override it.

  rince train digits/simclr                               train
  rince train digits/simclr --loss.q 0.5 --name q-0.5     change options
  rince train digits/simclr --print-config > mine.yaml    write all options with their values to a file
  rince train --loss.help RINCE                           describe the options of a class
""",
    "finetune": """usage: rince finetune RUN [CONFIG] [--OPTION VALUE ...]

Fine-tune the encoder of RUN (a run folder, or a file written by rince export) on labels, and test it. CONFIG is a YAML
file, or the name of a built-in configuration (rince finetune --list). Views and data default to those of the run. The
classifier is trained first (--method.head_epochs), then all weights. The same command resumes an interrupted run.
Results are written to RUN/NAME/.

  rince finetune runs/digits-simclr                       on the labels of the data of the run
  rince finetune runs/kinetics400-rince ucf101/finetune --data.root DIR --splits 1 2 3
  rince finetune runs/digits-simclr --print-config        all options with their values
  rince train --method.help FineTune                      describe the options of a class
""",
}


def help_or_list(command: str, arguments: list[str]) -> str | None:
    """Text to print for ``--help`` or ``--list``; None if neither is among the arguments."""
    if any(word in ("-h", "--help") for word in arguments):
        return help_text(command)
    return list_text(command) if "--list" in arguments else None


def help_text(command: str) -> str:
    options = OPTIONS | (FINETUNE_OPTIONS if command == "finetune" else {})
    lines = [
        TEXTS[command],
        "options:",
        *_rows({f"--{name.replace('_', '-')}": text for name, text in options.items()}),
    ]
    lines += ["", "parts of a run: a class of rince by name, or any class by import path, and its options, such as"]
    lines += ["--loss RINCE --loss.q 0.5"]
    for part in (*PARTS, "noise"):
        classes = {name: path for name, path in known_classes()[part].items() if path.startswith("rince")}
        lines += ["", f"--{part} CLASS  {PART_HELP[part]}" if part in PARTS else f"noise  {PART_HELP[part]}"]
        lines += _rows({name: summary(path) for name, path in classes.items()})
        if part == "optimizer":
            lines.append("  and any class of torch.optim, such as torch.optim.Adam")
    lines += ["", "trainer: arguments of Lightning's Trainer, such as"]
    lines += _rows({f"--trainer.{name}": text for name, text in TRAINER.items()})
    return "\n".join(lines) + "\n"


def list_text(command: str) -> str:
    """Built-in configurations for ``train`` or ``finetune``."""
    run = "RUN " if command == "finetune" else ""
    title = f"built-in configurations for rince {command}:"
    usage = f"rince {command} {run}NAME --print-config prints all options of a configuration."
    return "\n".join([title, *_rows(configs_for(command)), usage])


def _rows(texts: dict[str, str]) -> list[str]:
    width = max(map(len, texts))
    return [
        f"  {name:<{width}}  {textwrap.shorten(text, 116 - width, placeholder=' ...')}" for name, text in texts.items()
    ]
