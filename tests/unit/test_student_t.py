"""The Student-t model: its quadrature, its signed algebra, EP and Laplace against brute force, and the estimator."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm
from scipy.stats import t as student
from sklearn.base import clone

from biasgp import ConvergenceWarning, HiddenOutliersWarning
from biasgp.covariance.signed import SignedFactor
from biasgp.data import Scenario, simulate
from biasgp.estimators.student_t import StudentTGP
from biasgp.kernels import SquaredExponential
from biasgp.models import student_t
from biasgp.models.ep import EPPolicy, ExpectationPropagation
from biasgp.models.laplace_t import Mode
from biasgp.models.problem import Problem
from biasgp.models.t_noise import Normality, StudentT, _Quadrature

# y, mean and variance of f, σ², ν: near; far; far with f free to go there (two modes); beyond reach; f all but known.
CAVITIES = [
    (0.0, 0.3, 0.5, 0.2, 4.0),
    (8.0, 0.0, 0.5, 0.04, 1.0),
    (5.0, 0.0, 1.0, 0.01, 2.0),
    (3.0, 0.0, 100.0, 1e-4, 1.5),
    (1e3, 0.0, 0.1, 0.01, 3.0),
    (1.0, 0.0, 1e-6, 1e-2, 0.7),
    (2.0, 0.0, 1.0, 0.3, 500.0),
]


def brute_force(y, mean, variance, scale2, nu, fraction):
    """Log normaliser, mean, variance and expected weight by a grid that is dense about the mean and about y."""
    spread, scale = np.sqrt(variance), np.sqrt(scale2)
    grid = mean + spread * np.linspace(-12, 12, 400_001)
    near = y + scale * np.sinh(np.linspace(-12, 12, 100_001))
    grid = np.unique(np.concatenate([grid, near[np.abs(near - mean) < 12 * spread]]))
    log_p = norm.logpdf(grid, mean, spread) + fraction * student.logpdf(y - grid, nu, scale=scale)
    top = log_p.max()
    p = np.exp(log_p - top)
    Z = np.trapezoid(p, grid)
    first = np.trapezoid(p * grid, grid) / Z
    second = np.trapezoid(p * (grid - first) ** 2, grid) / Z
    weight = np.trapezoid(p * (nu + 1) / (nu + (y - grid) ** 2 / scale2), grid) / Z
    return top + np.log(Z), first, second, weight


@pytest.mark.parametrize("fraction", [1.0, 0.9, 0.5])
@pytest.mark.parametrize("cavity", CAVITIES)
def test_tilted_moments_are_those_of_a_fine_grid(cavity, fraction):
    y, mean, variance, scale2, nu = cavity
    found = StudentT(scale2, nu).tilt(np.array([y]), np.array([mean]), np.array([variance]), fraction)
    log_Z, first, second, weight = brute_force(*cavity, fraction)
    assert_allclose(found.log_normaliser, log_Z, rtol=1e-7, atol=1e-7)
    assert_allclose(found.mean, first, rtol=1e-6, atol=1e-6 * np.sqrt(second))
    assert_allclose(found.variance, second, rtol=1e-6)
    assert_allclose(found.weight, weight, rtol=1e-5)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("cavity", CAVITIES)
def test_tilted_gradients_are_numerical_ones(cavity, fraction):
    y, mean, variance, scale2, nu = cavity

    def log_Z(by_scale, by_nu):
        t = StudentT(scale2 * by_scale, nu * by_nu)
        at = t.tilt(np.array([y]), np.array([mean]), np.array([variance]), fraction)
        return at.log_normaliser[0] / fraction

    found = StudentT(scale2, nu).tilt(np.array([y]), np.array([mean]), np.array([variance]), fraction)
    up = np.exp(1e-4)
    assert_allclose(found.by_log_scale2[0], (log_Z(up, 1) - log_Z(1 / up, 1)) / 2e-4, atol=1e-5)
    assert_allclose(found.by_log_nu[0], (log_Z(1, up) - log_Z(1, 1 / up)) / 2e-4, atol=1e-5)


def test_tilted_readings_do_not_depend_on_how_many_are_taken_at_a_time(rng):
    y, mean, variance = 5 * rng.standard_normal(50), rng.standard_normal(50), rng.uniform(0.1, 2, 50)
    t = StudentT(0.1, 2.0)
    few_at_a_time = t.tilt(y, mean, variance, rule=_Quadrature(max_entries=300))
    assert_allclose(few_at_a_time.mean, t.tilt(y, mean, variance).mean, atol=1e-7)


def covariance(rng, n=30):
    X = rng.uniform(0, 5, (n, 1))
    return SquaredExponential(length_scale=1.0, variance=2.0).bind(X)(X)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_signed_algebra_is_that_of_whole_matrices(rng, share):
    C = covariance(rng)
    tau = rng.uniform(0.5, 4.0, len(C))
    tau[rng.random(len(C)) < share] *= -0.05
    tau[3], tau[4] = 1e-9, 0.0  # so weak that dividing by them would lose all digits
    factor = SignedFactor.factorise(C, tau)
    S = np.linalg.solve(np.eye(len(C)) + C * tau, C)
    assert_allclose(factor.marginal_variances(), S.diagonal(), rtol=1e-9)
    assert_allclose(factor.logdet, np.linalg.slogdet(np.eye(len(C)) + C * tau)[1], rtol=1e-9)
    shift = rng.standard_normal(len(C))
    b, mean = factor.solve(shift)
    assert_allclose(mean, S @ shift, atol=1e-9)
    assert_allclose(C @ b, mean, atol=1e-9)
    assert_allclose(C - C @ factor.inverse() @ C, S, atol=1e-9)
    U, V = factor.explain(C)
    assert_allclose(C - U.T @ U + (0.0 if V is None else V.T @ V), S, atol=1e-9)


def test_signed_algebra_refuses_a_posterior_that_is_not_proper(rng):
    C = covariance(rng)
    tau = np.ones(len(C))
    tau[5] = -50.0
    assert SignedFactor.factorise(C, tau) is None
    assert SignedFactor.factorise(C, -np.ones(len(C))) is None


def run_ep(C, y, t, fraction=1.0, tolerance=1e-9):
    found = ExpectationPropagation(C, y, t, fraction, EPPolicy(tolerance)).run([t.sites(y, np.zeros_like(y))])
    assert found.mismatch <= tolerance
    return found


@pytest.mark.parametrize("y", [0.4, 3.0, -6.0])
def test_one_reading_is_exact(y):
    """Beside an independent one, as a posterior is not made of sites of negative precision alone."""
    t, prior = StudentT(0.05, 2.0), 1.5
    found = run_ep(np.diag([prior, 1.0]), np.array([y, 0.1]), t)
    log_Z, mean, variance, weight = brute_force(y, 0.0, prior, t.scale2, t.nu, 1.0)
    assert_allclose(found.log_evidence, log_Z + brute_force(0.1, 0.0, 1.0, t.scale2, t.nu, 1.0)[0], atol=1e-6)
    assert_allclose(found.mean[0], mean, atol=1e-6)
    assert_allclose(found.variance[0], variance, rtol=1e-6)
    assert_allclose(found.tilted.weight[0], weight, rtol=1e-5)


def two_reading_grid(C, y, t):
    axis = np.linspace(-9, 9, 1201)
    F = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    log_p = multivariate_normal(np.zeros(2), C).logpdf(F)
    log_p += student.logpdf(y - F, t.nu, scale=np.sqrt(t.scale2)).sum(axis=-1)
    p = np.exp(log_p - log_p.max())
    total = p.sum()
    mean = (p[..., None] * F).sum(axis=(0, 1)) / total
    variance = (p[..., None] * (F - mean) ** 2).sum(axis=(0, 1)) / total
    return log_p.max() + np.log(total * (axis[1] - axis[0]) ** 2), mean, variance


@pytest.mark.parametrize(("y", "atol"), [((0.5, 0.9), 0.01), ((0.5, 5.0), 0.05)])
def test_two_readings_are_close_to_a_grid(y, atol):
    """EP is no longer exact; that the second reading is an outlier costs it little."""
    C, t = np.array([[1.0, 0.8], [0.8, 1.0]]), StudentT(0.1, 3.0)
    log_Z, mean, variance = two_reading_grid(C, np.array(y), t)
    found = run_ep(C, np.array(y), t)
    assert_allclose(found.log_evidence, log_Z, atol=atol)
    assert_allclose(found.mean, mean, atol=atol)
    assert_allclose(found.variance, variance, atol=atol)
    mode = Mode.climb(C, np.array(y), t, np.zeros(2))
    assert_allclose(mode.log_evidence, log_Z, atol=0.3)
    assert_allclose(mode.mean, mean, atol=0.25)


def contaminated(n=40, scenario=8, seed=3):
    data = simulate("friedman", scenario, n=n, n_test=5, random_state=seed)
    z = (data.y - np.median(data.y)) / data.y.std()
    return data.X, z, SquaredExponential(ard=True).bind(data.X)


@pytest.mark.parametrize("kind", ["ep 1.0", "ep 0.9", "ep 0.5", "laplace"])
@pytest.mark.parametrize("known", [0.0, 0.03])
def test_evidence_gradient_is_the_numerical_one(kind, known):
    X, z, kernel = contaminated()
    arguments = (Problem(X, z, kernel, np.full(len(z), known)), np.zeros_like(z))
    # Differences of log Z need more digits than a search does.
    policy = student_t._EvidencePolicy(search_tolerance=1e-8)
    if kind == "laplace":
        evidence = student_t._LaplaceEvidence(*arguments, policy)
    else:
        evidence = student_t._EPEvidence(*arguments, float(kind.split()[1]), policy)
    x = np.append(kernel.theta, np.log([0.02, 2.0]))

    def value_and_gradient(at):
        evidence.best = np.inf
        return evidence(at)

    gradient = value_and_gradient(x)[1]
    numerical = [
        (value_and_gradient(x + step)[0] - value_and_gradient(x - step)[0]) / 2e-4 for step in 1e-4 * np.eye(len(x))
    ]
    assert evidence.failures == 0
    assert_allclose(gradient, numerical, atol=1e-4)


def test_double_loop_ends_where_parallel_updates_do():
    X, z, kernel = contaminated()
    t = StudentT(0.05, 2.0)
    start = t.sites(z, np.zeros_like(z))
    parallel = ExpectationPropagation(kernel(X), z, t, 0.9).run([start])
    ep = ExpectationPropagation(kernel(X), z, t, 0.9, EPPolicy(1e-4))
    double = ep._double_loop(ep.state(start))
    assert double.mismatch <= 1e-4
    assert_allclose(double.log_evidence, parallel.log_evidence, atol=1e-3)
    assert_allclose(double.mean, parallel.mean, atol=1e-3)


def test_inner_loop_only_goes_down():
    X, z, kernel = contaminated()
    t = StudentT(0.02, 1.5)
    ep = ExpectationPropagation(kernel(X), z, t, 0.9)
    state = ep.state(t.sites(z, np.zeros_like(z)))
    held, values = state.marginals, []
    for _ in range(6):
        state, _ = ep._line_search(ep.state(state.sites, held), held, 0.5)
        values.append(state.inner)
    assert np.all(np.diff(values) <= 1e-9)
    step = 1e-5 * state.gap
    ahead, behind = (ep.state(sites, held).inner for sites in (state.sites + step, state.sites - step))
    assert_allclose(state.slope(step), (ahead - behind) / 2, rtol=1e-3, atol=1e-9)


def test_mode_is_a_stationary_point():
    X, z, kernel = contaminated()
    t = StudentT(0.05, 2.0)
    mode = Mode.climb(kernel(X), z, t, np.zeros_like(z))
    assert mode.converged
    slope = (t.nu + 1.0) * (z - mode.mean) / (t.nu * t.scale2 + (z - mode.mean) ** 2)
    assert_allclose(mode.b, slope, atol=1e-5)
    assert_allclose(kernel(X) @ mode.b, mode.mean, atol=1e-6)


@pytest.fixture(scope="module", params=["ep", "laplace"])
def fitted(request):
    data = simulate("1d", 8, n=100, n_test=50, random_state=4)
    return StudentTGP(inference=request.param).fit(data.X, data.y), data


def test_outliers_are_found(fitted):
    model, data = fitted
    assert model.converged_
    assert model.inference_ == model.inference
    assert_array_equal(model.outlier_mask_, data.is_outlier)
    assert np.all((model.outlier_probability_ >= 0) & (model.outlier_probability_ <= 1))
    assert model.weights_[data.is_outlier].max() < 0.2 < np.median(model.weights_[~data.is_outlier])
    truth = (data.y - data.f)[data.is_outlier]
    assert_allclose(model.bias_[data.is_outlier], truth, atol=0.6)
    assert np.median(np.abs(model.bias_[~data.is_outlier])) < 0.05


def test_std_and_covariance_agree_with_each_other_and_at_the_readings(fitted):
    model, data = fitted
    mean, std = model.predict(data.X_test, return_std=True)
    same_mean, covariance = model.predict(data.X_test, return_cov=True)
    assert_allclose(mean, same_mean)
    assert_allclose(std**2, covariance.diagonal(), rtol=1e-6, atol=1e-10)
    noisy = model.predict(data.X_test, return_std=True, include_noise=True)[1]
    assert_allclose(noisy**2, std**2 + model.noise_variance_)
    assert np.linalg.eigvalsh(covariance).min() > -1e-8


def test_noise_is_that_of_most_readings_or_the_scale(fitted):
    model, data = fitted
    clean = (data.y - data.f)[~data.is_outlier]
    assert model.noise_variance_ == pytest.approx(clean.var(), rel=0.25)
    papers = clone(model).set_params(noise="scale").fit(data.X, data.y)
    assert papers.noise_variance_ == pytest.approx(papers.scale_**2)
    assert papers.scale_ == pytest.approx(model.scale_)
    assert papers.noise_variance_ < 0.8 * model.noise_variance_
    same = [each.log_predictive_density(data.X_test, data.y_test) for each in (model, papers)]
    assert_allclose(*same)


def test_predictive_density_is_one(fitted):
    model, data = fitted
    x = data.X_test[:1]
    y = model.predict(x)[0] + np.sinh(np.linspace(-14, 14, 4001))
    density = np.exp(model.log_predictive_density(np.repeat(x, len(y), axis=0), y))
    assert_allclose(np.trapezoid(density, y), 1.0, atol=1e-3)


def test_predictive_density_is_the_convolution(fitted):
    model, data = fitted
    mean, std = model.predict(data.X_test[:1], return_std=True)
    scale = model.scale_
    f = mean + std * np.linspace(-10, 10, 20_001)
    for y in (mean[0], mean[0] + 1.0, mean[0] - 8.0):
        joint = norm.pdf(f, mean, std) * student.pdf(y - f, model.degrees_of_freedom_, scale=scale)
        found = model.log_predictive_density(data.X_test[:1], [y])
        assert_allclose(found, np.log(np.trapezoid(joint, f)), atol=1e-6)


def test_fit_is_deterministic(one_d):
    first, second = (StudentTGP().fit(one_d.X, one_d.y) for _ in range(2))
    assert first.log_marginal_likelihood_ == second.log_marginal_likelihood_
    assert_array_equal(first.predict(one_d.X_test), second.predict(one_d.X_test))


def test_degrees_of_freedom_stay_where_they_are_put(one_d):
    model = StudentTGP(nu=3.0).fit(one_d.X, one_d.y)
    assert_allclose(model.degrees_of_freedom_, 3.0)
    free = StudentTGP().fit(one_d.X, one_d.y)
    assert free.log_marginal_likelihood_ >= model.log_marginal_likelihood_ - 1e-6


@pytest.mark.parametrize("size", [1e3, 1e9])
def test_one_wild_reading_changes_little(one_d, size):
    y = one_d.y.copy()
    plain = StudentTGP(nu=2.0).fit(one_d.X, y).predict(one_d.X_test)
    y[7] = size
    model = StudentTGP(nu=2.0).fit(one_d.X, y)
    assert model.outlier_mask_[7]
    assert np.abs(model.predict(one_d.X_test) - plain).max() < 0.3


def test_known_variances_are_taken_off_the_noise(one_d):
    free = StudentTGP(nu=4.0).fit(one_d.X, one_d.y)
    model = StudentTGP(nu=4.0).fit(one_d.X, one_d.y, noise_variance=np.full(60, 0.1))
    assert model.noise_variance_ < free.noise_variance_
    assert np.abs(model.predict(one_d.X_test) - free.predict(one_d.X_test)).max() < 0.2


def test_ep_that_fails_warns_and_returns_laplace(monkeypatch):
    data = simulate("1d", 8, n=100, n_test=50, random_state=4)
    expected = StudentTGP(inference="laplace").fit(data.X, data.y)
    monkeypatch.setattr(ExpectationPropagation, "run", lambda *_: None)
    with pytest.warns(ConvergenceWarning, match=r"neither with fraction 0\.9 nor with 0\.5.*Laplace"):
        model = StudentTGP().fit(data.X, data.y)
    assert not model.converged_
    assert model.inference_ == "laplace"
    assert_allclose(model.predict(data.X_test), expected.predict(data.X_test))


def test_laplace_is_close_to_ep_or_says_that_it_broke_down(one_d):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = StudentTGP(inference="laplace").fit(one_d.X, one_d.y)
    broke = [w for w in caught if "Laplace's approximation breaks down" in str(w.message)]
    assert model.converged_ == (not broke)
    assert_allclose(model.predict(one_d.X_test), StudentTGP().fit(one_d.X, one_d.y).predict(one_d.X_test), atol=0.3)


def test_ep_that_fails_is_tried_with_a_smaller_fraction(one_d, monkeypatch):
    run = ExpectationPropagation.run
    monkeypatch.setattr(
        ExpectationPropagation, "run", lambda ep, starts: run(ep, starts) if ep.fraction <= 0.5 else None
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = StudentTGP().fit(one_d.X, one_d.y)
    assert model.converged_
    assert (model.inference_, model.fraction_) == ("ep", 0.5)


def test_search_cut_short_warns(one_d):
    with pytest.warns(ConvergenceWarning):
        model = StudentTGP(max_iter=1).fit(one_d.X, one_d.y)
    assert not model.converged_


def test_outliers_taken_for_gaussian_noise_are_warned_of():
    data = simulate("1d", Scenario(0.45, 5.0, 5 / 12), n=100, n_test=5, random_state=1)
    with pytest.warns(HiddenOutliersWarning, match=r"found to be Gaussian \(ν = 1e\+03\).*SparseBiasGP"):
        StudentTGP().fit(data.X, data.y)


@pytest.mark.parametrize("seed", range(4))
def test_noise_that_is_gaussian_is_no_reason_to_warn(seed):
    data = simulate("1d", Scenario(0.0, 5.0, 5 / 12), n=100, n_test=5, random_state=seed)
    assert StudentTGP().fit(data.X, data.y).degrees_of_freedom_ > 5.0


@pytest.mark.parametrize(("nu", "warns"), [(1000.0, True), (5.0, False)])
def test_residuals_in_two_heaps_deny_gaussian_noise_only(rng, nu, warns):
    heaps = rng.standard_normal(100) + 6.0 * (rng.random(100) < 0.4)
    assert bool(Normality().contradiction(heaps, nu)) == warns
    assert not Normality().contradiction(rng.standard_normal(100), nu)
    assert not Normality().contradiction(np.zeros(10), nu)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nu": 0.0}, "nu must be a finite number above 0"),
        ({"nu": -1}, "nu must be"),
        ({"nu": np.inf}, "nu must be"),
        ({"nu": 1e9}, "use GaussianGP"),
        ({"nu": "4"}, "nu must be"),
        ({"inference": "vb"}, "inference must be one of 'ep', 'laplace'"),
        ({"noise": "loud"}, "noise must be one of 'core', 'scale'"),
        ({"fraction": 0.0}, "fraction must be"),
        ({"fraction": 1.5}, "fraction must be above 0 and at most 1"),
        ({"fraction": np.nan}, "fraction must be"),
        ({"max_iter": 0}, "max_iter must be"),
    ],
)
def test_bad_parameters_are_refused_by_name(one_d, parameters, message):
    with pytest.raises(ValueError, match=message):
        StudentTGP(**parameters).fit(one_d.X, one_d.y)


def test_density_of_too_few_readings_is_refused(fitted):
    model, data = fitted
    with pytest.raises(ValueError, match=r"y must have one value per row of X, shape \(50,\)"):
        model.log_predictive_density(data.X_test, data.y_test[:3])


def test_what_speaks_against_gaussian_noise_does_not_depend_on_the_unit():
    residuals = np.random.default_rng(0).standard_t(2, 200)
    found = Normality().contradiction(residuals, 100.0)
    assert "Shapiro" in found
    assert Normality().contradiction(1e-30 * residuals, 100.0) == found
