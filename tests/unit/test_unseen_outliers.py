"""Outliers of a kind that a fit has not seen, or that the few hundred readings at its beginning did not have."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from biasgp import SparseBiasGP
from biasgp.kernels import Matern32
from biasgp.models.sparse.kinds import PRIOR, Group, Slab

SHIFTED = Slab.of_groups([Group(0.2, 2.0, 1e-4)], replaced=False)
REPLACED = Slab.of_groups([Group(0.2, 5.0, 1e-4)], replaced=True)
every_slab = pytest.mark.parametrize("slab", [SHIFTED, REPLACED], ids=["shifted", "replaced"])


def log_density(slab: Slab, y: np.ndarray) -> np.ndarray:
    joint = slab.log_predictive(y, np.zeros(len(y)), np.full(len(y), 0.01))
    return np.array([joint[:, 0], logsumexp(joint[:, 1:], axis=1)])


@every_slab
def test_a_density_with_the_unseen_kind_is_one(slab):
    grid = np.linspace(-40.0, 40.0, 400_001)
    density = np.exp(logsumexp(log_density(slab.with_unseen(PRIOR.unseen(100)), grid), axis=0))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-6)


@every_slab
def test_far_readings_on_the_other_side_are_outliers_with_it_alone(slab):
    far = np.array([-3.0, -10.0, -100.0])
    for known, expected in ((slab, False), (slab.with_unseen(PRIOR.unseen(100)), True)):
        clean, out = log_density(known, far)
        assert np.all((out > clean) == expected)
    near = np.array([0.0, 0.2])
    clean, out = log_density(slab.with_unseen(PRIOR.unseen(100)), near)
    assert np.all(out < clean)


def test_its_share_is_what_the_prior_leaves():
    with_it = SHIFTED.with_unseen(PRIOR.unseen(90))
    assert PRIOR.unseen(90).share == pytest.approx(1.0 / 100.0)
    assert sum(with_it.shares) == pytest.approx(0.01 + 0.99 * 0.2)
    assert with_it.seen == with_it.groups[:-1] and REPLACED.with_unseen(PRIOR.unseen(90)).seen == REPLACED.groups


def record(n: int, rare: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Readings 2.5 % of which are 2 too high, and a few 4 too low; the noise has a standard deviation of .1."""
    rng, t = np.random.default_rng(0), np.arange(float(n))
    y = np.sin(t / 40.0) + 0.5 * np.sin(t / 13.0) + 0.1 * rng.standard_normal(n)
    out = rng.choice(n, n // 40, replace=False)
    y[out] += 2.0
    y[out[:rare]] -= 6.0
    return t[:, None], y, out


@pytest.mark.parametrize("rare", [0, 1, 6])
@pytest.mark.parametrize("approximation", ["vecchia", "state-space"])
def test_among_many_readings_a_rare_kind_is_found(approximation, rare):
    X, y, out = record(3000, rare)
    model = SparseBiasGP(Matern32(), order=None, approximation=approximation).fit(X, y)
    assert set(np.flatnonzero(model.outlier_mask_)) == set(out)
    np.testing.assert_allclose(model.bias_[out[:rare]], -4.0, atol=0.4)
    assert len(model.groups_) == (1 if rare == 0 else 2)


def test_a_new_reading_of_a_kind_that_was_not_seen_is_an_outlier():
    X, y, _ = record(200, 0)
    model = SparseBiasGP(Matern32(), order=None).fit(X, y)
    f = model.predict(X[:3])
    for off in (-1e6, -100.0, -4.0, -1.5, 2.0, 100.0):
        assert np.all(model.outlier_probability(X[:3], f + off) > 0.9)
        assert np.all(model.log_predictive_density(X[:3], f + off) > -40.0)
    assert np.all(model.outlier_probability(X[:3], f) < 0.01)


@pytest.mark.parametrize("response", ["identity", "log"])
def test_the_density_of_a_new_reading_is_one_and_nothing_is_impossible(response):
    X, y, _ = record(200, 0)
    model = SparseBiasGP(Matern32(), order=None, response=response).fit(X, np.exp(0.3 * y))
    far = np.sinh(np.linspace(-14.0, 14.0, 20_001))
    density = np.exp(model.log_predictive_density(np.repeat(X[:1], len(far), axis=0), far))
    assert np.trapezoid(density, far) == pytest.approx(1.0, abs=2e-3)
    assert np.all(model.log_predictive_density(X[:2], np.array([-1e4, 1e4])) > -40.0)
