"""Student-t noise: Gaussians that stand for most of it, and the errors that are too large for them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from scipy.stats import t as student

from biasgp.models.t_noise import StudentT, exceedance


@pytest.mark.parametrize("nu", [0.7, 1.0, 4.0, 1e6])
def test_the_core_of_a_t_is_as_high_as_the_t(nu):
    t = StudentT(0.3, nu)
    assert_allclose(norm.pdf(0.0, scale=np.sqrt(t.core_variance)), student.pdf(0.0, nu, scale=np.sqrt(0.3)), rtol=1e-6)


@pytest.mark.parametrize("nu", [0.7, 1.0, 4.0, 1e6])
def test_a_quarter_of_the_errors_is_beyond_the_quartile_of_its_gaussian(nu):
    quartile = norm.ppf(0.75, scale=StudentT(0.3, nu).quartile_std)
    assert_allclose(student.sf(quartile, nu, scale=np.sqrt(0.3)), 0.25, rtol=1e-6)


def test_errors_beyond_a_limit_are_those_of_the_normal(rng):
    mean, spread, limit = np.array([0.3, -2.0, 5.0]), np.array([1.0, 0.5, 2.0]), 1.5
    probability, bias = exceedance(mean, spread, limit)
    draws = mean + spread * rng.standard_normal((200_000, 3))
    outside = np.abs(draws) > limit
    assert_allclose(probability, outside.mean(axis=0), atol=0.005)
    assert_allclose(bias, (draws * outside).mean(axis=0), atol=0.02)


def test_errors_that_are_known_exactly_are_beyond_a_limit_or_not():
    probability, bias = exceedance(np.array([1.0, -2.0, 1e60]), np.array([0.0, 1e-200, 1e-150]), 1.5)
    assert_allclose(probability, [0.0, 1.0, 1.0])
    assert_allclose(bias, [0.0, -2.0, 1e60])
