"""ScaleMixtureGP on GPstuff's reference data: as accurate as its sampler, and the same posterior where priors agree.

The other data sets take minutes: benchmarks/scale_mixture.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from peers import read, results

from biasgp import ScaleMixtureGP, metrics


def test_as_accurate_as_gpstuff_and_mixed_by_default():
    """One input, few outliers: priors hardly matter, and the parameters must be GPstuff's."""
    theirs = results("1d", 1, 1)["gpstuff_mcmc"]
    model = ScaleMixtureGP().fit(*read("1d", 1, 1, "train")[:2])
    X, y, _ = read("1d", 1, 1, "test")
    mean, std = model.predict(X, return_std=True, include_noise=True)
    assert max(model.r_hat_.values()) <= 1.05
    assert model.converged_
    assert metrics.mse(y, mean) <= 1.03 * theirs["mse"]
    assert metrics.nlpd(y, mean, std) <= theirs["nlpd"] + 0.03
    assert -model.log_predictive_density(X, y).mean() <= theirs["nlpd_exact"] + 0.03
    np.testing.assert_allclose(model.scale_, theirs["sigma"], rtol=0.06)
    np.testing.assert_allclose(model.degrees_of_freedom_, theirs["nu"], rtol=0.1)


@pytest.mark.filterwarnings("ignore::biasgp.MixingWarning")
def test_many_inputs_many_outliers_in_a_short_run():
    """GPstuff's chains may sit in a near-Gaussian mode here; ours must not even begin there."""
    theirs = results("friedman", 8, 0)["gpstuff_mcmc"]
    model = ScaleMixtureGP(draws=25, tune=60, chains=2).fit(*read("friedman", 8, 0, "train")[:2])
    X, y, _ = read("friedman", 8, 0, "test")
    assert model.degrees_of_freedom_ < 2.0
    assert metrics.mse(y, model.predict(X)) <= 1.03 * theirs["mse"]
