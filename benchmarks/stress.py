"""The sparse-bias model beyond the paper's scenarios, beside the oracle, the plain GP and the constant bias model.

    python benchmarks/stress.py [--replicates 15] [--kinds "clusters" "true peaks"] [--save FILE.json]

Columns: mean MSE of each method over the oracle's (the plain GP's where there are no outliers), the worst single
replicate, mean exact NLPD (log_predictive_density) less the plain GP's, share of readings flagged, and in how many
replicates the fit warned; `silent` counts those worse than 1.25 x oracle that did not.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import saved
from accuracy import DATASETS
from biasgp import BiasGPWarning, ConstantBiasGP, GaussianGP, SparseBiasGP, metrics
from biasgp.data import STRESSES, Simulation, two_sided


def one(data: Simulation, response: str) -> dict[str, float]:
    """All methods on one draw."""
    good = ~data.is_outlier
    oracle = GaussianGP(response=response).fit(data.X[good], data.y[good])
    plain = GaussianGP(response=response).fit(data.X, data.y)
    cob = ConstantBiasGP(response=response).fit(data.X, data.y)
    sparse = SparseBiasGP(response=response).fit(data.X, data.y)
    fits = {"oracle": oracle, "plain": plain, "cob": cob, "sparse": sparse}
    scores = {name: metrics.mse(data.y_test, model.predict(data.X_test)) for name, model in fits.items()}
    density = {
        name: -float(np.mean(fits[name].log_predictive_density(data.X_test, data.y_test)))
        for name in ("plain", "sparse")
    }
    return scores | {
        "nlpd": density["sparse"] - density["plain"],
        "flagged": float(sparse.outlier_mask_.mean()),
        "warned": float(not sparse.trustworthy_),
        "precision": metrics.precision(data.is_outlier, sparse.outlier_mask_),
        "recall": metrics.recall(data.is_outlier, sparse.outlier_mask_),
    }


def report(name: str, rows: list[dict[str, float]]) -> dict[str, object]:
    """One line of the table, and its figures."""
    column = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    ratio = column["sparse"] / column["oracle"]
    mean = {key: column[key].mean() for key in ("oracle", "plain", "cob", "sparse")}
    silent = int(((ratio > 1.25) & (column["warned"] == 0)).sum())
    found: dict[str, object] = {
        "data": name,
        "replicates": len(rows),
        "over_oracle": mean["sparse"] / mean["oracle"],
        "worst": ratio.max(),
        "over_others": mean["sparse"] / min(mean["plain"], mean["cob"]),
        **{key: column[key].mean() for key in ("nlpd", "flagged", "precision", "recall")},
        "warned": int(column["warned"].sum()),
        "silent": silent,
    }
    print(
        "{data:22} sparse/oracle {over_oracle:7.3f} worst {worst:7.3f} /best of plain, cob {over_others:7.3f} "
        "nlpd-plain {nlpd:+7.3f} flagged {flagged:6.3f} prec {precision:.3f} rec {recall:.3f} warned {warned:2} "
        "silent {silent}".format(**found),
        flush=True,
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=15)
    parser.add_argument("--kinds", nargs="+", choices=["two-sided", *STRESSES], default=["two-sided", *STRESSES])
    saved.add_option(parser)
    args = parser.parse_args()
    warnings.simplefilter("ignore", BiasGPWarning)
    found: list[dict[str, object]] = []
    for kind in args.kinds:
        if kind == "two-sided":
            for dataset in DATASETS:
                for scenario in (5, 6, 7, 8):
                    seeds = [
                        np.random.default_rng([1, DATASETS.index(dataset), scenario, r]) for r in range(args.replicates)
                    ]
                    draws = [two_sided(dataset, scenario, random_state=rng) for rng in seeds]
                    found.append(report(f"two-sided {dataset} {scenario}", [one(data, "identity") for data in draws]))
            continue
        draws = [STRESSES[kind](np.random.default_rng([2, r])) for r in range(args.replicates)]
        found.append(report(kind, [one(data, "auto" if kind == "true peaks" else "identity") for data in draws]))
    saved.write(args.save, found)


if __name__ == "__main__":
    main()
