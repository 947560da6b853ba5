"""Scorers and checks of the audit on real pairs: AUC, oracle recall, claims on clean data, review.

Run ``python -m experiments.evidence.audit_scorers [table|checks|paracrawl] [SET ...]``; ``RINCE_DATA`` names the
data folder.
"""

import sys
import time

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from experiments.evidence import audit_data as data
from rince.audit import Audit, audit_pairs, checks
from rince.audit.calibrate import local_probability, recalibrate, room_for_mismatched
from rince.audit.cca import cross_fit_cca

Scores = NDArray[np.floating]


def flags(scores: Scores, probability: Scores, fdr: float = 0.1) -> NDArray[np.int64]:
    """The longest list, lowest scores first, with an expected share of false alarms of at most ``fdr``."""
    order = np.argsort(scores, kind="stable")
    expected = np.cumsum(1 - probability[order].astype(np.float64)) / np.arange(1, len(order) + 1)
    within = np.flatnonzero(expected <= fdr)
    return order[: within[-1] + 1] if len(within) else order[:0]


def table(names: list[str], shares: tuple[float, ...] = (0.2, 0.4, 0.6), seed: int = 0) -> None:
    for name in names:
        pairs = data.load(name)
        for share in shares:
            noisy, wrong = data.shuffled(pairs, share, seed)
            start = time.process_time()
            result = cross_fit_cca(noisy.a, noisy.b, seed=seed)
            seconds = time.process_time() - start
            auc, best = roc_auc_score(~wrong, result.scores), data.oracle_recall(result.scores, wrong)
            rate = room_for_mismatched(result.scores, result.null)
            chosen = flags(result.scores, local_probability(result.scores, result.null, rate))
            recall, alarms = wrong[chosen].sum() / wrong.sum(), (~wrong[chosen]).mean() if len(chosen) else 0.0
            values = f"{auc:.3f} | {best:.2f} | {rate:.3f} | {recall:.2f} | {alarms:.3f} | {seconds:.1f}"
            print(f"| {name} | {share} | {values} |", flush=True)


def damages(names: list[str], max_pairs: int = 2000) -> None:
    """Claims on clean pairs, and how much of four damages is found: placeholders, shifted stretches, exchanges."""
    for name in names:
        a, b, _ = data.load(name)
        random = np.random.default_rng(0)
        rows = random.permutation(len(a))[:max_pairs]
        a, b = a[rows], b[rows]
        claimed = [issue for issue, results in audited(a, b).issues.items() if results.claimed]
        print(f"{name}, {len(a):,} pairs. Claimed on clean pairs: {', '.join(claimed) or 'nothing'}", flush=True)
        for kind in ("mean row", "another row"):
            results = []
            for share in (0.01, 0.05, 0.2, 0.4):
                hit = random.random(len(a)) < share
                damaged = b.copy()
                damaged[hit] = b.mean(0) if kind == "mean row" else b[7]
                scores = checks.placeholder(a, damaged).scores
                results.append(f"{(scores[hit] > 0).mean():.2f} ({(scores[~hit] > 0).sum()} others)")
            print(f"  placeholders ({kind}) found at 1, 5, 20, 40 %: {', '.join(results)}", flush=True)
        for length, count in ((10, 20), (50, 6), (300, 1)):
            partner = np.arange(len(a))
            for start in random.choice(len(a) // length - 1, count, replace=False) * length:
                stretch = np.arange(start, start + length)
                partner[stretch] = np.roll(stretch, -random.integers(1, 4))
            moved, hit = partner != np.arange(len(a)), audited(a, b[partner]).issues["shifted"].scores > 0
            print(
                f"  {count} stretches of {length} shifted by 1 to 3: recall {(hit & moved).sum() / moved.sum():.2f}, "
                f"precision {(hit & moved).sum() / max(1, hit.sum()):.2f}",
                flush=True,
            )
        exchanged = random.permutation(len(a))[: len(a) // 20 * 2]
        partner = np.arange(len(a))
        partner[exchanged] = exchanged.reshape(-1, 2)[:, ::-1].ravel()
        gain = audited(a, b[partner]).issues["better_partner"]
        best = np.argsort(-gain.scores)[:100]
        right = gain.details["partner"][best] == partner[best]
        print(
            f"  10 % in exchanged pairs: precision at 100 {np.isin(best, exchanged).mean():.2f}, right partner named "
            f"in {right.mean():.2f}, AUC {roc_auc_score(np.isin(np.arange(len(a)), exchanged), gain.scores):.2f}",
            flush=True,
        )


def audited(a: NDArray[np.float32], b: NDArray[np.float32]) -> Audit:
    return audit_pairs(a, b, fit=True, progress=False)


def paracrawl() -> None:
    """AUC of wrong against valid pairs beside published tools, and the review loop with human labels."""
    for language in ("de", "nl", "sv", "da"):
        judged = data.paracrawl(language)
        result = cross_fit_cca(judged.a, judged.b)
        auc = {name: round(roc_auc_score(~judged.wrong, score), 3) for name, score in judged.tools.items()}
        cca_auc = roc_auc_score(~judged.wrong, result.scores)
        lengths = [np.log([1 + len(text) for text in side]) for side in judged.texts]
        features = np.stack([result.scores, lengths[0] - lengths[1], lengths[0] + lengths[1]], axis=1)
        features = np.column_stack([features, np.abs(features[:, 1])])
        review = {}
        for marks in (50, 100, 200):
            errors, hits = [], []
            for seed in range(20):
                marked = np.random.default_rng(seed).permutation(len(judged.wrong))[:marks]
                p = recalibrate(features, marked, judged.wrong[marked])
                unmarked = np.setdiff1d(np.arange(len(p)), marked)
                top = unmarked[np.argsort(-p[unmarked])[: len(unmarked) // 10]]
                errors.append(abs(p.mean() - judged.wrong.mean()))
                hits.append(judged.wrong[top].mean())
            review[marks] = (round(float(np.mean(errors)), 3), round(float(np.mean(hits)), 3))
        worst = np.argsort(result.scores)[: len(result.scores) // 10]
        before = (round(room_for_mismatched(result.scores, result.null), 3), round(judged.wrong[worst].mean(), 3))
        print(language, f"wrong {judged.wrong.mean():.3f} cca {cca_auc:.3f}", auc, "rate, precision@10%:", before)
        print("  marks -> rate error, precision@10%:", review, flush=True)


if __name__ == "__main__":
    what, names = (sys.argv[1] if len(sys.argv) > 1 else "table"), sys.argv[2:] or list(data.SETS)
    {"table": lambda: table(names), "checks": lambda: damages(names), "paracrawl": paracrawl}[what]()
