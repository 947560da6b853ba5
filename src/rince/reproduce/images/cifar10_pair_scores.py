"""Densities of the scores of right and wrong positive pairs, on CIFAR-10 with wrong labels."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cosine_similarity

from rince._support.atomic_files import written_whole
from rince._support.step_seeds import Draws, generator
from rince.reproduce.figures import COLOURS, legend, panels
from rince.reproduce.grid import Result, Run
from rince.reproduce.images.label_noise_runs import LabelNoiseFigure
from rince.reproduce.images.view_scores import auc_of
from rince.reproduce.tables import Cell

PAIR_STREAM = 71  # of the seed: which pairs are looked at


class PairScores(LabelNoiseFigure):
    name = "cifar10-pair-scores"
    summary = (
        "Cosines of pairs of training images that share a label, by whether they truly are of one class. Writes "
        "results.csv, table.md, figure.png and figure.svg."
    )
    corner = "scores of training pairs"
    etas = (0.4, 0.8)

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return [run for run in super().runs(options) if run["eta"]]

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        from rince.data.images.in_memory import SameLabel
        from rince.evaluate.features import features_of

        method, data = self.network(run, options)
        images, truth = data.split("train")
        partner = SameLabel(data.noisy.labels)(
            torch.arange(len(images)), Draws(generator(run["seed"], PAIR_STREAM), len(images))
        )
        z = features_of(method, images, "projection")
        scores, right = cosine_similarity(z, z[partner]).numpy(), (truth == truth[partner]).numpy()
        with written_whole(self.file_of(run, options)) as path, open(path, "wb") as file:
            np.savez(file, scores=scores, right=right)
        auc = auc_of(right, scores)
        return {
            "auc": auc,
            "wrong": 100 * float((~right).mean()),
            "right_mean": float(scores[right].mean()),
            "wrong_mean": float(scores[~right].mean()) if not right.all() else None,
            "headline": f"AUC {auc:.1f} %" if auc is not None else "no wrong pairs",
        }

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        columns = {"auc": "AUC, %", "wrong": "wrong pairs, %"}
        for r in results:
            for key, column in columns.items():
                if r[key] is not None:
                    yield f"{self.title(r['settings'])}, eta {r['settings']['eta']:g}", column, r[key]

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        titles = list(dict.fromkeys(self.title(r["settings"]) for r in results))
        etas = sorted({r["settings"]["eta"] for r in results})
        figure, axes = panels(len(etas), len(titles), height=2.4, sharex=True, sharey="row")
        for i, title in enumerate(titles):
            for j, eta in enumerate(etas):
                mine = [
                    r["settings"] for r in results if (self.title(r["settings"]), r["settings"]["eta"]) == (title, eta)
                ]
                kept = [np.load(self.file_of(run, options)) for run in mine]
                for colour, name, wanted in ((COLOURS[0], "same class", True), (COLOURS[1], "other class", False)):
                    scores = np.concatenate([file["scores"][file["right"] == wanted] for file in kept])
                    style = {"bins": 60, "range": (-1, 1), "density": True, "alpha": 0.55, "label": name}
                    axes[i, j].hist(scores, color=colour, **style)
                axes[i, j].set_title(f"{title}, eta {eta:g}", fontsize=10)
        for axis in axes[-1]:
            axis.set_xlabel("cosine of a positive pair", fontsize=9)
        for axis in axes[:, 0]:
            axis.set_ylabel("density", fontsize=9)
        legend(figure, axes[0, 0])
        return figure

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        return []


main = PairScores().main
