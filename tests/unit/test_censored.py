"""Censored readings: their likelihood against SciPy's, EP's gradient, and what the estimators make of limits."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal, norm

from biasgp import ConstantBiasGP, GaussianGP, SparseBiasGP, StudentTGP
from biasgp.covariance.dense_engine import DenseEngine
from biasgp.kernels import Matern32
from biasgp.models.censored import CensoredLikelihood, Sites, log_likelihood, log_probability, settle
from biasgp.models.problem import Problem
from biasgp.models.strategy import EXACT, InOrderOfTime, NearestNeighbours
from biasgp.persistence import load_model, save_model


def problem(n: int, n_censored: int, seed: int) -> tuple[Problem, float]:
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0.0, 3.0, n))[:, None]
    side = np.zeros(n)
    side[rng.permutation(n)[:n_censored]] = rng.choice([-1.0, 1.0], n_censored)
    kernel = Matern32(length_scale=rng.uniform(0.3, 3.0), variance=1.3).bind(X)
    known = rng.uniform(0.0, 0.1, n)
    return Problem(X, rng.standard_normal(n), kernel, known, censored=side), float(rng.uniform(0.05, 0.5))


def by_scipy(each: Problem, noise: float) -> float:
    """Density of the measured readings, and SciPy's probability of the others' sides given these."""
    K, out = each.kernel(each.X) + np.diag(noise + each.known), each.is_censored
    mean, S, density = np.zeros(out.sum()), K[np.ix_(out, out)], 0.0
    if not out.all():
        gain = np.linalg.solve(K[np.ix_(~out, ~out)], K[np.ix_(~out, out)])
        mean, S = gain.T @ each.y[~out], S - K[np.ix_(out, ~out)] @ gain
        density = multivariate_normal.logpdf(each.y[~out], np.zeros((~out).sum()), K[np.ix_(~out, ~out)])
    sign = -each.censored[out]
    options = {"abseps": 1e-12, "releps": 1e-12, "maxpts": 1_000_000}
    if "rng" in signature(multivariate_normal.cdf).parameters:  # earlier versions take none
        options["rng"] = 0
    inside = multivariate_normal.cdf(
        sign * (each.y[out] - mean), np.zeros(out.sum()), S * np.outer(sign, sign), **options
    )
    return float(density + np.log(inside))


CASES = [(1, 1, 0), (2, 1, 1), (2, 2, 2), (3, 2, 3), (3, 3, 4), (4, 2, 5), (4, 3, 6), (4, 4, 7)]


@pytest.mark.parametrize("n, n_censored, seed", CASES)
def test_the_likelihood_is_that_of_scipy(n, n_censored, seed):
    each, noise = problem(n, n_censored, seed)
    assert abs(log_likelihood(each, each.kernel, noise, EXACT) - by_scipy(each, noise)) < 1e-6


@pytest.mark.parametrize("n, n_censored, seed", CASES)
def test_that_of_expectation_propagation_is_near(n, n_censored, seed):
    each, noise = problem(n, n_censored, seed)
    x = np.append(each.kernel.theta, np.log(noise))
    value, _ = CensoredLikelihood(DenseEngine(each.X), each)(x)
    exact = log_likelihood(each, each.kernel, noise, EXACT)
    assert abs(-value - exact) < (1e-9 if n_censored == 1 else 0.03)


def test_far_tails_keep_their_digits():
    found = log_probability(np.zeros(2), np.eye(2), np.array([-1.0, 1.0]), np.array([-20.0, 25.0]))
    assert found == pytest.approx(norm.logcdf(-20.0) + norm.logsf(25.0), rel=1e-12)


def test_what_quadrature_cannot_tell_is_nan():
    same = np.full((3, 3), 1.0) + 1e-9 * np.eye(3)
    assert np.isnan(log_probability(np.zeros(3), same, np.array([-1.0, 1.0, -1.0]), np.array([0.3, 0.29, 0.5])))


@pytest.mark.parametrize("strategy", [EXACT, InOrderOfTime(), NearestNeighbours(29)], ids=["exact", "time", "vecchia"])
def test_the_gradient_of_the_evidence(strategy):
    each, noise = problem(30, 12, 11)
    likelihood = CensoredLikelihood(strategy.engine(each.kernel, each.X), each)
    x = np.append(each.kernel.theta, np.log(noise)) + 0.1
    value, gradient = likelihood(x)
    numerical = approx_fprime(x, lambda at: likelihood(at)[0], 1e-5)
    np.testing.assert_allclose(gradient, numerical, atol=2e-3)
    assert value == pytest.approx(CensoredLikelihood(DenseEngine(each.X), each)(x)[0], abs=1e-6)


def test_sites_converge_where_limits_are_contradicted_or_say_nothing():
    each, noise = problem(40, 20, 5)
    each = Problem(each.X, np.where(each.is_censored, 5.0, each.y), each.kernel, each.known, censored=each.censored)
    found = settle(DenseEngine(each.X), each.kernel, noise, each, Sites.first(each))
    assert found.converged and (found.sites.variance > 0.0).all() and np.isfinite(found.log_scale)


def below_a_limit(seed: int, n: int = 90, share: float = 0.3, outliers: int = 6):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0.0, 20.0, n))[:, None]
    f = np.sin(X[:, 0]) + 0.5 * np.sin(2.3 * X[:, 0])
    y = f + 0.15 * rng.standard_normal(n)
    limit = np.quantile(y, share)
    out = rng.permutation(np.flatnonzero(y > limit))[:outliers]
    y[out] += 5.0
    return X, f, np.maximum(y, limit), np.where(y < limit, -1.0, 0.0), np.sort(out)


def test_readings_below_a_limit_say_more_than_the_limit():
    X, f, y, side, out = below_a_limit(0)
    model = SparseBiasGP(Matern32(), order=None).fit(X, y, censored=side)
    at_limit = SparseBiasGP(Matern32(), order=None).fit(X, y)
    where = side < 0.0
    error, other = (np.mean((each.predict(X) - f)[where] ** 2) for each in (model, at_limit))
    assert error < 0.5 * other
    np.testing.assert_array_equal(np.flatnonzero(model.outlier_mask_), out)
    assert (model.outlier_probability_[where] == 0.0).all() and (model.bias_[where] == 0.0).all()
    np.testing.assert_array_equal(model.censored_, side)
    assert np.isnan(model.verdict_).all()


def test_a_reading_above_is_the_mirror_image_of_one_below():
    X, _, y, side, _ = below_a_limit(1, n=60, outliers=0)
    below = GaussianGP(Matern32()).fit(X, y, censored=side)
    above = GaussianGP(Matern32()).fit(X, -y, censored=-side)
    np.testing.assert_allclose(above.predict(X), -below.predict(X), atol=1e-3)
    assert above.log_marginal_likelihood_ == pytest.approx(below.log_marginal_likelihood_, abs=1e-4)


def test_without_limits_nothing_changes():
    X, _, y, _, _ = below_a_limit(2, n=40)
    plain, said = GaussianGP(Matern32()).fit(X, y), GaussianGP(Matern32()).fit(X, y, censored=np.zeros(40))
    np.testing.assert_array_equal(plain.predict(X), said.predict(X))


def test_the_likelihood_of_the_estimator_is_in_the_units_of_y():
    X, _, y, side, _ = below_a_limit(3, n=40, share=0.05)
    model = GaussianGP(Matern32(), response="log").fit(X, np.exp(y), censored=side)
    assert 0 < np.count_nonzero(side) <= 4
    scaling, kernel = model._scaling, model._posterior.kernel
    each = Problem(X, scaling.forward(np.exp(y)), kernel, np.zeros(40), censored=side)
    wanted = by_scipy(each, model._scaled_noise_variance) + scaling.log_slope(np.exp(y[side == 0.0])).sum()
    assert model.log_marginal_likelihood_ == pytest.approx(wanted, abs=1e-6)


def test_verdicts_beside_limits(tmp_path):
    X, _, y, side, out = below_a_limit(4, n=60, outliers=3)
    model = SparseBiasGP(Matern32(), order=None).fit(X, y, censored=side)
    verdict = np.full(60, np.nan)
    verdict[out[0]] = 0.0
    assert not model.refit(verdict).outlier_mask_[[out[0], *np.flatnonzero(side)]].any()
    columns = model.explain_all()
    assert np.isnan(columns["log_odds"][side < 0.0]).all() and np.isfinite(columns["log_odds"][side == 0.0]).all()
    with pytest.raises(ValueError, match="is censored"):
        model.explain(int(np.flatnonzero(side)[0]))
    verdict[np.flatnonzero(side)[1]] = 1.0
    with pytest.raises(ValueError, match=f"verdict, row {np.flatnonzero(side)[1]}: a censored reading cannot be bad"):
        model.refit(verdict)
    with pytest.raises(ValueError, match="cannot go on from limits"):
        model.stream()
    save_model(tmp_path / "m.skops", model)
    loaded = load_model(tmp_path / "m.skops")
    loaded = loaded[0] if isinstance(loaded, tuple) else loaded
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert not loaded.refit().outlier_mask_[side < 0.0].any()


@pytest.mark.parametrize(
    "censored, words",
    [
        ([0, 2, 0, 0, 0, 0], "censored, row 1: 2 is none"),
        ([0, -1, 0], r"one value per reading, shape \(6,\)"),
        ([-1, -1, 1, 1, 0, 0], "leaves 2 measured readings"),
        ([0, 0, "a", 0, 0, 0], "censored, row 2: 'a' is not a number"),
        ([0, 0, np.nan, 0, 0, 0], "censored, row 2: nan"),
    ],
)
def test_what_is_no_side_is_refused(censored, words):
    X, y = np.arange(6.0)[:, None], np.arange(6.0) % 3
    with pytest.raises(ValueError, match=words):
        GaussianGP().fit(X, y, censored=np.array(censored, dtype=object))


@pytest.mark.parametrize("kind", [ConstantBiasGP, StudentTGP])
def test_estimators_that_cannot_use_limits_say_so(kind):
    X, y = np.arange(6.0)[:, None], np.arange(6.0) % 3
    with pytest.raises(ValueError, match=f"{kind.__name__} cannot use censored readings. Use SparseBiasGP"):
        kind().fit(X, y, censored=[0, 0, 0, -1, 0, 0])
