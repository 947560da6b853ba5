"""Pairs of views of SimCLR with the best and the worst scores, some of the views cropped too far."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cosine_similarity

from rince._support.atomic_files import written_whole
from rince._support.step_seeds import Draws, generator
from rince.reproduce.figures import panels
from rince.reproduce.grid import Result, Run
from rince.reproduce.images.cifar10_augmentation_noise import AugmentationNoise
from rince.reproduce.tables import Cell
from rince.reproduce.training import trained

VIEW_STREAM, IMAGES, SHOWN = 72, 2000, 8


class ViewScores(AugmentationNoise):
    name = "view-scores"
    summary = (
        "Scores of two views of each of 2,000 test images by trained networks: which are best and worst, and how well "
        "a score tells whether a view was cropped too far. Writes results.csv, table.md, figure.png and figure.svg."
    )
    corner = "scores of two views"
    losses = ("infonce", "rince-0.5")
    etas = (0.4,)
    seeds = 3

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return [run for run in super().runs(options) if run["eta"] in options.etas]

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        method, data = trained(self.settings(run, options), self.folder_of(run, options))
        images = data.split("test")[0][:IMAGES]
        views, hit = views_of(method, images, run["seed"])
        with torch.no_grad():
            z = [torch.cat([method.project(method.encoder(part)) for part in view.split(500)]) for view in views]
        scores = cosine_similarity(z[0], z[1]).numpy()
        order = np.argsort(-scores)
        chosen = np.concatenate([order[:SHOWN], order[-SHOWN:]])
        recipe = method.views.first
        pixels = [(v[chosen] * recipe.std[:, None, None] + recipe.mean[:, None, None]).clamp(0, 1) for v in views]
        with written_whole(self.file_of(run, options)) as path, open(path, "wb") as file:
            np.savez(file, pixels=torch.stack(pixels).permute(0, 1, 3, 4, 2).numpy(), scores=scores[chosen])
        found = auc_of(hit.numpy(), -scores)
        headline = "no view was cropped too far" if found is None else f"AUC of cropped views {found:.1f} %"
        return {"auc": found, "mean": float(scores.mean()), "headline": headline}

    def file_of(self, run: Run, options: argparse.Namespace) -> Path:
        return Path(options.out) / "numbers" / f"{self.run_name(run).replace(' ', '-')}.npz"

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for r in results:
            row = f"{self.title(r['settings'])}, eta {r['settings']['eta']:g}"
            yield row, "mean cosine, %", 100 * r["mean"]
            if r["auc"] is not None:
                yield row, "AUC of views cropped too far, %", r["auc"]

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        """For every network two rows of pairs, best and worst, each with its score."""
        first = [r["settings"] for r in results if r["settings"]["seed"] == 0]
        figure, axes = panels(SHOWN, 2 * len(first), width=0.8, height=1.7)
        for i, run in enumerate(first):
            with np.load(self.file_of(run, options)) as file:
                pixels, scores = file["pixels"], file["scores"]
            for j, axis in enumerate(axes[2 * i : 2 * i + 2].flat):
                axis.imshow(np.concatenate([pixels[0, j], np.ones_like(pixels[0, j][:1]), pixels[1, j]]))
                axis.set_xlabel(f"{scores[j]:.2f}", fontsize=8)
                axis.set_xticks([]), axis.set_yticks([])
                axis.spines[:].set_visible(False)
            for row, word in ((2 * i, "best"), (2 * i + 1, "worst")):
                axes[row, 0].set_ylabel(f"{self.title(run)}\neta {run['eta']:g}, {word}", fontsize=8)
        return figure

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        return []


def views_of(method: Any, images: torch.Tensor, seed: int) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Two views of every image as training draws them, and whether the noise hit either."""
    draw, hits, views = Draws(generator(seed, VIEW_STREAM), len(images)), torch.zeros(len(images), dtype=torch.bool), []
    for _ in range(2):
        views.append(method.views.first(images, draw))
        if (hit := method.views.first.last_hit) is not None:
            hits |= hit
    return views, hits


def auc_of(positive: np.ndarray, scores: np.ndarray) -> float | None:
    """In percent; nothing where all are of one kind."""
    from sklearn.metrics import roc_auc_score

    return 100 * float(roc_auc_score(positive, scores)) if positive.any() and not positive.all() else None


main = ViewScores().main
