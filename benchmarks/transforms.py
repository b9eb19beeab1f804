"""How stable the weights of the response transforms are, and what the average over transforms is worth.

    python benchmarks/transforms.py renwu-*.csv --kernels matern32 exponential
    python benchmarks/transforms.py faults/*.csv tables/*.csv --kernels matern32 [--held-out]

Files: campaigns (as of real_campaigns.py), hourly records with columns `time`, `value` and `flag`, and tables without a
header whose last column is the response. For each response the transforms are judged as response="auto" does, and again
on other stretches of rows (`--seeds`) and with fewer and more iterations. A line has the weights, how many of the other
judgements have another transform first, the largest change of a weight, and the lead of the first transform over the
second in mean log density per reading, with its standard error (of means over stretches of readings).

With --held-out, where more than one transform has a weight: each fifth unflagged reading is left out, fits to the
others under the first two transforms predict it, and so does their average; the line ends with the MSE of the second
and of the average over that of the first.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from biasgp import SparseBiasGP
from biasgp.analysis.fitting import KERNELS
from biasgp.inputs import STRETCH
from biasgp.models import transform_choice
from biasgp.models.transform_choice import Verdict, Weighted, candidates, judge, judged_rows, weighted

ITERATIONS = (20, 45)
"""Other limits of the iterations of a rough fit than its 30."""
MOST_FITTED = 700
"""Readings of a fit with --held-out."""

Data = tuple[str, np.ndarray, np.ndarray, np.ndarray]
"""Name, inputs, response, and which of the readings are valid."""


def lead(first: Verdict, second: Verdict) -> tuple[float, float]:
    """How much higher the score of the first is, and the standard error of that.

    Readings next to one another are not independent; the means over stretches of them nearly are.
    """
    gains = first.log_density - second.log_density
    means = np.array([part.mean() for part in np.array_split(gains, max(2, round(len(gains) / STRETCH)))])
    return first.score - second.score, float(means.std(ddof=1) / np.sqrt(len(means)))


def responses(path: Path) -> Iterator[Data]:
    """Every response of a file."""
    if path.parent.name == "tables":
        table = pd.read_csv(path, header=None).to_numpy(dtype=float)
        X, y = table[:, :-1], table[:, -1]
        used = (X.std(axis=0) > 0.0) & np.isfinite(X).all(axis=0)
        yield path.stem, X[:, used], y, np.ones(len(y), dtype=bool)
        return
    table = pd.read_csv(path, parse_dates=["time"])
    hours = ((table["time"] - table["time"].iloc[0]).dt.total_seconds() / 3600.0).to_numpy()
    if "value" in table:
        known = table["value"].notna().to_numpy()
        y, valid = table["value"].to_numpy(dtype=float), table["flag"].isna().to_numpy()
        yield path.stem, hours[known, None], y[known], valid[known]
        return
    X = np.column_stack([hours, table["temperature_c"], table["humidity_pct"]])
    for gas in (column.removesuffix("_ppb") for column in table if column.endswith("_ppb")):
        yield f"{path.stem} {gas}", X, table[f"{gas}_ppb"].to_numpy(), table[f"{gas}_flag"].isna().to_numpy()


def judged(X: np.ndarray, y: np.ndarray, kernel, seed: int) -> list[Verdict]:
    """What is said of every transform on one choice of rows."""
    rows = judged_rows(X, y, seed)
    return [judge(X[rows], y[rows], kernel, None, transform) for transform in candidates(y)]


def held_out_errors(data: Data, kernel, first: Weighted, second: Weighted) -> list[float]:
    """MSE of valid readings that the fits have not seen: under each transform, and of their average."""
    _, X, y, valid = data
    some = np.arange(min(len(y), MOST_FITTED))
    out = np.flatnonzero(valid[some])[::5]
    kept = np.setdiff1d(some, out)
    predictions = [
        SparseBiasGP(kernel, response=each.transform.name, order=None).fit(X[kept], y[kept]).predict(X[out])
        for each in (first, second)
    ]
    share = first.weight / (first.weight + second.weight)
    average = share * predictions[0] + (1.0 - share) * predictions[1]
    return [float(np.mean((each - y[out]) ** 2)) for each in (*predictions, average)]


def line(data: Data, name: str, options: argparse.Namespace) -> str:
    """All about the weights for one response."""
    title, X, y, _ = data
    kernel = KERNELS[name](ard=True)
    verdicts = judged(X, y, kernel, 0)
    others = [judged(X, y, kernel, seed) for seed in options.seeds]
    for iterations in () if options.rows_only else ITERATIONS:
        with patch.object(transform_choice, "MAX_ITERATIONS", iterations):
            others.append(judged(X, y, kernel, 0))
    found, again = weighted(verdicts, len(y)), [weighted(each, len(y)) for each in others]
    tables = [{each.transform.name: each.weight for each in some} for some in (found, *again)]
    changed = sum(each[0].transform.name != found[0].transform.name for each in again)
    moved = max(
        (abs(table.get(k, 0.0) - tables[0].get(k, 0.0)) for table in tables for k in table | tables[0]), default=0
    )
    best, next_best = sorted(verdicts, key=lambda verdict: -verdict.score)[:2]
    gap, error = lead(best, next_best)
    weights = ", ".join(f"{k} {weight:.2f}" for k, weight in tables[0].items())
    text = (
        f"{title:32} {name:11} {weights:40} changed {changed}/{len(others)}, by {moved:.2f} at most | "
        f"{best.transform.name} before {next_best.transform.name} by {gap:.3f} ± {error:.3f}"
    )
    if options.held_out and len(found) > 1:
        first, second, average = held_out_errors(data, kernel, *found[:2])
        text += f" | MSE over that of the first: second {second / first:.3f}, average {average / first:.3f}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--kernels", nargs="+", default=["matern32"], choices=sorted(KERNELS))
    parser.add_argument("--only", default="", help="responses whose names contain this")
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2], help="of other choices of rows")
    parser.add_argument("--rows-only", action="store_true", help="change the rows, not the iterations")
    parser.add_argument("--held-out", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for path in options.files:
            for data in (each for each in responses(path) if options.only in each[0]):
                for kernel in options.kernels:
                    print(line(data, kernel, options), flush=True)


if __name__ == "__main__":
    main()
