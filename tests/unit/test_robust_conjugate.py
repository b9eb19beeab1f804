"""RCGP: its posterior and its objective against the formulas, its limit, and where it fails."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats
from test_models_gradients import assert_gradient_is_right, every_kernel, problem

from biasgp import GaussianGP, RobustConjugateGP
from biasgp.covariance.posterior import DensePosterior
from biasgp.kernels import Matern32, SquaredExponential
from biasgp.models import robust_conjugate
from biasgp.models.problem import Problem
from biasgp.models.robust_conjugate import FARTHEST, LeaveOneOut

seeds, sizes, scales = st.integers(0, 2**20), st.integers(2, 10), st.floats(0.2, 5.0)


def papers_posterior(K, K_new, diagonal_new, y, sigma2, c):
    """Proposition 3.1 as it is printed, for a prior mean of 0 and the derivative of log w² by differences."""

    def log_w2(y):
        return np.log(0.5 * sigma2 / (1.0 + y**2 / c**2))

    h = 1e-5
    m_w = sigma2 * (log_w2(y + h) - log_w2(y - h)) / (2.0 * h)
    J = np.diag(0.5 * sigma2 * np.exp(-log_w2(y)))
    inverse = np.linalg.inv(K + sigma2 * J)
    return K_new @ inverse @ (y - m_w), diagonal_new - np.einsum("ij,jk,ik->i", K_new, inverse, K_new)


@pytest.fixture(scope="module")
def few():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 3.0, (30, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(30)
    y[::7] += 3.0
    return X, y


@pytest.mark.parametrize("c", [None, 0.7, 40.0])
def test_the_posterior_is_the_papers(few, c):
    X, y = few
    model = RobustConjugateGP(Matern32(), c=c).fit(X, y)
    r, new = y - np.median(y), np.random.default_rng(1).uniform(0.0, 3.0, (12, 2))
    assert model.c_ == pytest.approx(np.quantile(np.abs(r), 0.9) if c is None else c)
    kernel = model.kernel_
    mean, variance = papers_posterior(kernel(X), kernel(new, X), kernel.diag(new), r, model.noise_variance_, model.c_)
    found, std = model.predict(new, return_std=True)
    assert_allclose(found - np.median(y), mean, rtol=1e-6, atol=1e-8)
    assert_allclose(std**2, variance, rtol=1e-6, atol=1e-8)
    assert_allclose(model.weights_, 1.0 / (1.0 + (r / model.c_) ** 2), rtol=1e-12)


@given(seed=seeds, n=sizes, c=scales)
def test_the_objective_is_the_density_of_each_reading_given_the_others(seed, n, c):
    X, y, bound, known, theta, rng = problem(SquaredExponential(ard=True), seed, n, True)
    x = np.append(theta, rng.uniform(-4, 1))
    kernel, clean = bound.with_theta(theta), np.exp(x[-1]) + known
    noise, residual = clean * (1.0 + (y / c) ** 2), y + 2.0 * clean * y / (c**2 + y**2)
    total = 0.0
    for i in range(n):
        rest = np.arange(n) != i
        others = DensePosterior.of(kernel, X[rest], noise[rest], residual[rest])
        mean, variance = others.mean_and_variance(X[[i]])
        total -= stats.norm(mean[0], np.sqrt(variance[0] + clean[i])).logpdf(y[i])
    assert LeaveOneOut(Problem(X, y, bound, known), c)(x)[0] == pytest.approx(total, rel=1e-7, abs=1e-7)


@every_kernel
@given(seed=seeds, n=sizes, with_known=st.booleans(), c=scales)
def test_the_gradient_is_right(kernel, seed, n, with_known, c):
    X, y, bound, known, theta, rng = problem(kernel, seed, n, with_known)
    assert_gradient_is_right(LeaveOneOut(Problem(X, y, bound, known), c), np.append(theta, rng.uniform(-4, 1)))


@pytest.mark.parametrize("c", [1e9, np.inf])
def test_without_weights_it_is_the_plain_gp(few, c):
    X, y = few
    kernel = SquaredExponential(ard=True).bind(X)
    fit = robust_conjugate.fit(Problem(X, y, kernel, np.linspace(0.0, 0.1, len(y))), 100, c=c)
    plain = DensePosterior.of(fit.kernel, X, fit.noise_variance + np.linspace(0.0, 0.1, len(y)), y)
    for found, expected in zip(fit.posterior.mean_and_variance(X), plain.mean_and_variance(X), strict=True):
        assert_allclose(found, expected, atol=1e-8)
    assert_allclose(fit.bias, 0.0, atol=1e-8)


def test_outliers_beyond_the_range_of_f_weigh_little():
    rng = np.random.default_rng(2)
    X = np.linspace(0.0, 6.0, 80)[:, None]
    f = np.sin(X[:, 0])
    y = f + 0.1 * rng.standard_normal(80)
    y[5::16] += 20.0
    robust, plain = RobustConjugateGP().fit(X, y), GaussianGP().fit(X, y)
    errors = [np.mean((model.predict(X) - f) ** 2) for model in (robust, plain)]
    # Not by more: the leave-one-out density that its parameters maximise counts the outliers in full.
    assert errors[0] < 0.5 * errors[1]
    assert robust.weights_[5::16].max() < 0.02
    assert np.delete(robust.weights_, np.s_[5::16]).min() > 0.4


def test_outliers_inside_the_range_of_f_keep_their_weight():
    X = np.linspace(0.0, 6.0, 80)[:, None]
    f = 10.0 * np.sin(X[:, 0])
    y = f + 0.1 * np.random.default_rng(3).standard_normal(80)
    low = np.flatnonzero(f < -5.0)[::4]
    y[low] += 5.0  # 50 standard deviations of the noise, towards the median
    model = RobustConjugateGP().fit(X, y)
    assert model.weights_[low].min() > 0.5
    assert not model.outlier_mask_[low].any()


def test_a_reading_at_any_distance_is_as_if_it_were_far(few):
    X, y = few
    means = []
    for size in (1e5, 1e12, 1e18):
        far = y.copy()
        far[3] = size
        means.append(RobustConjugateGP(Matern32(), c=1.0).fit(X, far).predict(X))
    assert size > FARTHEST
    assert_allclose(means[1], means[0], atol=1e-6)
    assert_allclose(means[2], means[0], atol=1e-6)


@pytest.mark.parametrize("c", [0.0, -1.0, np.nan, "2"])
def test_a_c_that_is_none_is_refused(few, c):
    with pytest.raises((ValueError, TypeError), match=r"^c must be"):
        RobustConjugateGP(c=c).fit(*few)
