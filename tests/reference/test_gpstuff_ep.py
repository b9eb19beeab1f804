"""StudentTGP on GPstuff's reference data: never worse than its robust EP by more than a few per cent."""

from __future__ import annotations

import numpy as np
import pytest
from gpstuff import needs_reference, read, results

from biasgp import metrics
from biasgp.estimators.student_t import StudentTGP

pytestmark = needs_reference


@pytest.mark.parametrize("replicate", [0, 1])
@pytest.mark.parametrize("scenario", [1, 8])
@pytest.mark.parametrize("dataset", ["1d", "friedman"])
def test_as_accurate_as_gpstuff(dataset, scenario, replicate):
    name = f"{dataset}-scenario{scenario}-replicate{replicate}"
    theirs = results("gpstuff_ep", dataset, scenario, replicate)
    model = StudentTGP().fit(*read(f"{name}-train.csv"))
    X, y = read(f"{name}-test.csv")
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
