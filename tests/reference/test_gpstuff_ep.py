"""StudentTGP on GPstuff's reference data: never worse than its robust EP by more than a few per cent."""

from __future__ import annotations

import numpy as np
import pytest
from peers import SETS, read, results

from biasgp import metrics
from biasgp.estimators.student_t import StudentTGP


@pytest.mark.parametrize(("dataset", "scenario", "replicate"), SETS)
def test_as_accurate_as_gpstuff(dataset, scenario, replicate):
    theirs = results(dataset, scenario, replicate)["gpstuff_ep"]
    X_train, y_train, _ = read(dataset, scenario, replicate, "train")
    model = StudentTGP().fit(X_train, y_train)
    X, y, _ = read(dataset, scenario, replicate, "test")
    mean, std = model.predict(X, return_std=True)
    assert model.converged_
    assert metrics.mse(y, mean) <= 1.03 * theirs["mse"]
    for noise in (model.noise_variance_, model.scale_**2):  # ours, and GPstuff's
        assert metrics.nlpd(y, mean, np.sqrt(std**2 + noise)) <= theirs["nlpd"] + 0.03
    assert -model.log_predictive_density(X, y).mean() <= theirs["nlpd_exact"] + 0.03
    if (dataset, scenario) == ("1d", 1):
        # One input, few outliers: GPstuff's priors hardly matter, and its parameters must be ours.
        np.testing.assert_allclose(model.scale_, theirs["sigma"], rtol=0.02)
        np.testing.assert_allclose(model.degrees_of_freedom_, theirs["nu"], rtol=0.02)
