"""ScaleMixtureGP on GPstuff's reference data: as accurate as its sampler, and the same posterior where priors agree.

The other data sets take minutes: benchmarks/scale_mixture.py.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from biasgp import ScaleMixtureGP, metrics

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference"
pytestmark = pytest.mark.skipif(not (REFERENCE / "results.csv").exists(), reason="no reference data here")


def read(name):
    table = np.loadtxt(REFERENCE / name, delimiter=",")
    return table[:, :-2], table[:, -2]


def gpstuff(dataset, scenario, replicate):
    with (REFERENCE / "results.csv").open() as file:
        for row in csv.DictReader(file):
            key = (row["method"], row["dataset"], int(row["scenario"]), int(row["replicate"]))
            if key == ("gpstuff_mcmc", dataset, scenario, replicate):
                return {name: float(row[name]) for name in ("mse", "nlpd", "nlpd_exact", "nu", "sigma")}
    raise LookupError(f"results.csv has no gpstuff_mcmc on {dataset}, scenario {scenario}, replicate {replicate}")


def test_as_accurate_as_gpstuff_and_mixed_by_default():
    """One input, few outliers: priors hardly matter, and the parameters must be GPstuff's."""
    theirs = gpstuff("1d", 1, 1)
    model = ScaleMixtureGP().fit(*read("1d-scenario1-replicate1-train.csv"))
    X, y = read("1d-scenario1-replicate1-test.csv")
    mean, std = model.predict(X, return_std=True, include_noise=True)
    assert max(model.r_hat_.values()) <= 1.05
    assert model.converged_
    assert metrics.mse(y, mean) <= 1.03 * theirs["mse"]
    assert metrics.nlpd(y, mean, std) <= theirs["nlpd"] + 0.03
    assert -model.log_predictive_density(X, y).mean() <= theirs["nlpd_exact"] + 0.03
    np.testing.assert_allclose(np.sqrt(model.noise_variance_), theirs["sigma"], rtol=0.06)
    np.testing.assert_allclose(model.degrees_of_freedom_, theirs["nu"], rtol=0.1)


@pytest.mark.filterwarnings("ignore::biasgp.MixingWarning")
def test_many_inputs_many_outliers_in_a_short_run():
    """GPstuff's chains may sit in a near-Gaussian mode here; ours must not even begin there."""
    theirs = gpstuff("friedman", 8, 0)
    model = ScaleMixtureGP(draws=25, tune=60, chains=2).fit(*read("friedman-scenario8-replicate0-train.csv"))
    X, y = read("friedman-scenario8-replicate0-test.csv")
    assert model.degrees_of_freedom_ < 2.0
    assert metrics.mse(y, model.predict(X)) <= 1.03 * theirs["mse"]
