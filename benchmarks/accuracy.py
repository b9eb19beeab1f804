"""Accuracy on the paper's scenarios: mean MSE and NLPD of each method beside the oracle's.

    python benchmarks/accuracy.py [--datasets 1d friedman] [--scenarios 1 8] [--replicates 15] [--methods cob rab]
        [--out FILE.csv] [--save FILE.json]

'oracle' is GaussianGP fitted without the true outliers, 'clean' is GaussianGP on the data before the biases were added.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import saved
from biasgp import BiasGPWarning, ConstantBiasGP, GaussianGP, RandomBiasGP, SparseBiasGP, metrics
from biasgp.data import SCENARIOS, Simulation, simulate

Model = GaussianGP | ConstantBiasGP | RandomBiasGP | SparseBiasGP
DATASETS = ("1d", "friedman")
METHODS: dict[str, Callable[[], Model]] = {
    "gp": GaussianGP,
    "cob": ConstantBiasGP,
    "rab": RandomBiasGP,
    "sparse": SparseBiasGP,
}
FIELDS = ("dataset", "scenario", "replicate", "method", "mse", "mse_f", "nlpd", "precision", "recall")


def draw(dataset: str, scenario: int, replicate: int, seed: int = 0) -> Simulation:
    """The data of one replicate, from a seed that depends on nothing else."""
    rng = np.random.default_rng([seed, DATASETS.index(dataset), scenario, replicate])
    return simulate(dataset, scenario, random_state=rng)


def score(model: Model, data: Simulation) -> dict[str, float]:
    """Test scores of a fitted model, and those of its list of outliers if it has one."""
    mean, std = model.predict(data.X_test, return_std=True, include_noise=True)
    flagged = getattr(model, "outlier_mask_", np.zeros(len(data.y), dtype=bool))
    detects = hasattr(model, "outlier_mask_") and len(flagged) == len(data.y)
    return {
        "mse": metrics.mse(data.y_test, mean),
        "mse_f": metrics.mse(data.f_test, mean),
        "nlpd": metrics.nlpd(data.y_test, mean, std),
        "precision": metrics.precision(data.is_outlier, flagged) if detects else np.nan,
        "recall": metrics.recall(data.is_outlier, flagged) if detects else np.nan,
    }


def run(dataset: str, scenario: int, replicate: int, methods: list[str], seed: int) -> list[dict[str, object]]:
    """All methods on one replicate."""
    data = draw(dataset, scenario, replicate, seed)
    good = ~data.is_outlier
    fits = {"oracle": GaussianGP().fit(data.X[good], data.y[good])}
    fits["clean"] = GaussianGP().fit(data.X, data.y - SCENARIOS[scenario].mu * data.is_outlier)
    fits |= {name: METHODS[name]().fit(data.X, data.y) for name in methods}
    key = {"dataset": dataset, "scenario": scenario, "replicate": replicate}
    return [{**key, "method": name, **score(model, data)} for name, model in fits.items()]


def summary(rows: list[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Means over replicates, with the ratio of mean MSEs and the worst single one."""
    for dataset, scenario, method in dict.fromkeys((r["dataset"], r["scenario"], r["method"]) for r in rows):
        here = [r for r in rows if (r["dataset"], r["scenario"]) == (dataset, scenario)]
        column = {
            (m, f): np.array([r[f] for r in here if r["method"] == m])
            for m in (method, "oracle", "clean")
            for f in FIELDS[4:]
        }
        mse, oracle, clean = column[method, "mse"], column["oracle", "mse"], column["clean", "mse"]
        nlpd = column[method, "nlpd"].mean()
        yield {
            "dataset": dataset,
            "scenario": scenario,
            "method": method,
            "mse": mse.mean(),
            "over_oracle": mse.mean() / oracle.mean(),
            "worst": (mse / oracle).max(),
            "over_clean": mse.mean() / clean.mean(),
            "nlpd": nlpd,
            "nlpd_less_oracle": nlpd - column["oracle", "nlpd"].mean(),
            "precision": column[method, "precision"].mean(),
            "recall": column[method, "recall"].mean(),
        }


def table(found: list[dict[str, object]]) -> None:
    print(
        f"{'dataset':9} {'s':>2} {'method':7} {'MSE':>7} {'/oracle':>8} {'worst':>7} {'/clean':>7} {'NLPD':>7} "
        f"{'-oracle':>8} {'prec':>6} {'recall':>6}"
    )
    for each in found:
        print(
            "{dataset:9} {scenario:2} {method:7} {mse:7.4f} {over_oracle:8.4f} {worst:7.3f} {over_clean:7.4f} "
            "{nlpd:7.4f} {nlpd_less_oracle:+8.4f} {precision:6.3f} {recall:6.3f}".format(**each)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--scenarios", nargs="+", type=int, choices=list(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--replicates", type=int, default=15)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="also write every replicate to this CSV")
    saved.add_option(parser)
    args = parser.parse_args()
    warnings.simplefilter("ignore", BiasGPWarning)
    rows = [
        row
        for dataset in args.datasets
        for scenario in args.scenarios
        for replicate in range(args.replicates)
        for row in run(dataset, scenario, replicate, args.methods, args.seed)
    ]
    found = list(summary(rows))
    table(found)
    saved.write(args.save, found, f"{args.replicates} replicates per scenario")
    if args.out:
        with args.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
