"""The scale mixture: each step of its sampler against what it must draw from, all of them together, the estimator."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from arviz_stats.base import array_stats
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare, halfcauchy, invgamma, kstest, multivariate_normal, norm
from scipy.stats import t as student

from biasgp import InterruptedWarning, MixingWarning
from biasgp.data import simulate
from biasgp.estimators.scale_mixture import ScaleMixtureGP
from biasgp.kernels import Linear, Matern32, Periodic, SquaredExponential
from biasgp.models import mixture_steps, scale_mixture, slice_sampling
from biasgp.models.coordinates import LENGTHS, Coordinates, log_half_cauchy, log_half_t
from biasgp.models.ep import StudentT
from biasgp.models.hmc import Metric, StepSize, curvature_metric, transition
from biasgp.models.mixture_steps import Chain, Readings, given

# --- coordinates and priors


def test_priors_are_the_densities_that_they_say_they_are():
    x, zero = np.linspace(-8.0, 8.0, 3201), np.zeros(3201)
    by_root = halfcauchy.logpdf(np.exp(0.5 * x)) + 0.5 * x
    by_t = student.logpdf(np.exp(x), 4.0) + x
    for (value, slope), expected in ((log_half_cauchy(x, zero), by_root), (log_half_t(x, zero), by_t)):
        assert_allclose(value - value[0], expected - expected[0], atol=1e-9)
        assert_allclose(slope[1:-1], np.gradient(expected, x)[1:-1], atol=1e-4)


def test_coordinates_go_both_ways_and_leave_out_what_is_held():
    box = Coordinates(
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
    data = Readings.of(X, np.sin(5 * X[:, 0]), kernel.bind(X), np.full(20, known))
    start = data.coordinates.outside(np.append(data.kernel.theta, np.log(0.1)))
    u, U = start + 0.3 * rng.standard_normal(len(start)), 1.0 / rng.chisquare(3, 20)
    numerical = [
        (given(data, u + h, U).log_density - given(data, u - h, U).log_density) / 2e-5 for h in 1e-5 * np.eye(len(u))
    ]
    assert_allclose(given(data, u, U).gradient, numerical, rtol=1e-5, atol=1e-5)
    at = given(data, u, U)
    assert_allclose(given(data, u, 2.0 * U, at).gradient, given(data, u, 2.0 * U).gradient)


def test_prior_reaches_the_posterior_of_the_coordinates(rng):
    """Between two places, the log posterior changes by likelihood, prior of x and Jacobian."""
    X = rng.random((8, 1))
    data = Readings.of(X, rng.standard_normal(8), SquaredExponential(ard=True).bind(X), np.zeros(8))

    def expected(u):
        x = data.coordinates.inside(u)
        K = data.kernel.with_theta(x[:-1])(X) + np.exp(x[-1]) * np.eye(8)
        value = multivariate_normal.logpdf(data.y, np.zeros(8), K)
        value += student.logpdf(np.exp(x[1] - data.kernel.theta[1]) / LENGTHS, 4.0) + x[1]
        value += np.sum(halfcauchy.logpdf(np.exp(0.5 * x[[0, 2]])) + 0.5 * x[[0, 2]])
        slopes = [
            (data.coordinates.inside(u + h) - data.coordinates.inside(u - h)).sum() / 2e-6 for h in 1e-6 * np.eye(3)
        ]
        return value + np.log(slopes).sum()

    one, other = rng.standard_normal(3), rng.standard_normal(3)
    found = given(data, one, np.ones(8)).log_density - given(data, other, np.ones(8)).log_density
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
    assert_allclose(learnt.covariance, covariance, atol=0.2)
    exact = curvature_metric(lambda x: -precision @ x, np.ones(3), widest=10.0)
    assert_allclose(exact.covariance, covariance, atol=1e-6)
    assert_allclose(curvature_metric(lambda x: x, np.ones(3), widest=0.5).covariance, 0.25 * np.eye(3))
    assert Metric(np.eye(3)).learnt(draws[:1], draws[:1]).covariance == pytest.approx(np.eye(3))


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
        x = slice_sampling.sweep(log_gamma, x, np.array([2.0]), rng, 1)
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
    data = Readings.of(X, rng.standard_normal(7), SquaredExponential(ard=True).bind(X), np.full(7, known))
    at = given(data, np.zeros(3), 1.0 / rng.chisquare(2, 7))
    V, Q = np.diag(at.errors), np.linalg.inv(at.C + np.diag(at.errors + known))
    mean = mixture_steps.draw_errors(at, Unit(7))
    root = np.column_stack([mixture_steps.draw_errors(at, Unit(j)) - mean for j in range(7)])
    assert_allclose(mean, V @ Q @ data.y, atol=1e-9)
    assert_allclose(root @ root.T, V - V @ Q @ V, atol=1e-8)


def test_density_of_the_noise_is_the_t(rng):
    e = rng.standard_normal(9)

    def expected(log_scale2, log_nu):
        scale = np.exp(0.5 * log_scale2)
        return student.logpdf(e, np.exp(log_nu), scale=scale).sum() + halfcauchy.logpdf(scale) + 0.5 * log_scale2

    places = [(-1.0, 0.5), (0.7, 3.0), (-4.0, -0.5)]
    found = [mixture_steps.log_density_of_noise(e**2, *place) for place in places]
    assert_allclose(np.diff(found), np.diff([expected(*place) for place in places]), atol=1e-9)


def test_mixing_variances_are_inverse_chi_squared(rng):
    nu, scale2, e = 2.5, 0.3, 1.7
    U = mixture_steps.draw_mixing(np.full(2000, e), scale2, nu, rng)
    assert kstest(U, invgamma(0.5 * (nu + 1.0), scale=0.5 * (nu + e**2 / scale2)).cdf).pvalue > 1e-3


def test_errors_beyond_a_limit_are_those_of_the_normal(rng):
    mean, spread, limit = np.array([0.3, -2.0, 5.0]), np.array([1.0, 0.5, 2.0]), 1.5
    probability, bias = scale_mixture.beyond(mean, spread, limit)
    draws = mean + spread * rng.standard_normal((200_000, 3))
    outside = np.abs(draws) > limit
    assert_allclose(probability, outside.mean(axis=0), atol=0.005)
    assert_allclose(bias, (draws * outside).mean(axis=0), atol=0.02)


# --- the whole iteration, against the joint distribution


def tiny(known=0.0, n=4):
    """Few readings and a narrow prior, whose bounds are felt."""
    X = np.linspace(0.0, 2.0, n)[:, None]
    kernel = SquaredExponential(variance=1.0, length_scale=1.0).bind(X)
    low, high = np.array([-1.0, -0.7, -2.0]), np.array([1.0, 0.7, 0.5])
    box = Coordinates(low, high, np.zeros(3), np.array([False, True, False]))
    return Readings(X, np.zeros(n), kernel, np.full(n, known), box, (1.0, 8.0))


def from_the_prior(data, rng):
    """x, log ν, U, and readings that follow from them."""
    box, x = data.coordinates, np.empty(3)
    for j in range(3):
        grid = np.linspace(box.low[j], box.high[j], 2001)
        p = np.exp(box.log_prior(np.where(np.arange(3) == j, grid[:, None], 0.0))[0][:, j])
        x[j] = np.interp(rng.random(), np.cumsum(p) / p.sum(), grid)
    log_nu = rng.uniform(*np.log(data.nu_range))
    U = np.exp(log_nu) / rng.chisquare(np.exp(log_nu), len(data.y))
    return x, log_nu, U, readings(data, x, U, rng)


def readings(data, x, U, rng):
    K = data.kernel.with_theta(x[:-1])(data.X) + np.diag(np.exp(x[-1]) * U + data.known)
    return rng.multivariate_normal(np.zeros(len(U)), K)


def chain_at(data, x, log_nu, U, rng):
    return Chain(given(data, data.coordinates.outside(x), U), log_nu, np.zeros(len(U)), rng)


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
        data = replace(data, y=y)
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
        data = replace(data, y=y)
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
    axis, n = np.linspace(-9, 9, 361), len(data.y)
    H = np.stack(np.meshgrid(*[axis] * n, indexing="ij"), axis=-1).reshape(-1, n)
    log_prior = multivariate_normal(np.zeros(n), data.kernel(data.X) + np.diag(data.known)).logpdf(H)
    s = np.linspace(data.coordinates.low[-1], data.coordinates.high[-1], 41)
    log_p = np.stack([log_prior + student.logpdf(data.y - H, nu, scale=np.exp(0.5 * v)).sum(axis=1) for v in s])
    log_p += (halfcauchy.logpdf(np.exp(0.5 * s)) + 0.5 * s)[:, None]
    p = np.exp(log_p - log_p.max())
    p[[0, -1]] *= 0.5
    p /= p.sum()
    e = data.y - H
    return np.append(p.sum(axis=0) @ e, p.sum(axis=1) @ s), np.append(p.sum(axis=0) @ e**2, p.sum(axis=1) @ s**2)


@pytest.mark.parametrize(("y", "known"), [((3.0,), 0.0), ((0.5, 3.0), 0.0), ((0.5, 3.0), 0.4)])
def test_few_readings_agree_with_a_grid(rng, y, known):
    n, nu = len(y), 2.0
    X = np.array([[0.0], [0.6]])[:n]
    kernel = SquaredExponential(variance=1.5, length_scale=1.0).fix("variance", "length_scale").bind(X)
    theta = kernel.theta
    box = Coordinates(
        np.append(theta, -4.0), np.append(theta, 1.0), np.append(theta, 0.0), np.array([False, True, False])
    )
    data = Readings(X, np.array(y), kernel, np.full(n, known), box, (nu, nu))
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


# --- the estimator

CHEAP = {"draws": 60, "tune": 60, "chains": 2}


@pytest.fixture(scope="module")
def data():
    return simulate("1d", 8, n=100, n_test=50, random_state=4)


@pytest.fixture(scope="module")
def fitted(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        return ScaleMixtureGP(**CHEAP).fit(data.X, data.y)


def test_outliers_are_found(fitted, data):
    assert_array_equal(fitted.outlier_mask_, data.is_outlier)
    assert np.all((fitted.outlier_probability_ >= 0) & (fitted.outlier_probability_ <= 1))
    assert fitted.weights_[data.is_outlier].max() < 0.2 < np.median(fitted.weights_[~data.is_outlier])
    assert_allclose(fitted.bias_[data.is_outlier], (data.y - data.f)[data.is_outlier], atol=0.8)
    assert np.median(np.abs(fitted.bias_[~data.is_outlier])) < 0.05
    assert np.mean((fitted.predict(data.X_test) - data.f_test) ** 2) < 0.06


def test_draws_are_of_every_parameter_in_the_units_of_y(fitted, data):
    names = {"variance", "length_scale[0]", "scale2", "degrees_of_freedom"}
    assert names == set(fitted.draws_) == set(fitted.r_hat_) == set(fitted.effective_sample_size_)
    assert all(values.shape == (2, 60) for values in fitted.draws_.values())
    assert fitted.scale_**2 == pytest.approx(fitted.draws_["scale2"].mean())
    assert fitted.kernel_.variance == pytest.approx(np.exp(np.log(fitted.draws_["variance"]).mean()))
    assert fitted.degrees_of_freedom_ == pytest.approx(np.median(fitted.draws_["degrees_of_freedom"]), rel=1e-3)
    assert 0.3 < np.sqrt(fitted.noise_variance_) < 0.6
    assert fitted.n_iter_ == 60


def test_moments_are_those_of_the_mixture_of_draws(fitted, data):
    draws = fitted._posterior
    pairs = [posterior.mean_and_variance(data.X_test) for posterior in draws.each()]
    means, variances = np.array([m for m, _ in pairs]), np.array([v for _, v in pairs])
    assert_allclose(draws.mean(data.X_test), means.mean(axis=0))
    mean, variance = draws.mean_and_variance(data.X_test)
    assert_allclose(variance, variances.mean(axis=0) + means.var(axis=0))
    assert np.all(variance > variances.mean(axis=0))
    same, covariance = draws.mean_and_covariance(data.X_test)
    assert_allclose(same, mean)
    assert_allclose(covariance.diagonal(), variance, rtol=1e-6)
    assert np.linalg.eigvalsh(covariance).min() > -1e-8
    noisy = fitted.predict(data.X_test, return_std=True, include_noise=True)[1]
    quiet = fitted.predict(data.X_test, return_std=True)[1]
    assert_allclose(noisy**2, quiet**2 + fitted.noise_variance_)
    cores = [
        StudentT(*pair).core_variance
        for pair in zip(fitted.draws_["scale2"].flat, fitted.draws_["degrees_of_freedom"].flat, strict=True)
    ]
    assert fitted.noise_variance_ == pytest.approx(np.mean(cores))


def test_predictive_density_is_the_mixture_and_one_in_all(fitted, data):
    x = data.X_test[:1]
    draws, scales2, nus = fitted._draws
    scale, center = fitted._scaling.scale, fitted._scaling.center
    for y in (fitted.predict(x)[0], fitted.predict(x)[0] + 4.0):
        total = 0.0
        for posterior, scale2, nu in zip(draws.each(), scales2, nus, strict=True):
            mean, variance = posterior.mean_and_variance(x)
            f = mean + np.sqrt(variance) * np.linspace(-9, 9, 2001)
            joint = norm.pdf(f, mean, np.sqrt(variance)) * student.pdf(
                (y - center) / scale - f, nu, scale=np.sqrt(scale2)
            )
            total += np.trapezoid(joint, f) / scale
        assert_allclose(fitted.log_predictive_density(x, [y]), np.log(total / len(nus)), atol=1e-5)
    y = fitted.predict(x)[0] + np.sinh(np.linspace(-14, 14, 1001))
    density = np.exp(fitted.log_predictive_density(np.repeat(x, len(y), axis=0), y))
    assert_allclose(np.trapezoid(density, y), 1.0, atol=0.01)


def test_state_kept_for_predictions_is_that_of_the_parameters_kept(fitted):
    draws, scales2, nus = fitted._draws
    stride = max(1, CHEAP["draws"] * CHEAP["chains"] // scale_mixture.KEPT)
    expected = fitted.draws_["degrees_of_freedom"][:, ::stride]
    assert_allclose(nus, expected.T.ravel())
    lengths = fitted.draws_["length_scale[0]"][:, ::stride].T.ravel()
    assert_allclose(np.exp(draws.thetas[:, 1]), lengths)
    assert_allclose(scales2 * fitted._scaling.scale**2, fitted.draws_["scale2"][:, ::stride].T.ravel())
    posterior = next(draws.each())
    assert_allclose(posterior.alpha, draws.alphas[0], rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore::biasgp.MixingWarning")
class TestFits:
    quick = staticmethod(lambda **changes: ScaleMixtureGP(**({"draws": 10, "tune": 8, "chains": 2} | changes)))

    def test_same_seed_same_bits_another_seed_others(self, one_d):
        first, second = (self.quick().fit(one_d.X, one_d.y) for _ in range(2))
        assert_array_equal(first.draws_["variance"], second.draws_["variance"])
        assert_array_equal(first.predict(one_d.X_test), second.predict(one_d.X_test))
        other = self.quick(random_state=1).fit(one_d.X, one_d.y)
        assert np.all(other.draws_["variance"] != first.draws_["variance"])
        assert np.all(first.draws_["variance"][0] != first.draws_["variance"][1])

    def test_what_is_held_is_not_drawn(self, one_d):
        model = self.quick(kernel=SquaredExponential(length_scale=0.7).fix("length_scale"), nu=3.0).fit(
            one_d.X, one_d.y
        )
        assert set(model.draws_) == {"variance", "scale2"}
        assert model.kernel_.length_scale == pytest.approx(0.7)
        assert model.degrees_of_freedom_ == pytest.approx(3.0)

    def test_one_wild_reading_is_an_outlier(self, one_d):
        y = one_d.y.copy()
        y[7] = 1e6
        model = self.quick(nu=2.0, draws=30).fit(one_d.X, y)
        assert model.outlier_mask_[7]
        assert model.bias_[7] == pytest.approx(1e6, rel=1e-3)
        assert np.abs(model.predict(one_d.X_test) - one_d.f_test).max() < 1.5

    def test_known_variances_are_taken_off_the_noise(self, one_d):
        free = self.quick(nu=4.0, draws=60, tune=40).fit(one_d.X, one_d.y)
        model = self.quick(nu=4.0, draws=60, tune=40).fit(one_d.X, one_d.y, noise_variance=np.full(60, 0.3))
        assert model.noise_variance_ < 0.9 * free.noise_variance_
        assert np.abs(model.predict(one_d.X_test) - free.predict(one_d.X_test)).max() < 0.4

    def test_interrupt_raises_unless_asked_otherwise(self, one_d, monkeypatch):
        self.interrupt_after(30, monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            self.quick().fit(one_d.X, one_d.y)

    def test_interrupted_draws_are_returned_when_asked_for(self, one_d, monkeypatch):
        whole = self.quick().fit(one_d.X, one_d.y)
        self.interrupt_after(31, monkeypatch)  # 8 iterations of tuning, 7 of draws, and half of one
        with pytest.warns(InterruptedWarning, match="rests on 7 of the 10 draws of each chain"):
            model = self.quick(on_interrupt="return").fit(one_d.X, one_d.y)
        assert not model.converged_
        assert_array_equal(model.draws_["variance"], whole.draws_["variance"][:, :7])
        assert np.isfinite(model.predict(one_d.X_test, return_std=True)).all()

    def test_interrupt_before_the_first_draw_raises_always(self, one_d, monkeypatch):
        self.interrupt_after(5, monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            self.quick(on_interrupt="return").fit(one_d.X, one_d.y)

    @staticmethod
    def interrupt_after(n, monkeypatch):
        advance, count = Chain.advance, iter(range(n))

        def interrupted(*arguments):
            if next(count, None) is None:
                raise KeyboardInterrupt
            return advance(*arguments)

        monkeypatch.setattr(Chain, "advance", interrupted)

    def test_a_bar_is_shown_on_request_only(self, one_d, capsys):
        self.quick().fit(one_d.X, one_d.y)
        assert capsys.readouterr().out == ""
        self.quick(progress=True).fit(one_d.X, one_d.y)
        assert "sampling" in capsys.readouterr().out

    def test_too_few_draws_to_tell_are_not_called_converged(self, one_d):
        model = self.quick(draws=3).fit(one_d.X, one_d.y)
        assert np.isnan(model.r_hat_["variance"])
        assert not model.converged_


def test_chains_that_disagree_warn(one_d, monkeypatch):
    monkeypatch.setattr(Chain, "advance", lambda *_: 1.0)  # each stays where it started
    with pytest.warns(MixingWarning, match=r"do not agree on .* \(R̂ = .*above 1\.05.*Raise draws"):
        model = ScaleMixtureGP(draws=10, tune=2, chains=3).fit(one_d.X, one_d.y)
    assert not model.converged_


def test_chains_that_agree_do_not(one_d):
    model = ScaleMixtureGP(nu=4.0).fit(one_d.X, one_d.y)
    assert model.converged_
    assert max(model.r_hat_.values()) <= 1.05
    assert min(model.effective_sample_size_.values()) > 100


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nu": 0.0}, "nu must be a finite number above 0"),
        ({"nu": 1e9}, "use GaussianGP"),
        ({"draws": 0}, "draws must be a whole number from 1"),
        ({"tune": 1.5}, "tune must be"),
        ({"chains": -1}, "chains must be"),
        ({"noise": "loud"}, "noise must be one of 'core', 'scale'"),
        ({"on_interrupt": "ignore"}, "on_interrupt must be one of 'raise', 'return'"),
        ({"random_state": "seed"}, "seed"),
    ],
)
def test_bad_parameters_are_refused_by_name(one_d, parameters, message):
    with pytest.raises(ValueError, match=message):
        ScaleMixtureGP(**parameters).fit(one_d.X, one_d.y)
