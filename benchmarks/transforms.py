"""How stable the choice of the response transform is, and what it is worth.

    python benchmarks/transforms.py renwu-*.csv --kernels matern32 exponential
    python benchmarks/transforms.py faults/*.csv tables/*.csv --kernels matern32 [--held-out]

Files: campaigns (as of real_campaigns.py), hourly records with columns `time`, `value` and `flag`, and tables without a
header whose last column is the response. For each response the transforms are judged as response="auto" does, and again
on other stretches of rows (`--seeds`) and with fewer and more iterations. A line has the choice, how many of the other
judgements choose something else, and the lead of the best transform over the second, with its standard error (of means
over stretches of readings) and the range of the lead over the judgements.

With --held-out, where the two are nearer than --near: each fifth unflagged reading is left out, both transforms are
fitted to the others, and the line ends with the MSE of the second over that of the first.
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
from biasgp.models.transform_choice import Verdict, candidates, chosen, judge, judged_rows

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


def held_out_error(data: Data, kernel, response: str) -> float:
    """MSE of valid readings that the fit has not seen."""
    _, X, y, valid = data
    some = np.arange(min(len(y), MOST_FITTED))
    out = np.flatnonzero(valid[some])[::5]
    kept = np.setdiff1d(some, out)
    model = SparseBiasGP(kernel, response=response, order=None).fit(X[kept], y[kept])
    return float(np.mean((model.predict(X[out]) - y[out]) ** 2))


def line(data: Data, name: str, options: argparse.Namespace) -> str:
    """All about the choice for one response."""
    title, X, y, _ = data
    kernel = KERNELS[name](ard=True)
    verdicts = judged(X, y, kernel, 0)
    pick = chosen(verdicts).transform.name
    others = [judged(X, y, kernel, seed) for seed in options.seeds]
    for iterations in () if options.rows_only else ITERATIONS:
        with patch.object(transform_choice, "MAX_ITERATIONS", iterations):
            others.append(judged(X, y, kernel, 0))
    changed = sum(chosen(each).transform.name != pick for each in others)
    first, second = sorted(verdicts, key=lambda verdict: -verdict.score)[:2]
    gap, error = lead(first, second)
    pair = [next(v.score for v in each if v.transform.name == first.transform.name) for each in others]
    rest = [next(v.score for v in each if v.transform.name == second.transform.name) for each in others]
    gaps = np.append(np.subtract(pair, rest), gap)
    scores = " ".join(f"{v.transform.name[:3]} {v.score:7.3f}" for v in verdicts)
    text = (
        f"{title:32} {name:11} {pick:11} changed {changed}/{len(others)} | {first.transform.name} before "
        f"{second.transform.name} by {gap:.3f} ± {error:.3f} ({gaps.min():+.3f} to {gaps.max():+.3f}) | {scores}"
    )
    if options.held_out and gap < options.near:
        errors = [held_out_error(data, kernel, verdict.transform.name) for verdict in (first, second)]
        text += f" | MSE of the second over that of the first {errors[1] / errors[0]:.3f}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--kernels", nargs="+", default=["matern32"], choices=sorted(KERNELS))
    parser.add_argument("--only", default="", help="responses whose names contain this")
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2], help="of other choices of rows")
    parser.add_argument("--rows-only", action="store_true", help="change the rows, not the iterations")
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--near", type=float, default=0.05, help="nats per reading")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for path in options.files:
            for data in (each for each in responses(path) if options.only in each[0]):
                for kernel in options.kernels:
                    print(line(data, kernel, options), flush=True)


if __name__ == "__main__":
    main()
