"""``rince reproduce``: lists the experiments, or runs one."""

import difflib
import importlib

from rince.errors import UsageError

EXPERIMENTS = {  # name: (module, one line for the list)
    "loss-curves": (
        "rince.reproduce.loss_curves",
        "loss and gradient against the score of the positive, for several q: the paper's figure; no training",
    ),
    "noise-theory": (
        "rince.reproduce.noise_theory",
        "what noise does to RINCE's bound, exactly, simulated and as printed in the paper; no training",
    ),
    "cifar10-label-noise": (
        "rince.reproduce.cifar10_label_noise",
        "CIFAR-10 with wrong labels on a small machine, one and several positives",
    ),
    "cifar10-augmentation-noise": (
        "rince.reproduce.cifar10_augmentation_noise",
        "CIFAR-10 with views that go too far on a small machine",
    ),
    "generated-video": (
        "rince.reproduce.generated_video",
        "clips and sounds of generated videos, then few labels: fine-tuned against from scratch and frozen features",
    ),
    "tudataset": (
        "rince.reproduce.tudataset",
        "graph classification after GraphCL with InfoNCE and RINCE: the paper's table on four data sets",
    ),
    "graph-perturbation": (
        "rince.reproduce.graph_perturbation",
        "accuracy on graphs as the views get rougher, 10 to 60 %: the paper's figure",
    ),
    "graph-wrong-pairs": (
        "rince.reproduce.graph_wrong_pairs",
        "graphs paired with a view of a stranger: what is still learnt, and whether the wrong pairs are found",
    ),
    "spoken-digits": (
        "rince.reproduce.spoken_digits",
        "images of digits and people saying them, some pairs wrong: who finds whom, and are the wrong pairs found",
    ),
}


def usage() -> str:
    width = max(map(len, EXPERIMENTS))
    rows = "\n".join(f"  {name:<{width}}  {help}" for name, (_, help) in EXPERIMENTS.items())
    return (
        "usage: rince reproduce EXPERIMENT [options]\n\n"
        f"experiments:\n{rows}\n\n"
        "An interrupted experiment goes on where it stopped when the same command is given again.\n"
        "`rince reproduce EXPERIMENT --help` lists its options."
    )


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0
    name = arguments[0]
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise UsageError(f"there is no experiment '{name}'{hint} (rince reproduce lists them)")
    return importlib.import_module(EXPERIMENTS[name][0]).main(arguments[1:])
