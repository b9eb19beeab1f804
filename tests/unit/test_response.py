"""Robust scaling of the response."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from biasgp.response import Log, ScaledResponse, Scaling


@given(arrays(float, st.integers(3, 20), elements=st.floats(-1e6, 1e6)))
def test_there_and_back(y):
    scaling = Scaling.of(y)
    assert scaling.scale > 0
    # A spread that is rounding error of the level is given up.
    room = np.ptp(y) if scaling.constant else 1e-9 * np.abs(y).max()
    assert_allclose(scaling.backward(scaling.forward(y)), y, rtol=1e-9, atol=room)


def test_center_and_scale_are_median_and_mad(rng):
    y = rng.normal(5.0, 2.0, 20_001)
    scaling = Scaling.of(y)
    assert scaling.center == np.median(y)
    assert scaling.scale == pytest.approx(2.0, rel=0.03)
    assert np.median(scaling.forward(y)) == 0.0


def test_outliers_do_not_set_the_unit(rng):
    y = rng.standard_normal(101)
    dirty = y.copy()
    dirty[np.argsort(y)[-10:]] = 1e12
    assert Scaling.of(dirty).scale == pytest.approx(Scaling.of(y).scale, rel=0.3)


@given(st.sampled_from([1e-12, -3.0, 1e12]), st.floats(-10, 10))
def test_scaled_response_does_not_depend_on_the_unit(a, b):
    y = np.random.default_rng(0).standard_normal(30)
    assert_allclose(Scaling.of(a * (y + b)).forward(a * (y + b)), np.sign(a) * Scaling.of(y).forward(y), atol=1e-9)


def test_half_of_one_value_falls_back_on_the_mean_deviation():
    y = np.array([1.0, 1.0, 1.0, 1.0, 5.0])
    scaling = Scaling.of(y)
    assert not scaling.constant
    assert scaling.scale == pytest.approx(0.8)


@pytest.mark.parametrize("level", [0.0, 3.0, -1e12, 1e-12])
def test_a_constant_response_is_told_and_survives(level):
    scaling = Scaling.of(np.full(6, level))
    assert scaling.constant
    assert scaling.scale > 0
    assert_array_equal(scaling.forward(np.full(6, level)), np.zeros(6))
    assert_array_equal(scaling.backward(np.zeros(6)), np.full(6, level))


def test_rounding_errors_are_no_spread():
    assert Scaling.of(0.1 * 3 + np.spacing(0.3) * np.array([0, 1, -1, 0, 1])).constant
    assert not Scaling.of(1.0 + 1e-9 * np.arange(5)).constant


def test_a_spread_that_a_logarithm_would_lose_is_one():
    y = 1e15 + np.array([0.0, 8.0, -16.0, 24.0, 32.0])
    scaling = Scaling.of(y, Log.of(y))
    assert not scaling.constant
    assert_allclose(scaling.forward(y), Scaling.of(y).forward(y), atol=1e-9)
    assert_allclose(scaling.backward(scaling.forward(y)), y, rtol=0.0, atol=0.5)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e90])
def test_known_variances_end_where_a_reading_says_nothing(scale):
    y = scale * np.array([-1.0, 0.0, 1.0, 2.0, 1e40])
    response = ScaledResponse(y, Scaling.of(y))
    known = response.variances(np.array([0.0, scale**2, 1e200, 1e200, 1e200]))
    assert known[0] == 0.0
    assert known[1] == pytest.approx((scale / response.scaling.scale) ** 2)
    assert np.all(known * np.finfo(float).eps ** 2 <= 1.01 * np.maximum(1.0, response.z**2))
