"""Texts of ``rince train --help`` and ``rince finetune --help``. They need neither torch nor Lightning."""

import textwrap

from rince.train.short_names import PARTS, configs_for, known_classes, summary

OPTIONS = {
    "config": "A YAML file with any of the options below.",
    "name": "Name of the run; the configuration's by default.",
    "out": "Folder of all runs.",
    "seed": "Seed of all random numbers but the noise.",
    "checkpoint_every": "Steps between two checkpoints.",
    "probe": "Train a linear probe alongside, and log its accuracy.",
    "trust": "Weights of pairs: a table, such as an audit's, or auto or copies to estimate them.",
}
FINETUNE_OPTIONS = {
    "tower": "For a cross-modal run: the encoder a or b.",
    "linear": "Keep the encoder frozen in all epochs.",
    "from_scratch": "Start from random weights, and train all of them in all epochs.",
    "splits": "Splits of the data, such as 1 2 3: results of each, and their mean.",
}
PART_HELP = {
    "method": "How views, encoder and loss are combined.",
    "encoder": "Maps a view to features.",
    "loss": "The loss to minimize.",
    "views": "Make two views of a batch.",
    "data": "The training data.",
    "optimizer": "The optimizer.",
    "noise": "Noise that is added on purpose: --data.noise CLASS, --views.noise CLASS.",
}
TRAINER = {
    "max_epochs": "Number of epochs.",
    "accelerator": "cpu, gpu, mps or auto.",
    "devices": "Number of devices; data.batch_size is divided among them.",
    "num_nodes": "Number of machines.",
    "precision": "32-true, bf16-mixed, 16-mixed or 64-true.",
    "accumulate_grad_batches": "Batches whose gradients are accumulated for a step.",
    "gradient_clip_val": "Largest norm of the gradient.",
    "sync_batchnorm": "Batch norm over all devices (GPUs).",
    "limit_train_batches": "Batches, or a share of them, that make an epoch.",
    "log_every_n_steps": "Steps between two lines of metrics.csv.",
    "logger": "true for TensorBoard's files in the run folder, or a logger of Lightning.",
    "enable_progress_bar": "true or false; by default on a terminal only.",
    "callbacks+": "A callback of Lightning, your own, or PairMonitor, which estimates wrong pairs.",
}
TEXTS = {
    "train": """usage: rince train CONFIG [--OPTION VALUE ...]

Train an encoder. The same command again resumes an unfinished run. CONFIG is your own YAML file, or one that comes
with rince (rince train --list), such as digits/simclr. Options override it.

  rince train digits/simclr                               train
  rince train digits/simclr --loss.q 0.5 --name q-0.5     with other options
  rince train digits/simclr --print-config > mine.yaml    all options and their values, to start your own from
  rince train --loss.help RINCE                           the options of a class, explained
""",
    "finetune": """usage: rince finetune RUN [CONFIG] [--OPTION VALUE ...]

Fine-tune the encoder of RUN (its folder, or a file written by rince export) on labeled data and test it. Views and
data are those of the run unless CONFIG, your own YAML file or one that comes with rince (rince finetune --list),
says otherwise. First only the classifier learns (--method.head_epochs), then everything; scores of several clips of
one video are averaged. The same command again resumes an unfinished run. Results go to RUN/NAME/.

  rince finetune runs/digits-simclr                       on the labels of the run's own data
  rince finetune runs/kinetics400-rince ucf101/finetune --data.root DIR --splits 1 2 3
  rince finetune runs/digits-simclr --print-config        all options and their values
  rince train --method.help FineTune                      the options of a class, explained
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
    lines += ["", "parts of a run: a class of rince by its name or any class by its import path, then its options,"]
    lines += ["as in --loss RINCE --loss.q 0.5"]
    for part in (*PARTS, "noise"):
        classes = {name: path for name, path in known_classes()[part].items() if path.startswith("rince")}
        lines += ["", f"--{part} CLASS  {PART_HELP[part]}" if part in PARTS else f"noise  {PART_HELP[part]}"]
        lines += _rows({name: summary(path) for name, path in classes.items()})
        if part == "optimizer":
            lines.append("  and any class of torch.optim, such as torch.optim.Adam")
    lines += ["", "trainer: arguments of Lightning's Trainer; the most common are"]
    lines += _rows({f"--trainer.{name}": text for name, text in TRAINER.items()})
    return "\n".join(lines) + "\n"


def list_text(command: str) -> str:
    """The configurations that come with rince for ``train`` or ``finetune``."""
    run = "RUN " if command == "finetune" else ""
    title = f"configurations for rince {command} that come with rince:"
    usage = f"rince {command} {run}NAME --print-config shows one with all its options."
    return "\n".join([title, *_rows(configs_for(command)), usage])


def _rows(texts: dict[str, str]) -> list[str]:
    width = max(map(len, texts))
    return [
        f"  {name:<{width}}  {textwrap.shorten(text, 116 - width, placeholder=' ...')}" for name, text in texts.items()
    ]
