"""Noise that varies: its likelihood, its evidence, and what fits make of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import check_grad

import biasgp
from biasgp import GaussianGP, SparseBiasGP
from biasgp.covariance.neighbours import Nearness
from biasgp.kernels import Matern32, SquaredExponential
from biasgp.models.varying_noise import (
    POLICY,
    Residuals,
    VaryingNoise,
    _Basis,
    _maximised,
    _proportional,
)


def funnel(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Readings of a wave whose noise grows from .03 to .6 along x, and its standard deviation at each."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 10.0, n))
    std = 0.03 * 20.0 ** (x / 10.0)
    return x[:, None], np.sin(x) + std * rng.standard_normal(n), std


@pytest.fixture(scope="module")
def fitted() -> SparseBiasGP:
    """To be left as it is."""
    return SparseBiasGP().fit(*funnel()[:2])


def residuals(n: int = 40, seed: int = 1) -> Residuals:
    rng = np.random.default_rng(seed)
    value, variance = rng.standard_normal(n), rng.uniform(0.0, 0.5, n)
    X = rng.uniform(size=(n, 1))
    return Residuals(X, value, 3.0 + X[:, 0], variance, np.full(n, 0.5), np.log(0.02) - 0.1 * value**2, np.log(0.9))


def test_gradient_of_the_likelihood_equals_numerical_differences():
    given, at = residuals(), np.random.default_rng(2).normal(-1.0, 1.0, 40)
    assert check_grad(lambda g: given.likelihood(g)[0], lambda g: given.likelihood(g)[1], at) < 1e-5


def test_without_outliers_the_information_is_the_expected_curvature():
    # Of r ~ N(0, v + e^g), averaged over r: the Fisher information is half of the squared share of the noise.
    variance, log_noise = np.full(200_000, 0.4), np.log(0.6)
    value = np.random.default_rng(3).standard_normal(200_000)
    given = Residuals(value[:, None], value, value, variance, variance)
    step = 1e-3
    gradients = [given.likelihood(np.full(200_000, log_noise + each))[1].mean() for each in (-step, step)]
    curvature = -(gradients[1] - gradients[0]) / (2.0 * step)
    assert curvature == pytest.approx(given.likelihood(np.full(200_000, log_noise))[2].mean(), rel=0.02)


def test_evidence_of_one_noise_variance_is_the_integral_over_it():
    mixed = residuals(60)
    given = Residuals(mixed.X, mixed.value, mixed.mean, 0.2 * mixed.variance, mixed.noise)
    evidence, _, log_prior = _maximised(given, np.empty((60, 0)), 0.0)

    def density(offset: float) -> float:
        prior = -0.5 * (offset / POLICY.mean_std) ** 2 - 0.5 * np.log(2.0 * np.pi * POLICY.mean_std**2)
        return float(np.exp(given.likelihood(np.full(60, offset))[0] + prior - evidence))

    assert np.log(quad(density, -8.0, 4.0, limit=200)[0]) == pytest.approx(0.0, abs=0.05)
    assert log_prior == 0.0


def test_basis_is_the_same_at_the_readings_and_as_a_function():
    X, _, _ = funnel(80)
    kernel = SquaredExponential(length_scale=1.5).bind(X)
    basis, columns = _Basis.of(Nearness.of(kernel, X), 2.0)
    np.testing.assert_allclose(basis(X), columns, atol=1e-7)
    U = Nearness.of(kernel, X).coordinates(X) / 2.0
    np.testing.assert_allclose(columns @ columns.T, np.exp(-0.5 * (U - U.T) ** 2), atol=0.2)


def test_noise_that_grows_is_found_and_hardly_any_reading_flagged(fitted):
    X, y, std = funnel()
    constant, model = SparseBiasGP(noise_model="constant").fit(X, y), fitted
    assert constant.outlier_mask_.sum() >= 20
    assert model.outlier_mask_.sum() <= 3
    assert model.log_evidence_ > constant.log_evidence_ + 10.0
    ratio = model.noise_std(X) / std
    assert ratio.min() > 0.5 and ratio.max() < 2.0
    assert model.noise_variance_ == pytest.approx(np.mean(model.noise_std(X) ** 2))


def test_outliers_are_told_from_noise_that_grows():
    X, y, std = funnel()
    bad = np.arange(5, 200, 20)
    y[bad] += np.maximum(15.0 * std[bad], 2.0)
    model = SparseBiasGP().fit(X, y)
    assert model.outlier_mask_[bad].all()
    assert model.outlier_mask_.sum() <= len(bad) + 3


def test_readings_are_predicted_with_the_noise_of_their_place(fitted):
    X, model = funnel()[0], fitted
    f_std, reading_std = (model.predict(X, return_std=True, include_noise=noise)[1] for noise in (False, True))
    np.testing.assert_allclose(reading_std**2, f_std**2 + model.noise_std(X) ** 2, rtol=1e-9)
    low, high = model.predict_quantiles(X[[5, 195]], [0.025, 0.975], include_noise=True).T
    assert (high - low)[1] > 5.0 * (high - low)[0]
    draws = model.sample_y(X[[5, 195]], 4000, include_noise=True)
    np.testing.assert_allclose(draws.std(axis=1), reading_std[[5, 195]], rtol=0.1)
    assert model.predict(X[[5, 195]], return_cov=True, include_noise=True)[1][1, 1] == pytest.approx(
        reading_std[195] ** 2, rel=1e-6
    )


@pytest.mark.parametrize("seed", range(4))
def test_one_variance_stays_where_the_noise_is_the_same_everywhere(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (150, 1))
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(150)
    y[:15] += 2.0
    model = SparseBiasGP().fit(X, y)
    same = SparseBiasGP(noise_model="constant").fit(X, y)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    assert np.ptp(model.noise_std(X)) == 0.0


def test_a_plain_gp_may_have_noise_that_varies():
    X, y, std = funnel()
    plain, varying = GaussianGP().fit(X, y), GaussianGP(noise_model="auto").fit(X, y)
    assert np.ptp(plain.noise_std(X)) == 0.0
    assert np.abs(np.log(varying.noise_std(X) / std)).max() < np.log(2.0)


def proportional(n: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = np.linspace(0.0, 10.0, n)
    f = np.exp(1.5 + 1.5 * np.sin(x))
    return x[:, None], f + 0.1 * f * rng.standard_normal(n), f


def test_proportional_noise_is_a_share_of_f():
    X, y, f = proportional()
    model = SparseBiasGP(Matern32(), noise_model="proportional").fit(X, y)
    assert model.outlier_mask_.sum() <= 2
    high = f > np.median(f)
    assert np.median(model.noise_std(X)[high] / f[high]) == pytest.approx(0.1, rel=0.3)


def test_proportional_noise_is_no_worse_than_one_variance_but_for_its_price():
    given = residuals(200)
    found = list(_proportional(given, 0.0, [-1.0, 0.0]))
    one = _maximised(given, np.empty((200, 0)), 0.0)[0]
    # It includes one σ², for the price of a parameter.
    assert max(evidence for evidence, _ in found) > one - 0.5 * np.log(200.0) - 4.0


def test_proportional_noise_needs_a_response_as_it_is():
    X, y, _ = proportional(60)
    with pytest.raises(ValueError, match=r"noise_model='proportional'.*response='identity'"):
        SparseBiasGP(noise_model="proportional", response="log").fit(X, y)
    with pytest.raises(ValueError, match="noise_model must be one of"):
        GaussianGP(noise_model="rough").fit(X, y)


def test_it_does_not_depend_on_units_and_the_order_of_the_rows(fitted):
    X, y, _ = funnel()
    rows = np.random.default_rng(0).permutation(len(y))
    model, other = fitted, SparseBiasGP().fit(X[rows], 3.0 - 7.0 * y[rows])
    np.testing.assert_allclose(7.0 * model.noise_std(X), other.noise_std(X), rtol=0.05)
    # Labels in doubt are drawn.
    np.testing.assert_allclose(3.0 - 7.0 * model.predict(X), other.predict(X), atol=0.1)


def test_refits_explanations_and_files_keep_the_noise(tmp_path):
    X, y, _std = funnel()
    y[150] += 6.0
    model = SparseBiasGP().fit(X, y)
    noise, mean = model.noise_std(X), model.predict(X)
    assert model.explain(150).log_odds > 0.0
    assert abs(model.explain(195).noise_distance) < 5.0
    biasgp.save(model, tmp_path / "model.skops")
    loaded = biasgp.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.noise_std(X), noise)
    np.testing.assert_array_equal(loaded.predict(X), mean)
    model.refit(np.where(np.arange(len(y)) == 150, 1.0, np.nan))
    np.testing.assert_allclose(model.noise_std(X), noise, rtol=1e-9)


@pytest.mark.parametrize("approximation", ["auto", "vecchia"])
def test_many_readings_have_the_noise_of_few(approximation):
    X, y, std = funnel(2500)
    model = SparseBiasGP(Matern32(), approximation=approximation, order=None).fit(X, y)
    assert model.outlier_mask_.mean() < 0.01
    assert np.abs(np.log(model.noise_std(X) / std)).max() < np.log(2.5)
    reading_std = model.predict(X[::50], return_std=True, include_noise=True)[1]
    assert (reading_std >= 0.99 * model.noise_std(X[::50])).all()


def test_too_few_readings_say_nothing_of_it():
    X, y, _ = funnel(POLICY.min_readings - 1)
    assert np.ptp(SparseBiasGP().fit(X, y).noise_std(X)) == 0.0


def test_noise_is_a_function_of_the_inputs_alone(fitted):
    X, model = funnel()[0], fitted
    assert isinstance(model._noise, VaryingNoise)
    np.testing.assert_array_equal(model.noise_std(X[3:5]), model.noise_std(X)[3:5])


def test_a_fit_says_that_its_noise_varies(fitted):
    (note,) = (each for each in fitted.notes_ if each.code == "varying-noise")
    assert "varies with the inputs: its standard deviation is 0.0" in str(note)
    X, y, _ = proportional()
    model = SparseBiasGP(Matern32(), noise_model="proportional").fit(X, y)
    assert any("in proportion to the level" in str(each) for each in model.notes_)
