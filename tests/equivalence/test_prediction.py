"""Prediction: chunks, covariances, noise, draws, and known measurement errors."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP
from biasgp.covariance import posterior
from biasgp.data import Scenario, one_dimensional, simulate
from biasgp.kernels import Matern32

ESTIMATORS = [GaussianGP, ConstantBiasGP, RandomBiasGP]
every_estimator = pytest.mark.parametrize("Estimator", ESTIMATORS)


@pytest.fixture(scope="module")
def fitted():
    data = simulate("1d", 1, n=60, n_test=37, random_state=1)
    return {E: E(Matern32()).fit(data.X, data.y) for E in ESTIMATORS}, data.X_test


@every_estimator
@pytest.mark.parametrize("rows", [1, 5, 36, 37])
def test_predictions_in_chunks_equal_those_at_once(Estimator, rows, fitted, monkeypatch):
    model, X = fitted[0][Estimator], fitted[1]
    mean, std = model.predict(X, return_std=True)
    monkeypatch.setattr(posterior, "CHUNK_ENTRIES", rows * 60)
    chunked_mean, chunked_std = model.predict(X, return_std=True)
    assert_allclose(chunked_mean, mean, rtol=1e-12, atol=1e-13)
    assert_allclose(chunked_std, std, rtol=1e-10)
    assert_allclose(model.predict(X), mean, rtol=1e-12, atol=1e-13)


def test_a_chunk_holds_no_more_covariances_than_it_may(fitted, monkeypatch):
    model, X = fitted[0][GaussianGP], fitted[1]
    seen = []
    monkeypatch.setattr(posterior, "CHUNK_ENTRIES", 600)
    call = Matern32.__call__
    monkeypatch.setattr(Matern32, "__call__", lambda k, A, B=None: seen.append(len(A) * len(B)) or call(k, A, B))
    model.predict(X, return_std=True)
    assert len(seen) == 4
    assert max(seen) <= 600


@every_estimator
def test_covariance_is_symmetric_and_its_diagonal_is_std_squared(Estimator, fitted):
    model, X = fitted[0][Estimator], fitted[1]
    mean, std = model.predict(X, return_std=True)
    mean_again, covariance = model.predict(X, return_cov=True)
    assert_allclose(mean_again, mean, rtol=1e-12, atol=1e-13)
    assert_allclose(covariance.diagonal(), std**2, rtol=1e-9)
    assert_allclose(covariance, covariance.T, rtol=1e-10, atol=1e-14)
    assert np.linalg.eigvalsh(covariance).min() > -1e-10


@every_estimator
def test_include_noise_adds_the_noise_variance_once(Estimator, fitted):
    model, X = fitted[0][Estimator], fitted[1]
    (mean, std), (noisy_mean, noisy_std) = (
        model.predict(X, return_std=True, include_noise=noise) for noise in (False, True)
    )
    assert_array_equal(noisy_mean, mean)
    assert_allclose(noisy_std**2, std**2 + model.noise_variance_, rtol=1e-10)
    smooth, noisy = (model.predict(X, return_cov=True, include_noise=noise)[1] for noise in (False, True))
    assert_allclose(noisy - smooth, model.noise_variance_ * np.eye(len(X)), atol=1e-12)


@every_estimator
@pytest.mark.parametrize("include_noise", [False, True])
def test_draws_have_the_predicted_mean_and_covariance(Estimator, include_noise, fitted):
    model, X = fitted[0][Estimator], fitted[1][:8]
    mean, covariance = model.predict(X, return_cov=True, include_noise=include_noise)
    draws = model.sample_y(X, 20_000, random_state=3, include_noise=include_noise)
    assert draws.shape == (8, 20_000)
    assert_allclose(draws.mean(axis=1), mean, atol=5 * np.sqrt(covariance.diagonal().max() / 20_000))
    assert_allclose(np.cov(draws), covariance, atol=0.05 * covariance.diagonal().max())


def test_draws_follow_their_seed(fitted):
    model, X = fitted[0][GaussianGP], fitted[1]
    first = model.sample_y(X, 2, random_state=1)
    assert_array_equal(model.sample_y(X, 2, random_state=1), first)
    assert_array_equal(model.sample_y(X, 2, random_state=np.random.default_rng(1)), first)
    assert not np.array_equal(model.sample_y(X, 2, random_state=2), first)
    assert not np.array_equal(model.sample_y(X, random_state=None), model.sample_y(X, random_state=None))


def test_draws_at_repeated_rows_agree_with_one_another(fitted):
    model, X = fitted[0][GaussianGP], fitted[1]
    draws = model.sample_y(np.repeat(X[:3], 2, axis=0), 4)
    assert_allclose(draws[::2], draws[1::2], atol=0.05)


@pytest.mark.parametrize("curve", [np.sin, np.exp])
@pytest.mark.filterwarnings("ignore::biasgp.ConvergenceWarning")
def test_draws_from_a_fit_to_a_smooth_noise_free_curve(curve):
    X = np.linspace(-3, 3, 40)[:, None]
    model = GaussianGP().fit(X, curve(X[:, 0]))
    assert_allclose(model.sample_y(X, 3), curve(X).repeat(3, axis=1), atol=0.05)


@pytest.mark.parametrize("Estimator", [GaussianGP, ConstantBiasGP])
def test_a_known_constant_variance_is_taken_off_the_learnt_one(Estimator, one_d):
    alone = Estimator().fit(one_d.X, one_d.y)
    known = 0.4 * alone.noise_variance_
    with_known = Estimator().fit(one_d.X, one_d.y, noise_variance=np.full(60, known))
    assert with_known.noise_variance_ + known == pytest.approx(alone.noise_variance_, rel=1e-2)
    assert_allclose(with_known.predict(one_d.X_test), alone.predict(one_d.X_test), atol=0.01)
    as_number = Estimator().fit(one_d.X, one_d.y, noise_variance=known)
    assert_array_equal(as_number.predict(one_d.X_test), with_known.predict(one_d.X_test))


@every_estimator
def test_zero_known_variance_is_none(Estimator, one_d):
    a = Estimator().fit(one_d.X, one_d.y, noise_variance=np.zeros(60)).predict(one_d.X_test)
    assert_array_equal(a, Estimator().fit(one_d.X, one_d.y).predict(one_d.X_test))


@every_estimator
def test_known_variances_down_weight_the_noisy_readings(Estimator):
    clean = simulate("1d", Scenario(0.0, 3.0, 0.1), n=80, n_test=60, random_state=4)
    rng = np.random.default_rng(4)
    known = np.where(np.arange(80) % 2, 4.0, 0.0)
    y = clean.y + np.sqrt(known) * rng.standard_normal(80)
    told = Estimator().fit(clean.X, y, noise_variance=known)
    untold = Estimator().fit(clean.X, y)
    error_told, error_untold = (np.mean((m.predict(clean.X_test) - clean.f_test) ** 2) for m in (told, untold))
    assert error_told < 0.02
    assert error_told < error_untold
    assert told.noise_variance_ < 0.05


def test_a_reading_of_huge_known_variance_counts_for_nothing(one_d):
    y = one_d.y.copy()
    y[10] = 50.0
    known = np.zeros(60)
    known[10] = 1e8
    rest = np.arange(60) != 10
    without = GaussianGP().fit(one_d.X[rest], y[rest]).predict(one_d.X_test)
    assert_allclose(GaussianGP().fit(one_d.X, y, noise_variance=known).predict(one_d.X_test), without, atol=0.1)


@pytest.mark.parametrize("Estimator", [ConstantBiasGP, RandomBiasGP])
def test_the_robust_fits_beat_the_plain_one_and_name_the_outliers(Estimator):
    data = simulate("1d", 4, n=90, n_test=100, random_state=3)
    plain = GaussianGP().fit(data.X, data.y).predict(data.X_test)
    robust = Estimator().fit(data.X, data.y)
    error, plain_error = (np.mean((m - data.f_test) ** 2) for m in (robust.predict(data.X_test), plain))
    assert error < 0.5 * plain_error
    assert np.mean(robust.outlier_mask_[data.is_outlier]) > 0.9
    assert np.mean(robust.outlier_mask_[~data.is_outlier]) < 0.1
    assert np.all(robust.bias_[data.is_outlier] > 2.0)


@pytest.mark.parametrize(
    "curve",
    [lambda x: x**2, np.exp, lambda x: np.maximum(x, 0.0), lambda x: np.where(x > 0, 1.0, 0.0)],
    ids=["parabola", "exponential", "ramp", "step"],
)
@every_estimator
def test_clean_readings_of_a_lopsided_curve_are_not_taken_for_biased(Estimator, curve):
    X = np.sort(np.random.default_rng(0).uniform(-3, 3, (150, 1)), axis=0)
    f = curve(X[:, 0])
    y = f + 0.05 * f.std() * np.random.default_rng(1).standard_normal(150)
    model = Estimator().fit(X, y)
    assert np.median(np.abs(model.predict(X) - f)) < 0.05 * f.std()
    if Estimator is not GaussianGP:
        assert model.outlier_mask_.mean() < 0.1


def test_fit_recovers_the_curve_from_clean_readings():
    X = np.linspace(-3, 3, 80)[:, None]
    f = one_dimensional(X)
    y = f + 0.05 * np.random.default_rng(0).standard_normal(80)
    for Estimator in ESTIMATORS:
        assert np.abs(Estimator().fit(X, y).predict(X) - f).max() < 0.1
