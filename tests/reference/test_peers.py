"""Against the best that any peer reached on the reference data sets, those that were told the outliers aside."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from biasgp import SparseBiasGP
from biasgp.metrics import mse, nlpd, precision, recall

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
SETS = [(dataset, scenario, replicate) for dataset in ("1d", "friedman") for scenario in (1, 8) for replicate in (0, 1)]

pytestmark = pytest.mark.skipif(not (REFERENCE / "results.csv").exists(), reason="the reference data are not here")
every_set = pytest.mark.parametrize(("dataset", "scenario", "replicate"), SETS)


@cache
def readings(dataset, scenario, replicate, part):
    path = REFERENCE / f"{dataset}-scenario{scenario}-replicate{replicate}-{part}.csv"
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    table = np.loadtxt(path, delimiter=",")
    return table[:, :-2], table[:, -2], table[:, -1]


def best_of_peers(dataset, scenario, replicate, score):
    with (REFERENCE / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    of_set = [
        float(row[score])
        for row in rows
        if (row["dataset"], row["scenario"], row["replicate"]) == (dataset, str(scenario), str(replicate))
        and "oracle" not in row["method"]
    ]
    return np.nanmin(of_set)


@cache
def fitted(dataset, scenario, replicate):
    X, y, _ = readings(dataset, scenario, replicate, "train")
    return SparseBiasGP().fit(X, y)


@every_set
def test_mean_squared_error_is_the_best_peers_or_less(dataset, scenario, replicate):
    X, y, _ = readings(dataset, scenario, replicate, "test")
    found = mse(y, fitted(dataset, scenario, replicate).predict(X))
    assert found <= 1.01 * best_of_peers(dataset, scenario, replicate, "mse")


@every_set
def test_predictive_density_is_the_best_peers_or_higher(dataset, scenario, replicate):
    X, y, _ = readings(dataset, scenario, replicate, "test")
    mean, std = fitted(dataset, scenario, replicate).predict(X, return_std=True, include_noise=True)
    assert nlpd(y, mean, std) <= best_of_peers(dataset, scenario, replicate, "nlpd") + 0.01


@every_set
def test_outliers_are_found(dataset, scenario, replicate):
    _, _, is_outlier = readings(dataset, scenario, replicate, "train")
    flagged = fitted(dataset, scenario, replicate).outlier_mask_
    assert precision(is_outlier, flagged) >= 0.97
    assert recall(is_outlier, flagged) >= 0.95
