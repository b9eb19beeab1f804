"""Every objective's gradient against central differences, and the bounds and normalisers they are built on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from biasgp.covariance.dense_engine import DenseEngine
from biasgp.kernels import Exponential, Linear, Matern52, Periodic, SquaredExponential
from biasgp.models import constant_bias, gaussian, random_bias
from biasgp.models.constant_bias import _Penalty
from biasgp.models.problem import Problem

KERNELS = {
    "se": SquaredExponential(ard=True),
    "exponential": Exponential(),
    "matern-times-periodic": Matern52() * Periodic().on(0),
    "sum": SquaredExponential().on(0) + Linear(ard=True),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
seeds = st.integers(0, 2**20)
sizes = st.integers(2, 10)


def problem(kernel, seed: int, n: int, with_known: bool):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 3, (n, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(n)
    y[rng.random(n) < 0.3] += 3.0
    known = rng.uniform(0, 0.4, n) if with_known else np.zeros(n)
    bound = kernel.bind(X)
    theta = bound.theta + 0.3 * rng.standard_normal(len(bound.theta))
    return X, y, bound, known, theta, rng


def assert_gradient_is_right(objective, x, step=1e-5, tolerance=2e-5):
    gradient = objective(x)[1]
    numeric = np.array([(objective(x + h)[0] - objective(x - h)[0]) / (2 * step) for h in step * np.eye(len(x))])
    assert_allclose(gradient, numeric, rtol=tolerance, atol=tolerance * max(1.0, np.abs(numeric).max()))


@every_kernel
@given(seed=seeds, n=sizes, with_known=st.booleans())
def test_gaussian_likelihood(kernel, seed, n, with_known):
    X, y, bound, known, theta, rng = problem(kernel, seed, n, with_known)
    objective = gaussian.Likelihood(DenseEngine(X), Problem(X, y, bound, known))
    x = np.append(theta, rng.uniform(-4, 1))
    assert_gradient_is_right(objective, x)
    K = bound.with_theta(theta)(X) + np.diag(np.exp(x[-1]) + known)
    assert objective(x)[0] == pytest.approx(-stats.multivariate_normal(np.zeros(n), K).logpdf(y), rel=1e-9, abs=1e-9)


@every_kernel
@given(seed=seeds, n=sizes, with_known=st.booleans())
def test_constant_bias_with_free_k(kernel, seed, n, with_known):
    X, y, bound, known, theta, rng = problem(kernel, seed, n, with_known)
    penalty = _Penalty(None, *rng.uniform(0.4, 1.0, 2))
    objective = constant_bias._ConstantBiasLikelihood(DenseEngine(X), Problem(X, y, bound, known), penalty)
    x = np.concatenate([theta, [rng.uniform(-4, 1)], np.log(rng.uniform(0.3, 2.5, 1))])
    assert_gradient_is_right(objective, x, step=1e-6, tolerance=1e-4)


@every_kernel
@given(seed=seeds, n=sizes, with_known=st.booleans(), lam=st.floats(0.3, 5.0))
def test_constant_bias_with_given_lambda(kernel, seed, n, with_known, lam):
    X, y, bound, known, theta, rng = problem(kernel, seed, n, with_known)
    objective = constant_bias._ConstantBiasLikelihood(DenseEngine(X), Problem(X, y, bound, known), _Penalty(lam))
    x = np.concatenate([theta, [rng.uniform(-4, 1)], np.zeros(1)])
    assert_gradient_is_right(objective, x, step=1e-6, tolerance=1e-4)
    assert objective(x)[1][-1] == 0.0


def test_constant_bias_value_is_the_least_of_rl1_over_delta():
    X, y, bound, known, theta, rng = problem(KERNELS["se"], 3, 8, True)
    lam, noise = 1.3, 0.2
    objective = constant_bias._ConstantBiasLikelihood(DenseEngine(X), Problem(X, y, bound, known), _Penalty(lam))
    x = np.concatenate([theta, [np.log(noise)], np.zeros(1)])
    normal = stats.multivariate_normal(np.zeros(8), bound.with_theta(theta)(X) + np.diag(noise + known))
    K = objective.engine.covariance(*objective.split(x))
    value, delta = objective(x)[0], objective.profile(x, K)[1].delta
    assert value == pytest.approx(-normal.logpdf(y - delta) + lam * np.abs(delta).sum(), rel=1e-9)
    for _ in range(30):
        other = delta + 0.1 * rng.standard_normal(8)
        assert -normal.logpdf(y - other) + lam * np.abs(other).sum() >= value


@every_kernel
@pytest.mark.parametrize("lambda_mean", [0.0, 0.7, np.inf])
@settings(max_examples=10)
@given(seed=seeds, n=sizes, with_known=st.booleans())
def test_random_bias(kernel, lambda_mean, seed, n, with_known):
    X, y, bound, known, theta, rng = problem(kernel, seed, n, with_known)
    objective = random_bias._RandomBiasLikelihood(DenseEngine(X), Problem(X, y, bound, known), lambda_mean)
    x = np.concatenate([theta, rng.uniform(-3, 1, n), np.log(rng.uniform(0.3, 3.0, 2))])
    assert_gradient_is_right(objective, x)


def test_random_bias_value_is_rl2_at_the_best_mean_and_its_normaliser():
    X, y, bound, known, theta, rng = problem(KERNELS["se"], 4, 7, True)
    variances, shape, scale, lambda_mean = rng.uniform(0.1, 1.0, 7), 1.4, 0.6, 0.8
    objective = random_bias._RandomBiasLikelihood(DenseEngine(X), Problem(X, y, bound, known), lambda_mean)
    value = objective(np.concatenate([theta, np.log(variances), np.log([shape, scale])]))[0]
    K = bound.with_theta(theta)(X) + np.diag(variances + known)

    def rl2(mu):
        penalty = lambda_mean * mu**2 + np.sum(shape * np.log(variances) + scale / variances)
        return -stats.multivariate_normal(np.full(7, mu), K).logpdf(y) + penalty

    A = shape + 0.5
    normaliser = A * np.log(A) - A - gammaln(A) + gammaln(shape) - shape * np.log(scale)
    assert value == pytest.approx(minimize_scalar(rl2).fun + 7 * normaliser, rel=1e-9)


ks = st.floats(0.1, 4.0)


@given(down=ks, up=ks)
def test_huber_normaliser_is_the_integral_of_the_density(down, up):
    def loss(r):
        if r > up:
            return up * r - 0.5 * up**2
        return -down * r - 0.5 * down**2 if r < -down else 0.5 * r**2

    pieces = [(-np.inf, -down), (-down, up), (up, np.inf)]
    Z = sum(quad(lambda r: np.exp(-loss(r)), *piece)[0] for piece in pieces)
    assert _Penalty(None, down, up).normaliser(1.0)[0] == pytest.approx(np.log(Z / np.sqrt(2 * np.pi)), abs=1e-7)


@given(down=ks, up=ks)
def test_huber_normaliser_slope(down, up):
    h, penalty = 1e-5, _Penalty(None, down, up)
    numeric = (penalty.normaliser(np.exp(h))[0] - penalty.normaliser(np.exp(-h))[0]) / (2 * h)
    assert penalty.normaliser(1.0)[1] == pytest.approx(numeric, rel=1e-5, abs=1e-8)


@given(k=st.floats(0.2, 3.0), share=st.floats(0.01, 0.4), above=st.booleans())
def test_balanced_sides_leave_f_where_it_is(k, share, above):
    penalty = _Penalty.balanced(k, *((0.0, share) if above else (share, 0.0)))
    down, up = k * penalty.down, k * penalty.up
    pull = quad(lambda z: np.clip(z, -down, up) * stats.norm.pdf(z), -8, 8, points=[-down, up])[0]
    assert (1 - share) * pull + share * (up if above else -down) == pytest.approx(0.0, abs=1e-7)
    assert max(down, up) == pytest.approx(k)


def test_without_outliers_the_sides_are_equal():
    assert _Penalty.balanced(0.7, 0.1, 0.1) == _Penalty()


def test_huber_normaliser_of_large_k_is_the_gaussians():
    value, gradient = _Penalty().normaliser(10.0)
    assert value == pytest.approx(0.0, abs=1e-12)
    assert_allclose(gradient, 0.0, atol=1e-12)


def one_point_bound(y, prior, shape, scale):
    """The least of the bound over τ̃² for one reading, with no common bias."""
    X = np.zeros((1, 1))
    kernel = SquaredExponential(variance=prior, length_scale=1.0).bind(X)
    objective = random_bias._RandomBiasLikelihood(
        DenseEngine(X), Problem(X, np.array([y]), kernel, np.zeros(1)), np.inf
    )

    def value(log_variance):
        return objective(np.concatenate([kernel.theta, [log_variance], np.log([shape, scale])]))[0]

    starts = np.linspace(-12, 12, 49)
    best = starts[np.argmin([value(s) for s in starts])]
    return minimize_scalar(value, bounds=(best - 1, best + 1), method="bounded").fun


def one_point_evidence(y, prior, shape, scale):
    """−log ∫ Student-t(y − f) N(f; 0, prior) df, by quadrature."""
    noise = stats.t(2 * shape, scale=np.sqrt(scale / shape))
    f = stats.norm(scale=np.sqrt(prior))
    places = sorted({-8 * np.sqrt(prior), min(0.0, y), max(0.0, y), 8 * np.sqrt(prior)})
    total = sum(
        quad(lambda u: noise.pdf(y - u) * f.pdf(u), low, high, epsabs=1e-13, limit=200)[0]
        for low, high in pairwise(places)
    )
    return -np.log(total)


@settings(max_examples=15)
@given(y=st.floats(-5, 5), prior=st.floats(0.05, 4.0), shape=st.floats(0.3, 30.0), scale=st.floats(0.05, 3.0))
def test_the_bound_is_above_the_student_t_marginal_likelihood(y, prior, shape, scale):
    bound, exact = one_point_bound(y, prior, shape, scale), one_point_evidence(y, prior, shape, scale)
    assert bound >= exact - 1e-6
    # It is a bound worth having: within a nat and a half for one reading.
    assert bound <= exact + 1.5


def test_the_bound_is_tight_where_f_is_known():
    bound = one_point_bound(1.3, 1e-9, 1.5, 0.4)
    assert bound == pytest.approx(-stats.t(3.0, scale=np.sqrt(0.4 / 1.5)).logpdf(1.3), abs=1e-6)


def test_the_bound_tends_to_the_plain_gps_as_the_shape_grows():
    X, y, bound, known, theta, _ = problem(KERNELS["se"], 5, 9, True)
    noise = 0.3
    plain = gaussian.Likelihood(DenseEngine(X), Problem(X, y, bound, known))(np.append(theta, np.log(noise)))[0]
    objective = random_bias._RandomBiasLikelihood(DenseEngine(X), Problem(X, y, bound, known), np.inf)
    gaps = []
    for shape in (1e1, 1e3, 1e5):
        x = np.concatenate([theta, np.full(9, np.log(noise)), np.log([shape, shape * noise])])
        gaps.append(abs(objective(x)[0] - plain))
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]
    assert gaps[2] < 1e-3
