"""The sampler of the scale mixture: each step against what it must draw from, then all of them together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from arviz_stats.base import array_stats
from numpy.testing import assert_allclose
from scipy.stats import chisquare, halfcauchy, invgamma, kstest, multivariate_normal
from scipy.stats import t as student

from biasgp.kernels import Linear, Matern32, Periodic, SquaredExponential
from biasgp.models.mixture_steps import LENGTH_PRIOR, Chain, Target, _Coordinates
from biasgp.models.problem import Problem
from biasgp.models.t_noise import StudentT
from biasgp.samplers import Metric, StepSize, slice_along, transition

# --- coordinates and priors


def test_priors_are_the_densities_that_they_say_they_are():
    x, zero = np.linspace(-8.0, 8.0, 3201), np.zeros(3201)
    by_root = halfcauchy.logpdf(np.exp(0.5 * x)) + 0.5 * x
    by_t = student.logpdf(np.exp(x) / LENGTH_PRIOR, 4.0) + x
    for is_length, expected in ((False, by_root), (True, by_t)):
        value, slope = _Coordinates(zero, zero, zero, np.full(3201, is_length)).log_prior(x)
        assert_allclose(value - value[0], expected - expected[0], atol=1e-9)
        assert_allclose(slope[1:-1], np.gradient(expected, x)[1:-1], atol=1e-4)


def test_coordinates_go_both_ways_and_leave_out_what_is_held():
    box = _Coordinates(
        np.array([-1.0, 2.0, 0.0]), np.array([3.0, 2.0, 9.0]), np.zeros(3), np.array([True, False, False])
    )
    x = np.array([0.3, 2.0, 8.5])
    assert len(box.outside(x)) == 2
    assert_allclose(box.inside(box.outside(x)), x)
    at_the_edge = box.inside(box.outside(np.array([3.0, 2.0, 0.0])))
    assert np.all((at_the_edge[[0, 2]] > box.low[[0, 2]]) & (at_the_edge[[0, 2]] < box.high[[0, 2]]))


@pytest.mark.parametrize("known", [0.0, 0.05])
@pytest.mark.parametrize(
    "kernel",
    [SquaredExponential(ard=True), Periodic() + Linear(), Matern32(variance=2.0).fix("variance")],
    ids=["ard", "sum", "held"],
)
def test_gradient_is_the_numerical_one(rng, kernel, known):
    X = rng.random((20, 3))
    data = Target.of(Problem(X, np.sin(5 * X[:, 0]), kernel.bind(X), np.full(20, known)))
    start = data.coordinates.outside(np.append(data.problem.kernel.theta, np.log(0.1)))
    u, U = start + 0.3 * rng.standard_normal(len(start)), 1.0 / rng.chisquare(3, 20)
    numerical = [(data.at(u + h, U).log_density - data.at(u - h, U).log_density) / 2e-5 for h in 1e-5 * np.eye(len(u))]
    assert_allclose(data.at(u, U).gradient, numerical, rtol=1e-5, atol=1e-5)
    at = data.at(u, U)
    assert_allclose(data.at(u, 2.0 * U, at).gradient, data.at(u, 2.0 * U).gradient)


def test_prior_reaches_the_posterior_of_the_coordinates(rng):
    """Between two places, the log posterior changes by likelihood, prior of x and Jacobian."""
    X = rng.random((8, 1))
    data = Target.of(Problem(X, rng.standard_normal(8), SquaredExponential(ard=True).bind(X), np.zeros(8)))

    def expected(u):
        x = data.coordinates.inside(u)
        K = data.problem.kernel.with_theta(x[:-1])(X) + np.exp(x[-1]) * np.eye(8)
        value = multivariate_normal.logpdf(data.problem.y, np.zeros(8), K)
        value += student.logpdf(np.exp(x[1] - data.problem.kernel.theta[1]) / LENGTH_PRIOR, 4.0) + x[1]
        value += np.sum(halfcauchy.logpdf(np.exp(0.5 * x[[0, 2]])) + 0.5 * x[[0, 2]])
        slopes = [
            (data.coordinates.inside(u + h) - data.coordinates.inside(u - h)).sum() / 2e-6 for h in 1e-6 * np.eye(3)
        ]
        return value + np.log(slopes).sum()

    one, other = rng.standard_normal(3), rng.standard_normal(3)
    found = data.at(one, np.ones(8)).log_density - data.at(other, np.ones(8)).log_density
    assert_allclose(found, expected(one) - expected(other), atol=1e-5)


# --- the general samplers


class Normal:
    """A Gaussian as the sampler sees it."""

    def __init__(self, x, precision):
        self.x, self.log_density, self.gradient = x, -0.5 * x @ precision @ x, -precision @ x


def test_hamiltonian_draws_are_those_of_a_gaussian(rng):
    covariance = np.array([[4.0, 1.5], [1.5, 1.0]])
    precision = np.linalg.inv(covariance)
    point, draws = Normal(np.zeros(2), precision), []
    for _ in range(3000):
        # A metric that is wrong, so that steps are refused now and then.
        point, _ = transition(lambda x: Normal(x, precision), point, Metric(np.eye(2)), 0.9, rng)
        draws.append(point.x)
    draws = np.array(draws)
    assert 0.2 < np.mean(np.any(np.diff(draws, axis=0) != 0, axis=1)) < 0.995
    thinned = draws[::10] @ np.linalg.cholesky(precision)
    for column in thinned.T:
        assert kstest(column, "norm").pvalue > 1e-3
    assert_allclose(np.cov(draws.T), covariance, rtol=0.15)


def test_a_trajectory_into_nothing_is_refused(rng):
    class Nowhere(Normal):
        def __init__(self, x):
            super().__init__(x, np.eye(1))
            self.log_density = -np.inf

    start = Normal(np.zeros(1), np.eye(1))
    assert transition(Nowhere, start, Metric(np.eye(1)), 0.5, rng) == (start, 0.0)


def test_metric_is_learnt_and_taken_from_the_curvature(rng):
    covariance = np.array([[4.0, 1.5, 0.0], [1.5, 1.0, 0.2], [0.0, 0.2, 0.3]])
    precision = np.linalg.inv(covariance)
    draws = rng.multivariate_normal(np.zeros(3), covariance, 4000)
    learnt = Metric(np.eye(3)).learnt(draws, -draws @ precision)
    assert_allclose(learnt.root @ learnt.root.T, covariance, atol=0.2)
    exact = Metric.of_curvature(lambda x: -precision @ x, np.ones(3), widest=10.0)
    assert_allclose(exact.root @ exact.root.T, covariance, atol=1e-6)
    assert_allclose(Metric.of_curvature(lambda x: x, np.ones(3), widest=0.5).root, 0.5 * np.eye(3))
    assert Metric(np.eye(3)).learnt(draws[:1], draws[:1]).root == pytest.approx(np.eye(3))


def test_step_size_finds_the_acceptance_it_is_asked_for(rng):
    step = StepSize(3.0, target=0.75)
    for _ in range(400):
        step.learn(float(np.exp(-step.current * rng.uniform(0.5, 1.5))))
    assert np.exp(-step.settled) == pytest.approx(0.75, abs=0.04)


def test_slice_draws_are_those_of_the_density(rng):
    def log_gamma(x):
        return -np.inf if x[0] <= 0 else 2.0 * np.log(x[0]) - x[0]

    x, draws = np.array([1.0]), []
    for _ in range(3000):
        x = slice_along(log_gamma, x, 2.0 * rng.standard_normal(1), rng)
        draws.append(x[0])
    assert kstest(draws[::6], "gamma", args=(3.0,)).pvalue > 1e-3


# --- the steps of the mixture


class Unit:
    """A generator whose standard normals are a unit vector."""

    def __init__(self, j):
        self.j = j

    def standard_normal(self, n):
        return np.eye(n + 1)[self.j][:n]


@pytest.mark.parametrize("known", [0.0, 0.3])
def test_errors_have_the_moments_of_their_conditional(rng, known):
    X = rng.uniform(0, 3, (7, 1))
    data = Target.of(Problem(X, rng.standard_normal(7), SquaredExponential(ard=True).bind(X), np.full(7, known)))
    at = data.at(np.zeros(3), 1.0 / rng.chisquare(2, 7))
    V, Q = np.diag(at.errors), np.linalg.inv(at.C + np.diag(at.errors + known))
    mean = at.draw_errors(Unit(7))
    root = np.column_stack([at.draw_errors(Unit(j)) - mean for j in range(7)])
    assert_allclose(mean, V @ Q @ data.problem.y, atol=1e-9)
    assert_allclose(root @ root.T, V - V @ Q @ V, atol=1e-8)


def test_density_of_the_noise_is_the_t(rng):
    e = rng.standard_normal(9)

    def expected(log_scale2, log_nu):
        scale = np.exp(0.5 * log_scale2)
        return student.logpdf(e, np.exp(log_nu), scale=scale).sum() + halfcauchy.logpdf(scale) + 0.5 * log_scale2

    places = [(-1.0, 0.5), (0.7, 3.0), (-4.0, -0.5)]
    X = np.arange(9.0)[:, None]
    data = Target.of(Problem(X, e, SquaredExponential().bind(X), np.zeros(9)))
    found = [data.log_density_of_noise(e**2, *place) for place in places]
    assert_allclose(np.diff(found), np.diff([expected(*place) for place in places]), atol=1e-9)


def test_mixing_variances_are_inverse_chi_squared(rng):
    nu, scale2, e = 2.5, 0.3, 1.7
    U = StudentT(scale2, nu).draw_mixing(np.full(2000, e), rng)
    assert kstest(U, invgamma(0.5 * (nu + 1.0), scale=0.5 * (nu + e**2 / scale2)).cdf).pvalue > 1e-3


# --- the whole iteration, against the joint distribution


def tiny(known=0.0, n=4):
    """Few readings and a narrow prior, whose bounds are felt."""
    X = np.linspace(0.0, 2.0, n)[:, None]
    kernel = SquaredExponential(variance=1.0, length_scale=1.0).bind(X)
    low, high = np.array([-1.0, -0.7, -2.0]), np.array([1.0, 0.7, 0.5])
    box = _Coordinates(low, high, np.zeros(3), np.array([False, True, False]))
    return Target(Problem(X, np.zeros(n), kernel, np.full(n, known)), box, (1.0, 8.0))


def from_the_prior(data, rng):
    """x, log ν, U, and readings that follow from them."""
    box, x = data.coordinates, np.empty(3)
    for j in range(3):
        grid = np.linspace(box.low[j], box.high[j], 2001)
        p = np.exp(box.log_prior(np.where(np.arange(3) == j, grid[:, None], 0.0))[0][:, j])
        x[j] = np.interp(rng.random(), np.cumsum(p) / p.sum(), grid)
    log_nu = rng.uniform(*np.log(data.nu_range))
    U = np.exp(log_nu) / rng.chisquare(np.exp(log_nu), len(data.problem.y))
    return x, log_nu, U, readings(data, x, U, rng)


def readings(data, x, U, rng):
    K = data.problem.kernel.with_theta(x[:-1])(data.problem.X) + np.diag(np.exp(x[-1]) * U + data.problem.known)
    return rng.multivariate_normal(np.zeros(len(U)), K)


def chain_at(data, x, log_nu, U, rng):
    return Chain(data.at(data.coordinates.outside(x), U), log_nu, np.zeros(len(U)), rng)


METRIC, STEP = Metric(0.8 * np.eye(3)), 0.8


@pytest.mark.parametrize("known", [0.0, 0.5])
def test_readings_and_parameters_have_their_joint_distribution(rng, known):
    """Geweke's test: draw parameters given readings and readings given parameters in turn, and get the prior back."""
    data = tiny(known)

    def summary(x, log_nu, U, y):
        return [
            *x,
            log_nu,
            np.log(U).mean(),
            np.log(U[0]) ** 2,
            np.log1p(y[0] ** 2),
            np.tanh(y[0] * y[1]),
            x[2] * log_nu,
        ]

    direct = np.array([summary(*from_the_prior(data, rng)) for _ in range(1500)])
    x, log_nu, U, y = from_the_prior(data, rng)
    turns = []
    for _ in range(1500):
        data = replace(data, problem=replace(data.problem, y=y))
        chain = chain_at(data, x, log_nu, U, rng)
        chain.advance(data, METRIC, STEP)
        x, log_nu, U = chain.at.full, chain.log_nu, chain.at.errors / chain.at.scale2
        y = readings(data, x, U, rng)
        turns.append(summary(x, log_nu, U, y))
    turns = np.array(turns)
    ess = np.array([array_stats.ess(column[None], method="mean") for column in turns.T])
    error = np.sqrt(direct.var(axis=0) / len(direct) + turns.var(axis=0) / ess)
    assert ess.min() > 100
    assert_allclose((turns.mean(axis=0) - direct.mean(axis=0)) / error, 0.0, atol=3.5)


def test_ranks_of_the_truth_among_draws_are_uniform(rng):
    """Simulation-based calibration."""
    data, ranks = tiny(n=6), []
    for _ in range(80):
        x, log_nu, _, y = from_the_prior(data, rng)
        data = replace(data, problem=replace(data.problem, y=y))
        chain = chain_at(data, *from_the_prior(data, rng)[:3], rng)
        draws = []
        for _ in range(65):
            chain.advance(data, METRIC, STEP)
            draws.append([*chain.at.full, chain.log_nu])
        ranks.append((np.array(draws[10::6]) < [*x, log_nu]).sum(axis=0))
    ranks = np.array(ranks)
    assert ranks.min() == 0
    assert ranks.max() == 10
    for column in ranks.T:
        # Of 0 … 10, in four groups of about the same size.
        counts = np.histogram(column, [0, 3, 6, 9, 11])[0]
        assert chisquare(counts, 80 * np.array([3, 3, 3, 2]) / 11).pvalue > 1e-3


def on_a_grid(data, nu):
    """E e and E log σ² by quadrature over h = f + known error and log σ²."""
    axis, n = np.linspace(-9, 9, 181), len(data.problem.y)
    H = np.stack(np.meshgrid(*[axis] * n, indexing="ij"), axis=-1).reshape(-1, n)
    log_prior = multivariate_normal(
        np.zeros(n), data.problem.kernel(data.problem.X) + np.diag(data.problem.known)
    ).logpdf(H)
    s = np.linspace(data.coordinates.low[-1], data.coordinates.high[-1], 41)
    log_p = np.stack([log_prior + student.logpdf(data.problem.y - H, nu, scale=np.exp(0.5 * v)).sum(axis=1) for v in s])
    log_p += (halfcauchy.logpdf(np.exp(0.5 * s)) + 0.5 * s)[:, None]
    p = np.exp(log_p - log_p.max())
    p[[0, -1]] *= 0.5
    p /= p.sum()
    e = data.problem.y - H
    return np.append(p.sum(axis=0) @ e, p.sum(axis=1) @ s), np.append(p.sum(axis=0) @ e**2, p.sum(axis=1) @ s**2)


@pytest.mark.parametrize(("y", "known"), [((3.0,), 0.0), ((0.5, 3.0), 0.0), ((0.5, 3.0), 0.4)])
def test_few_readings_agree_with_a_grid(rng, y, known):
    n, nu = len(y), 2.0
    X = np.array([[0.0], [0.6]])[:n]
    kernel = SquaredExponential(variance=1.5, length_scale=1.0).fix("variance", "length_scale").bind(X)
    theta = kernel.theta
    box = _Coordinates(
        np.append(theta, -4.0), np.append(theta, 1.0), np.append(theta, 0.0), np.array([False, True, False])
    )
    data = Target(Problem(X, np.array(y), kernel, np.full(n, known)), box, (nu, nu))
    chain = chain_at(data, np.append(theta, -2.0), np.log(nu), np.ones(n), rng)
    draws = []
    for _ in range(1200):
        chain.advance(data, Metric(np.eye(1)), 1.0)
        draws.append([*chain.e, chain.at.full[-1]])
    draws = np.array(draws)
    for found, expected in zip((draws, draws**2), on_a_grid(data, nu), strict=True):
        error = [float(array_stats.mcse(column[None], method="mean")) for column in found.T]
        assert_allclose((found.mean(axis=0) - expected) / error, 0.0, atol=3.5)
        assert_allclose(found.mean(axis=0), expected, rtol=0.15, atol=0.1)
