"""Review loop of the audit: rate and ranking before and after 50, 100 and 200 random marks of human reviewers.

Run ``python -m experiments audit-review``; ``RINCE_DATA`` names the data folder. The reviewers are the human labels
of ParaCrawl (misaligned or wrong language) and the expert grades of Flickr8k (a mean below 1.5 of 4).
"""

import argparse
import csv
import gzip
import json
import tarfile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.evidence import audit_data as data
from rince.audit import Scored, judge
from rince.audit.cca import cross_fit_cca
from rince.audit.review import review_features, reviewed
from rince.audit.save import Pairs

MARKS = (50, 100, 200)


class Task(NamedTuple):
    a: NDArray[np.float32]
    b: NDArray[np.float32]
    wrong: NDArray[np.bool_]
    units: NDArray[np.int64]


def paracrawl(language: str) -> Task:
    judged = data.paracrawl(language)
    return Task(judged.a, judged.b, judged.wrong, np.arange(len(judged.wrong)))


def flickr8k() -> Task:
    """Graded pairs of an image and a caption, and as many images with a caption of their own."""
    folder = data.DATA / "flickr8k"
    features = np.load(folder / "features.npz")
    image_row = {key: row for row, key in enumerate(features["key"].tolist())}
    first = np.searchsorted(features["caption_of"], np.arange(len(image_row)))
    caption_row: dict[str, int] = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name.endswith(".json"):
                    record = json.loads(tar.extractfile(member).read())  # type: ignore[union-attr]
                    for k, caption in enumerate(record["captions"]):
                        caption_row[caption] = int(first[image_row[record["key"]]]) + k
    with gzip.open(folder / "expert-judgements.tsv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = [row for row in rows if row["key"] in image_row and row["caption"] in caption_row]
    grades = np.array([np.mean([float(row[f"grade_{k}"]) for k in (1, 2, 3)]) for row in rows])
    random = np.random.default_rng(0)
    clean = random.permutation(len(image_row))[: len(rows)]
    images = np.concatenate([[image_row[row["key"]] for row in rows], clean])
    captions = np.concatenate(
        [[caption_row[row["caption"]] for row in rows], first[clean] + random.integers(0, 5, len(clean))]
    )
    wrong = np.concatenate([grades < 1.5, np.zeros(len(clean), dtype=bool)])
    order = random.permutation(len(wrong))
    a, b = features["image"].astype(np.float32), features["caption"].astype(np.float32)
    return Task(a[images[order]], b[captions[order]], wrong[order], images[order])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("python -m experiments audit-review", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="draws of random marks (20)")
    seeds = parser.parse_args(arguments).seeds
    tasks = {
        f"ParaCrawl en-{language}": lambda language=language: paracrawl(language)
        for language in ("de", "nl", "sv", "da")
    }
    print("| data | truth | before: rate, interval, precision | " + " | ".join(f"{n} marks" for n in MARKS) + " |")
    for name, load in {**tasks, "Flickr8k, graded": flickr8k}.items():
        task = load()
        result = cross_fit_cca(task.a, task.b, units=task.units)
        before = judge(Scored(result.scores, result.null), fitted=True, scorer="cca")
        features = review_features(result.scores, (task.a, task.b))
        flags = np.zeros(len(task.wrong), dtype=bool)
        flags[before.flag()] = True
        pairs = Pairs([str(row) for row in range(len(flags))], result.scores.astype(np.float64), before.p_wrong, flags)
        low, high = before.interval
        cells = [f"{before.noise_rate:.1%} ({low:.1%} to {high:.1%}), {precision(-result.scores, task.wrong):.2f}"]
        for count in MARKS:
            errors, precisions, covered = [], [], []
            for seed in range(seeds):
                marked = np.random.default_rng(seed).permutation(len(task.wrong))[:count]
                marks = {int(row): "wrong" if task.wrong[row] else "keep" for row in marked}
                review, p = reviewed(pairs, marks, before.noise_rate, before.interval, seed, features)
                errors.append(abs(review.noise_rate - task.wrong.mean()))
                covered.append(review.interval[0] <= task.wrong.mean() <= review.interval[1])
                unmarked = np.setdiff1d(np.arange(len(task.wrong)), marked)
                ranking = -result.scores if p is None else p
                precisions.append(precision(ranking[unmarked], task.wrong[unmarked]))
            cells.append(f"{np.mean(errors):.3f}, {np.mean(covered):.2f}, {np.mean(precisions):.2f}")
        print(f"| {name} | {task.wrong.mean():.1%} | {' | '.join(cells)} |", flush=True)


def precision(suspicion: NDArray[np.floating], wrong: NDArray[np.bool_]) -> float:
    """Share of wrong pairs among the 10 % most suspicious."""
    return float(wrong[np.argsort(-suspicion, kind="stable")[: len(wrong) // 10]].mean())
