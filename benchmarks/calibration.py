"""Are outlier probabilities what they say? Of the readings given probability p, the share that are outliers.

    python benchmarks/calibration.py [--replicates 120] [--scenarios 1 2 3 4 5 6 7 8] [--save FILE.json]

All readings of both data sets together, in ten bins; '±' is the standard error of the share, with half an outlier and
half a clean reading added so that it is not zero where all agree.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import saved
from accuracy import DATASETS, draw
from biasgp import BiasGPWarning, SparseBiasGP

N_BINS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=120)
    parser.add_argument("--scenarios", type=int, nargs="+", default=list(range(1, 9)))
    saved.add_option(parser)
    args = parser.parse_args()
    warnings.simplefilter("ignore", BiasGPWarning)
    probabilities, truths = [], []
    for dataset in DATASETS:
        for scenario in args.scenarios:
            for replicate in range(args.replicates):
                data = draw(dataset, scenario, replicate)
                probabilities.append(SparseBiasGP().fit(data.X, data.y).outlier_probability_)
                truths.append(data.is_outlier)
    p, out = np.concatenate(probabilities), np.concatenate(truths)
    which = np.minimum((p * N_BINS).astype(int), N_BINS - 1)
    bins: list[dict[str, float]] = []
    for b in range(N_BINS):
        inside = which == b
        n, k = int(inside.sum()), int(out[inside].sum())
        share, error = k / max(n, 1), np.sqrt((k + 0.5) * (n - k + 0.5) / (n + 1.0) ** 3)
        print(
            f"p {b / N_BINS:.1f} to {(b + 1) / N_BINS:.1f}: {n:7} readings, mean p {p[inside].mean():.3f}, "
            f"outliers {share:.3f} ± {error:.3f}, difference {share - p[inside].mean():+.3f}"
        )
        bins.append({"readings": n, "probability": p[inside].mean(), "outliers": share, "error": error})
    size = f"{len(probabilities):,} fits, {args.replicates} replicates per scenario; {len(p):,} readings"
    saved.write(args.save, bins, size)


if __name__ == "__main__":
    main()
