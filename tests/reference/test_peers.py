"""Against the best that any peer reached on the reference data sets, those that were told the outliers aside."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from peers import SETS, read, results

from biasgp import SparseBiasGP
from biasgp.metrics import mse, nlpd, precision, recall

every_set = pytest.mark.parametrize(("dataset", "scenario", "replicate"), SETS)


def best_of_peers(dataset, scenario, replicate, score):
    of_set = results(dataset, scenario, replicate)
    return np.nanmin([figures[score] for method, figures in of_set.items() if "oracle" not in method])


@cache
def fitted(dataset, scenario, replicate):
    X, y, _ = read(dataset, scenario, replicate, "train")
    return SparseBiasGP().fit(X, y)


@every_set
def test_mean_squared_error_is_the_best_peers_or_less(dataset, scenario, replicate):
    X, y, _ = read(dataset, scenario, replicate, "test")
    found = mse(y, fitted(dataset, scenario, replicate).predict(X))
    assert found <= 1.01 * best_of_peers(dataset, scenario, replicate, "mse")


@every_set
def test_predictive_density_is_the_best_peers_or_higher(dataset, scenario, replicate):
    X, y, _ = read(dataset, scenario, replicate, "test")
    mean, std = fitted(dataset, scenario, replicate).predict(X, return_std=True, include_noise=True)
    assert nlpd(y, mean, std) <= best_of_peers(dataset, scenario, replicate, "nlpd") + 0.01


@every_set
def test_outliers_are_found(dataset, scenario, replicate):
    _, _, is_outlier = read(dataset, scenario, replicate, "train")
    flagged = fitted(dataset, scenario, replicate).outlier_mask_
    assert precision(is_outlier, flagged) >= 0.97
    assert recall(is_outlier, flagged) >= 0.95
