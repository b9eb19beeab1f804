"""GPstuff's results on given data, where they are there."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference"
needs_reference = pytest.mark.skipif(not (REFERENCE / "results.csv").exists(), reason="no reference data here")


def read(name):
    """Inputs and noisy readings of a file."""
    table = np.loadtxt(REFERENCE / name, delimiter=",")
    return table[:, :-2], table[:, -2]


def results(method, dataset, scenario, replicate):
    """The scores and parameters of one of GPstuff's methods."""
    with (REFERENCE / "results.csv").open() as file:
        for row in csv.DictReader(file):
            key = (row["method"], row["dataset"], int(row["scenario"]), int(row["replicate"]))
            if key == (method, dataset, scenario, replicate):
                return {name: float(row[name]) for name in ("mse", "nlpd", "nlpd_exact", "nu", "sigma")}
    raise LookupError(f"results.csv has no {method} on {dataset}, scenario {scenario}, replicate {replicate}")
