"""``python -m experiments``: list the experiments. ``python -m experiments NAME [options]``: run one."""

import difflib
import importlib
import sys
from collections.abc import Sequence

from rince.errors import UsageError

PAPER = {  # name: (module and its Experiment or main function, one line for the list)
    "cifar10-augmentation-noise": ("paper.images.cifar10:AugmentationNoise", "extra crops over eta and q"),
    "cifar10-label-noise": ("paper.images.cifar10:LabelNoise", "flipped labels over eta and q"),
    "cifar10-lam": ("paper.images.cifar10:Lam", "ablation of lam, with and without augmentation noise"),
    "cifar10-trial": ("paper.images.cifar10_trial:Trial", "noisy views, every loss at its best temperature"),
    "cifar10-pair-scores": ("paper.images.figures:PairScores", "scores of positive pairs, label noise"),
    "cifar10-tsne": ("paper.images.figures:TSNE", "t-SNE of features trained with wrong labels"),
    "view-scores": ("paper.images.figures:ViewScores", "scores of views with and without an extra crop"),
    "image-baselines": ("paper.baselines.images:ImageBaselines", "SimCLR, MoCo, BYOL, SimSiam, Barlow Twins and SwAV"),
    "tudataset": ("paper.graphs:TUDatasetTable", "graph classification, InfoNCE and RINCE"),
    "graph-perturbation": ("paper.graphs:Perturbation", "graph views at perturbation rates of 10 to 60 %"),
    "graph-wrong-pairs": ("paper.graphs:GraphWrongPairs", "graphs paired with a view of another graph"),
    "graph-baselines": ("paper.baselines.graphs:main", "WL kernel, graph2vec, node2vec and InfoGraph"),
    "generated-video": ("paper.video.experiments:GeneratedVideoTable", "wrong sounds, then few labels"),
    "video-growth": ("paper.video.experiments:VideoGrowth", "more videos and more epochs, as in the ACAV100M table"),
    "loss-curves": ("paper.theory.figures:loss_curves", "loss and gradient over the positive score, for several q"),
    "noise-theory": ("paper.theory.figures:noise_theory", "noisy pairs at q = 1: exact, simulated and as printed"),
    "statements": ("paper.theory.statements:main", "statements of docs/theory.md, tested on random cases"),
}
EVIDENCE = {
    "compare": ("evidence.comparisons:main", "losses on digits, Multi30k, spoken digits or CIFAR-10 labels"),
    "spoken-digits": ("evidence.spoken_digits:SpokenDigitsTable", "images and recordings of digits, some pairs wrong"),
    "rule-of-thumb": ("evidence.rule_of_thumb:main", "several comparisons as the table behind rince.audit.recommend"),
    "trust": ("evidence.trust:Trust", "trust weights beside other methods for noisy pairs"),
    "trust-trained": ("evidence.trust_trained:TrustTrained", "rince train --trust auto end to end"),
    "flickr8k": ("evidence.flickr8k:Flickr8k", "trust weights beside noisy-correspondence methods"),
    "flickr8k-tars": ("evidence.flickr8k_tars:main", "rince audit on raw tars, one machine and Dask workers"),
    "false-negatives": ("evidence.false_negatives:FalseNegatives", "ids, debiasing and a guide"),
    "repair": ("evidence.repair:main", "right partners of shuffled pairs at rank 1"),
    "sentence-transformers-losses": ("evidence.sentence_transformers_losses:main", "losses on noisy translations"),
    "audit-benchmark": ("evidence.audit_benchmark.benchmark:main", "the audit on dozens of real pairings"),
    "audit-accuracy": ("evidence.audit_accuracy:main", "the audit beside Storey's estimate and a mixture"),
    "audit-review": ("evidence.review:main", "rate and ranking after 50, 100 and 200 human marks"),
    "audit-texts": ("evidence.audit_texts:main", "rince audit --encode on raw sentences"),
}
EXPERIMENTS = PAPER | EVIDENCE


def usage() -> str:
    width = max(map(len, EXPERIMENTS))
    parts = [
        title + "\n" + "\n".join(f"  {name:<{width}}  {summary}" for name, (_, summary) in group.items())
        for title, group in (("experiments of the paper:", PAPER), ("evidence for claims of the library:", EVIDENCE))
    ]
    return "\n\n".join(
        [
            "usage: python -m experiments NAME [options]",
            *parts,
            "`python -m experiments NAME --help` lists the options of an experiment. The same command resumes an\n"
            "interrupted experiment. experiments/README.md says which item of the paper each one covers.",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0
    name = arguments[0]
    try:
        if name not in EXPERIMENTS:
            matches = difflib.get_close_matches(name, EXPERIMENTS, n=1)
            hint = f"; did you mean '{matches[0]}'?" if matches else ""
            raise UsageError(f"unknown experiment '{name}'{hint} (python -m experiments lists them)")
        module, _, function = EXPERIMENTS[name][0].partition(":")
        target = getattr(importlib.import_module(f"experiments.{module}"), function)
        return (target().main if isinstance(target, type) else target)(arguments[1:]) or 0
    except UsageError as error:
        print(f"python -m experiments {name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"python -m experiments {name}: interrupted; the same command resumes it", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
