"""The paper's figures on CIFAR-10: scores of positive pairs, t-SNE of features, best and worst views."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cosine_similarity

from experiments.experiment import Experiment
from experiments.figures import COLORS, legend, panels, save
from experiments.paper.images.cifar10 import AugmentationNoise, LabelNoise
from experiments.tables import Cell
from experiments.training import trained
from rince._support.atomic_files import written_whole
from rince._support.step_seeds import Draws, generator
from rince.compare.grid import Result, Run


class Numbers(Experiment):
    """Mixin: arrays of every run in a file, for figures."""

    def file_of(self, run: Run, options: argparse.Namespace) -> Path:
        return Path(options.out) / "numbers" / f"{self.run_name(run).replace(' ', '-')}.npz"

    def save_numbers(self, run: Run, options: argparse.Namespace, **arrays: np.ndarray) -> None:
        with written_whole(self.file_of(run, options)) as path, open(path, "wb") as file:
            np.savez(file, **arrays)

    def densities(self, axis: Any, runs: Sequence[Run], options: argparse.Namespace, scores: str, mask: str,
                  names: tuple[str, str]) -> None:  # fmt: skip
        """Draw the distributions of the scores of some runs, where a mask holds and where not."""
        files = [np.load(self.file_of(run, options)) for run in runs]
        for color, name, value in zip(COLORS, names, (True, False), strict=False):
            values = np.concatenate([file[scores][file[mask] == value] for file in files])
            axis.hist(values, bins=60, range=(-1, 1), density=True, alpha=0.55, label=name, color=color)

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        return []


class LabelNoiseFigure(Numbers, LabelNoise):
    """A picture of trained networks. Runs that the table has finished are taken as they are, others are done."""

    losses = ("infonce", "rince-1")
    etas = (0.2, 0.8)
    seeds = 3

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--table", default=f"runs/experiments/{LabelNoise.name}", metavar="DIR",
            help="--out of cifar10-label-noise, whose runs are used and added to (%(default)s)",
        )  # fmt: skip

    def network(self, run: Run, options: argparse.Namespace) -> tuple[Any, Any]:
        """Method and data of a run."""
        table_options = argparse.Namespace(**{**vars(options), "out": options.table})
        return trained(self.settings(run, table_options), self.folder_of(run, table_options))


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
        from experiments.features import features_of
        from rince.data.images import SameLabel

        method, data = self.network(run, options)
        images, truth = data.split("train")
        partner = SameLabel(data.noisy.labels)(
            torch.arange(len(images)), Draws(generator(run["seed"], PAIR_STREAM), len(images))
        )
        z = features_of(method, images, "projection")
        scores, right = cosine_similarity(z, z[partner]).numpy(), (truth == truth[partner]).numpy()
        self.save_numbers(run, options, scores=scores, right=right)
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
                cell_runs = [
                    r["settings"] for r in results if (self.title(r["settings"]), r["settings"]["eta"]) == (title, eta)
                ]
                self.densities(axes[i, j], cell_runs, options, "scores", "right", ("same class", "other class"))
                axes[i, j].set_title(f"{title}, eta {eta:g}", fontsize=10)
        for axis in axes[-1]:
            axis.set_xlabel("cosine of a positive pair", fontsize=9)
        for axis in axes[:, 0]:
            axis.set_ylabel("density", fontsize=9)
        legend(figure, axes[0, 0])
        return figure


MAP_IMAGES = 1500
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


class TSNE(LabelNoiseFigure):
    name = "cifar10-tsne"
    summary = (
        "Maps of test images by t-SNE, colored by class, and the share of an image's ten nearest neighbors in the "
        "map that are of its class. Writes results.csv, table.md, figure.png and figure.svg."
    )
    corner = "same class among the ten nearest in the map, %"
    etas = (0.4, 0.8)

    def runs(self, options: argparse.Namespace) -> list[Run]:
        """Without noise every loss too, as in the paper."""
        clean = argparse.Namespace(**{**vars(options), "etas": sorted({0.0, *options.etas})})
        return super().runs(clean)

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        from sklearn.manifold import TSNE as Map
        from sklearn.neighbors import NearestNeighbors

        from experiments.features import features_of

        method, data = self.network(run, options)
        images, labels = (part[:MAP_IMAGES] for part in data.split("test"))
        features = features_of(method, images, "projection").double().numpy()
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        perplexity = min(30, len(images) / 4)
        points = Map(perplexity=perplexity, init="pca", random_state=run["seed"]).fit_transform(features)
        neighbors = NearestNeighbors(n_neighbors=11).fit(points).kneighbors(points, return_distance=False)[:, 1:]
        truth = labels.numpy()
        agreement = 100 * float((truth[neighbors] == truth[:, None]).mean())
        self.save_numbers(run, options, places=points, labels=truth)
        return {"agreement": agreement, "headline": f"{agreement:.1f} % of the neighbors are of the same class"}

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for r in sorted(results, key=lambda r: r["settings"]["eta"]):
            yield self.title(r["settings"]), f"eta {r['settings']['eta']:g}", r["agreement"]

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        """The maps of the first seed."""
        first = [r["settings"] for r in results if r["settings"]["seed"] == 0]
        titles = list(dict.fromkeys(map(self.title, first)))
        etas = sorted({run["eta"] for run in first})
        figure, axes = panels(len(etas), len(titles), width=2.6, height=2.6)
        for run in first:
            axis = axes[titles.index(self.title(run)), etas.index(run["eta"])]
            with np.load(self.file_of(run, options)) as file:
                points, labels = file["places"], file["labels"]
            for label, name in enumerate(CLASSES):  # points as pixels: thousands of circles make an SVG of megabytes
                class_points = points[labels == label]
                style = {"s": 2, "color": f"C{label}", "linewidths": 0, "rasterized": True}
                axis.scatter(*class_points.T, label=name, **style)
            axis.set_title(f"{self.title(run)}, eta {run['eta']:g}", fontsize=9)
            axis.set_xticks([]), axis.set_yticks([])
            axis.spines[:].set_visible(False)
        legend(figure, axes[0, 0], columns=5, marker_size=5)
        return figure


VIEW_STREAM, IMAGES, SHOWN = 72, 2000, 8


class ViewScores(Numbers, AugmentationNoise):
    name = "view-scores"
    summary = (
        "Scores of two views of each of 2,000 test images by trained networks: which are best and worst, and how well "
        "a score tells whether a view was cropped too far. Writes results.csv, table.md, and figure and scores as PNG "
        "and SVG."
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
        view_pixels = torch.stack(pixels).permute(0, 1, 3, 4, 2).numpy()
        self.save_numbers(run, options, pixels=view_pixels, scores=scores[chosen], all_scores=scores, hit=hit.numpy())
        auc = auc_of(hit.numpy(), -scores)
        headline = "no view was cropped too far" if auc is None else f"AUC of cropped views {auc:.1f} %"
        return {"auc": auc, "mean": float(scores.mean()), "headline": headline}

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

    def report(self, results: Sequence[Result], options: argparse.Namespace) -> str:
        """Also write the densities of the scores, by whether a view was cropped too far."""
        table = super().report(results, options)
        runs: dict[str, list[Run]] = {}
        for r in results:
            runs.setdefault(f"{self.title(r['settings'])}, eta {r['settings']['eta']:g}", []).append(r["settings"])
        figure, axes = panels(len(runs), height=2.4, sharex=True, sharey="row")
        for axis, (title, group) in zip(axes.flat, runs.items(), strict=True):
            self.densities(axis, group, options, "all_scores", "hit", ("cropped too far", "ordinary views"))
            axis.set_title(title, fontsize=10)
            axis.set_xlabel("cosine of two views", fontsize=9)
        axes.flat[0].set_ylabel("density", fontsize=9)
        legend(figure, axes.flat[0])
        save(figure, Path(options.out) / "scores")
        return table


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
