"""What each posterior says of a reading without it, against posteriors that never had it.

Everywhere the parameters are held, and so is what else the method has: biases (constant bias), variances of the biases
(random bias), labels (sparse bias), sites (EP, Laplace), the draws (MCMC).
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP, SparseBiasGP
from biasgp.analysis.fitting import Fitted, Selection, Settings
from biasgp.analysis.judging import examine
from biasgp.covariance.posterior import DensePosterior
from biasgp.covariance.signed import SignedFactor
from biasgp.covariance.vecchia_posterior import VecchiaPosterior
from biasgp.data.columns import Feature, Readings
from biasgp.kernels import Matern32
from biasgp.models import constant_bias, gaussian, random_bias, scale_mixture, sparse, student_t
from biasgp.models.problem import Problem
from biasgp.models.strategy import NearestNeighbours

N = 30
FAR = 13
"""The row of an outlier that no label could be in doubt about."""
EVERYONE = np.arange(N)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    X = np.sort(rng.uniform(0.0, 6.0, N))[:, None]
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(N)
    y[FAR] += 8.0
    return X, y, Matern32().bind(X), np.zeros(N)


def given_the_others(kernel, X, K, residual):
    """f at each reading from the rows of K and of y − δ that are not its own."""
    C, out = kernel(X), np.empty((2, len(X)))
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        weights = np.linalg.solve(K[np.ix_(rest, rest)], C[rest, i])
        out[:, i] = weights @ residual[rest], C[i, i] - weights @ C[rest, i]
    return out


def test_plain(data):
    X, y, kernel, known = data
    fit = gaussian.fit(Problem(X, y, kernel, known), 50)
    K = fit.kernel(X) + fit.noise_variance * np.eye(N)
    assert_allclose(fit.posterior.leave_one_out(), given_the_others(fit.kernel, X, K, y), rtol=1e-7)


def test_constant_bias(data):
    X, y, kernel, known = data
    fit = constant_bias.fit(Problem(X, y, kernel, known), 50)
    K = fit.kernel(X) + fit.noise_variance * np.eye(N)
    assert fit.bias[FAR] > 5.0
    assert_allclose(fit.posterior.leave_one_out(), given_the_others(fit.kernel, X, K, y - fit.bias), rtol=1e-6)


def test_random_bias(data):
    X, y, kernel, known = data
    fit = random_bias.fit(Problem(X, y, kernel, known), 50)
    K = fit.kernel(X) + np.diag(fit.bias_variance)
    assert_allclose(fit.posterior.leave_one_out(), given_the_others(fit.kernel, X, K, y - fit.mean_bias), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::biasgp.UntrustworthyFitWarning")
@pytest.mark.parametrize("more", [0.0, 8.0], ids=["one outlier", "a group of three"])
def test_sparse_bias(data, more):
    X, y, kernel, known = data
    y = y + more * np.isin(EVERYONE, [4, 22])
    fit = sparse.fit(Problem(X, y, kernel, known), 50, np.random.default_rng(0))
    slab, labels = fit.slab, fit.labels
    assert labels[FAR] > 0 and np.abs(fit.probability - (labels > 0)).max() < 1e-3
    noise = fit.noise_variance + slab.added[labels]
    Z = slab.loadings[labels]
    K = fit.kernel(X) + np.diag(noise) + slab.mean_variance * Z @ Z.T
    inside = (labels == 0) | (not slab.replaced)
    mean, variance = fit.posterior.leave_one_out()
    expected = given_the_others(fit.kernel, X[inside], K[np.ix_(inside, inside)], y[inside])
    assert_allclose((mean[inside], variance[inside]), expected, rtol=1e-4, atol=1e-5)
    # One that was replaced is not in the GP, which predicts it as it would any other point.
    alone = fit.posterior.mean_and_variance(X[~inside])
    assert_allclose((mean[~inside], variance[~inside]), alone, rtol=1e-7)


@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_student_t(data, inference):
    X, y, kernel, known = data
    fit = student_t.fit(Problem(X, y, kernel, known), 50, inference=inference)
    assert fit.inference == inference
    posterior, C = fit.posterior, fit.kernel(X)
    precision = posterior.signed.precision
    assert precision.min() < 0.0  # the outlier's site
    shift = posterior.alpha + precision * (C @ posterior.alpha)
    expected = np.empty((2, N))
    for i in range(N):
        rest = i != EVERYONE
        factor = SignedFactor.factorise(C[np.ix_(rest, rest)], precision[rest])
        taken, returned = factor.explain(C[rest, i][:, None])
        back = 0.0 if returned is None else (returned**2).sum()
        expected[:, i] = C[i, rest] @ factor.solve(shift[rest])[0], C[i, i] - (taken**2).sum() + back
    assert_allclose(posterior.leave_one_out(), expected, rtol=1e-6, atol=1e-9)


def test_scale_mixture(data):
    X, y, kernel, known = data
    plan = scale_mixture.Plan(draws=6, tune=6, chains=2)
    posterior = scale_mixture.fit(Problem(X, y, kernel, known), 50, plan, np.random.SeedSequence(0)).posterior
    means, variances = np.empty((2, len(posterior.thetas), N))
    for d, (theta, noise) in enumerate(zip(posterior.thetas, posterior.noises, strict=True)):
        at = posterior.kernel.with_theta(theta)
        means[d], variances[d] = given_the_others(at, X, at(X) + np.diag(noise), y)
    expected = means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)
    assert_allclose(posterior.leave_one_out(), expected, rtol=1e-6)


def test_nearest_neighbours(data):
    X, y, kernel, known = data
    posterior = gaussian.fit(Problem(X, y, kernel, known), 50, NearestNeighbours(6)).posterior
    found = np.transpose(posterior.leave_one_out())
    for i in range(N):
        rest = i != EVERYONE
        without = VecchiaPosterior(
            posterior.kernel, X[rest], y[rest], posterior.noise[rest], posterior.neighbours, posterior.jitter
        )
        assert_allclose(found[i], np.ravel(without.mean_and_variance(X[[i]])), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::biasgp.UntrustworthyFitWarning")
def test_nearest_neighbours_leave_out_what_was_dropped(data):
    X, y, kernel, known = data
    fit = sparse.fit(Problem(X, y, kernel, known), 50, np.random.default_rng(0), NearestNeighbours(N - 1))
    mean, variance = fit.posterior.leave_one_out()
    dropped = fit.labels > 0
    assert dropped[FAR] and np.array_equal(np.isnan(mean), dropped) and np.array_equal(np.isnan(variance), dropped)
    expected = DensePosterior.of(fit.kernel, X[~dropped], fit.posterior.noise, y[~dropped])
    assert_allclose((mean[~dropped], variance[~dropped]), expected.leave_one_out(), rtol=1e-5, atol=1e-9)


# What the command makes of it.

APPROXIMATE = {
    f"{kind.__name__} by neighbours": lambda kind=kind: kind(Matern32(), approximation="vecchia")
    for kind in (GaussianGP, ConstantBiasGP, RandomBiasGP, SparseBiasGP)
}
EVERY_METHOD = {
    name: (lambda name=name: Settings(method=name, response="identity").estimator())
    for name in ("gp", "cob", "rab", "sparse", "ep", "mcmc", "rcgp")
} | APPROXIMATE


@pytest.fixture(scope="module")
def clean_readings():
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(0.0, 20.0, 120))[:, None]
    y = 40.0 + 10.0 * np.sin(X[:, 0]) + 2.0 * rng.standard_normal(120)
    return Readings("y", (Feature("x", ("x",)),), X, y, np.ones(120, dtype=bool), (), None, ())


@pytest.mark.parametrize("method", list(EVERY_METHOD))
def test_standardised_residuals_of_clean_readings_have_standard_deviation_one(method, clean_readings):
    readings = clean_readings
    estimator, n = EVERY_METHOD[method](), len(readings.y)
    if hasattr(estimator, "draws"):
        estimator.set_params(draws=15, tune=15, chains=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimator.fit(readings.frame(np.arange(n)), readings.y)
    fitted = Fitted(estimator, np.arange(n), np.empty(0, dtype=np.intp), (), 0.0)
    found = examine(Selection("t.csv"), Settings(), "t.csv", readings, fitted).residual
    # The standard error of a standard deviation from 120 readings is 6 %.
    assert np.nanstd(found) == pytest.approx(1.0, abs=0.2)
    assert np.nanmean(found) == pytest.approx(0.0, abs=0.3)
    assert np.isnan(found).mean() < 0.05
