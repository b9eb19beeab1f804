"""The reference data sets, and what other packages made of them (data/README.md)."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data"
SETS = [(dataset, scenario, replicate) for dataset in ("1d", "friedman") for scenario in (1, 8) for replicate in (0, 1)]


def read(dataset, scenario, replicate, part):
    """Inputs, readings, and the last column of a data set: outliers ("train") or f ("test")."""
    table = np.loadtxt(DATA / f"{dataset}-scenario{scenario}-replicate{replicate}-{part}.csv", delimiter=",")
    return table[:, :-2], table[:, -2], table[:, -1]


def results(dataset, scenario, replicate):
    """The figures of each method on a data set; NaN where it has none."""
    with (DATA / "results.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if _set_of(row) == (dataset, scenario, replicate)]
    numbers = ("mse", "nlpd", "nlpd_exact", "cpu_s", "nu", "sigma")
    return {row["method"]: {name: float(row[name] or "nan") for name in numbers} for row in rows}


def _set_of(row):
    return row["dataset"], int(row["scenario"]), int(row["replicate"])
