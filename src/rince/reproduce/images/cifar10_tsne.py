"""t-SNE of what is learnt on CIFAR-10 with wrong labels: InfoNCE and RINCE at several noise rates."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rince._support.atomic_files import written_whole
from rince.reproduce.figures import legend, panels
from rince.reproduce.grid import Result, Run
from rince.reproduce.images.label_noise_runs import LabelNoiseFigure
from rince.reproduce.tables import Cell

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


class TSNE(LabelNoiseFigure):
    name = "cifar10-tsne"
    summary = (
        "Maps of test images by t-SNE, coloured by class, and the share of an image's ten nearest neighbours in the "
        "map that are of its class. Writes results.csv, table.md, figure.png and figure.svg."
    )
    corner = "same class among the ten nearest in the map, %"
    etas = (0.4, 0.8)
    shared = ("images", "space")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--images", type=int, default=1500, help="test images in a map (%(default)s)")
        parser.add_argument(
            "--space", choices=("encoder", "projection"), default="projection", help="of the features (%(default)s)"
        )

    def runs(self, options: argparse.Namespace) -> list[Run]:
        """Without noise every loss too, as in the paper."""
        clean = argparse.Namespace(**{**vars(options), "etas": sorted({0.0, *options.etas})})
        return super().runs(clean)

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        from sklearn.manifold import TSNE as Map
        from sklearn.neighbors import NearestNeighbors

        from rince.evaluate.features import features_of

        method, data = self.network(run, options)
        images, labels = (part[: options.images] for part in data.split("test"))
        features = features_of(method, images, options.space).double().numpy()
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        perplexity = min(30, len(images) / 4)
        places = Map(perplexity=perplexity, init="pca", random_state=run["seed"]).fit_transform(features)
        near = NearestNeighbors(n_neighbors=11).fit(places).kneighbors(places, return_distance=False)[:, 1:]
        truth = labels.numpy()
        agreement = 100 * float((truth[near] == truth[:, None]).mean())
        with written_whole(self.file_of(run, options)) as path, open(path, "wb") as file:
            np.savez(file, places=places, labels=truth)
        return {"agreement": agreement, "headline": f"{agreement:.1f} % of the neighbours are of the same class"}

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
                places, labels = file["places"], file["labels"]
            for label, name in enumerate(CLASSES):  # points as pixels: thousands of circles make an SVG of megabytes
                mine = places[labels == label]
                style = {"s": 2, "color": f"C{label}", "linewidths": 0, "rasterized": True}
                axis.scatter(*mine.T, label=name, **style)
            axis.set_title(f"{self.title(run)}, eta {run['eta']:g}", fontsize=9)
            axis.set_xticks([]), axis.set_yticks([])
            axis.spines[:].set_visible(False)
        legend(figure, axes[0, 0], columns=5, marker_size=5)
        return figure

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        return []


main = TSNE().main
