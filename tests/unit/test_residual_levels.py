"""What residuals alone say of outliers: noise of two scales."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

from biasgp.models.sparse.residual_levels import TwoScales


def residuals(seed: int, share: float, wide: float, n: int = 200) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(n) * np.where(rng.uniform(size=n) < share, wide, 0.1)


def negative_log_likelihood(x: np.ndarray, values: np.ndarray) -> float:
    share, narrow, wide = expit(x[0]), np.exp(x[1]), np.exp(x[2])
    parts = [np.log(p) - 0.5 * (np.log(v) + values**2 / v) for p, v in ((1.0 - share, narrow), (share, wide))]
    return -float(np.logaddexp(*parts).sum())


@pytest.mark.parametrize(("share", "wide"), [(0.1, 1.0), (0.45, 1.0), (0.3, 5.0)])
def test_it_is_the_maximum_of_the_likelihood(share, wide):
    values = residuals(0, share, wide)
    found = TwoScales.of(values, tolerance=1e-9)
    here = np.array([logit(found.share), np.log(found.narrow), np.log(found.wide)])
    best = minimize(negative_log_likelihood, here, args=(values,), method="Nelder-Mead", options={"fatol": 1e-9})
    assert negative_log_likelihood(here, values) == pytest.approx(best.fun, abs=1e-3)


def test_many_outliers_of_all_sizes_do_not_count_as_noise():
    values = residuals(1, 0.45, 1.0)
    found = TwoScales.of(values)
    assert 0.07 < np.sqrt(found.narrow) < 0.14 and 0.7 < np.sqrt(found.wide) < 1.4 and 0.3 < found.share < 0.6
    assert found.wide_ones[np.abs(values) > 0.5].all() and not found.wide_ones[np.abs(values) < 0.1].any()


@pytest.mark.parametrize("values", [np.zeros(5), np.ones(3), np.array([0.0, 0.0, 0.0, 1.0])])
def test_values_without_a_spread_are_no_error(values):
    found = TwoScales.of(values)
    assert np.isfinite([found.narrow, found.wide, found.share]).all() and found.narrow <= found.wide
