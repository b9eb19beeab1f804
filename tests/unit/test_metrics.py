"""Scores against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from biasgp.metrics import coverage, crps, mse, nlpd, precision, recall


def test_mse_is_the_mean_of_squares():
    assert mse([1.0, 2.0, 4.0], [1.0, 0.0, 3.0]) == pytest.approx(5 / 3)


@given(y=st.floats(-5, 5), mean=st.floats(-5, 5), std=st.floats(0.1, 4))
def test_nlpd_is_the_normal_density(y, mean, std):
    assert nlpd([y], [mean], [std]) == pytest.approx(-stats.norm(mean, std).logpdf(y), rel=1e-10, abs=1e-12)


@given(y=st.floats(-4, 4), mean=st.floats(-2, 2), std=st.floats(0.2, 3))
def test_crps_is_the_integral_of_the_squared_cdf_error(y, mean, std):
    cdf = stats.norm(mean, std).cdf
    below = quad(lambda u: cdf(u) ** 2, -40, y, limit=200)[0]
    above = quad(lambda u: (1 - cdf(u)) ** 2, y, 40, limit=200)[0]
    assert crps([y], [mean], [std]) == pytest.approx(below + above, abs=1e-6)


def test_crps_has_the_unit_of_y_and_tends_to_the_absolute_error():
    assert crps([30.0], [10.0], [20.0]) == pytest.approx(10 * crps([3.0], [1.0], [2.0]))
    assert crps([3.0], [1.0], [1e-9]) == pytest.approx(2.0)


def test_coverage_counts_the_central_interval():
    y = np.array([0.0, 1.9, -1.9, 2.0, -2.5])
    assert coverage(y, np.zeros(5), np.ones(5)) == pytest.approx(0.6)
    assert coverage(y, np.zeros(5), np.ones(5), level=0.5) == pytest.approx(0.2)
    assert coverage(y, np.zeros(5), 10 * np.ones(5)) == 1.0


def test_coverage_of_a_right_forecast_is_its_level(rng):
    y = rng.standard_normal(20_000)
    assert coverage(y, np.zeros_like(y), np.ones_like(y), 0.8) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_coverage_refuses_a_level_outside_its_range(level):
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        coverage([0.0], [0.0], [1.0], level)


def test_precision_and_recall_of_a_worked_example():
    truth = [True, True, False, False, True]
    flagged = [True, False, True, False, True]
    assert precision(truth, flagged) == pytest.approx(2 / 3)
    assert recall(truth, flagged) == pytest.approx(2 / 3)
    assert precision(truth, [True, False, False, False, False]) == 1.0
    assert recall(truth, [True, False, False, False, False]) == pytest.approx(1 / 3)


def test_nothing_flagged_or_nothing_to_find_is_not_a_division_by_zero():
    assert precision([True, False], [False, False]) == 1.0
    assert recall([True, False], [False, False]) == 0.0
    assert recall([False, False], [True, False]) == 1.0
    assert precision([False, False], [True, False]) == 0.0


def test_arrays_must_match():
    with pytest.raises(ValueError, match="y has 2, mean has 3"):
        mse([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="at least 1"):
        mse([], [])


@pytest.mark.parametrize("score", [nlpd, crps, coverage])
def test_std_must_be_positive(score):
    with pytest.raises(ValueError, match="include_noise=True"):
        score([1.0, 2.0], [1.0, 2.0], [1.0, 0.0])
