"""Noise with heavier tails than the normal's: when there are any, and what predictions make of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import biasgp
from biasgp import SparseBiasGP
from biasgp.models.noise_tails import Tails
from biasgp.models.varying_noise import Residuals

TAILS = Tails(0.1, 25.0)


def residuals(value: np.ndarray) -> Residuals:
    n = len(value)
    return Residuals(np.zeros((n, 1)), value, np.zeros(n), np.full(n, 1e-6), np.full(n, float(value.var())))


def heavy(n: int = 400, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """A wave with the noise of a mixture, whose wide part hardly stands apart."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 10.0, n))
    std = 0.05 * np.where(rng.random(n) < 0.3, 3.0, 1.0)
    return x[:, None], np.sin(x) + std * rng.standard_normal(n)


@pytest.fixture(scope="module")
def fitted() -> SparseBiasGP:
    """A fit to readings with normal noise that is given tails. To be left as it is."""
    rng = np.random.default_rng(1)
    X = np.linspace(0.0, 10.0, 100)[:, None]
    model = SparseBiasGP().fit(X, 5.0 + np.sin(X[:, 0]) + 0.3 * rng.standard_normal(100))
    model._tails = TAILS
    return model


def test_tails_leave_the_variance_as_it_is():
    (few, core), (many, wide) = TAILS.parts
    assert few + many == pytest.approx(1.0)
    assert few * core + many * wide == pytest.approx(1.0)
    assert wide / core == pytest.approx(TAILS.ratio)


def test_the_density_has_mass_one_and_the_variance_of_f_and_noise():
    def density(r: float) -> float:
        return float(np.exp(TAILS.log_density(np.array([r]), np.array([0.7]), 0.5))[0])

    assert quad(density, -15.0, 15.0, limit=200)[0] == pytest.approx(1.0, abs=1e-6)
    assert quad(lambda r: r**2 * density(r), -15.0, 15.0, limit=200)[0] == pytest.approx(0.7, abs=1e-5)


def test_tails_are_found_where_there_are_some():
    rng = np.random.default_rng(0)
    value = rng.standard_normal(2000) * np.where(rng.random(2000) < TAILS.share, np.sqrt(TAILS.ratio), 1.0)
    found = Tails.of(residuals(value))
    assert found is not None
    assert found.share == pytest.approx(TAILS.share, rel=0.5)
    assert found.ratio in (16.0, 25.0, 49.0)


def test_normal_noise_has_no_tails():
    draws = [np.random.default_rng(seed).standard_normal(200) for seed in range(40)]
    assert sum(Tails.of(residuals(value)) is not None for value in draws) <= 1


def test_what_is_an_outlier_is_no_tail():
    rng = np.random.default_rng(0)
    value = rng.standard_normal(300)
    value[:15] = 8.0
    noise = np.ones(300)
    outlier = np.where(np.arange(300) < 15, np.log(0.05) - 0.5 * np.log(2.0 * np.pi), -40.0)
    given = Residuals(np.zeros((300, 1)), value, 0.0 * noise, 0.01 * noise, noise, outlier, np.log(0.95))
    assert Tails.of(given) is None
    assert Tails.of(residuals(value)) is not None


def test_a_fit_without_heavy_tails_has_none(one_d):
    model = SparseBiasGP().fit(one_d.X, one_d.y)
    assert model._tails is None
    assert all(note.code != "wide-noise" for note in model.notes_)


def test_a_fit_finds_them_and_says_so():
    X, y = heavy()
    model = SparseBiasGP(noise_model="constant", order=None).fit(X, y)
    assert model._tails is not None
    (note,) = (each for each in model.notes_ if each.code == "wide-noise")
    assert "heavier tails than the normal" in str(note)


def test_the_density_of_a_reading_has_them_and_the_moments_do_not_change(fitted):
    X = np.array([[3.3]])
    mean, std = fitted.predict(X, return_std=True, include_noise=True)
    usual = fitted.groups_[0]
    far = mean + 5.0 * std
    normal = np.log1p(-usual.share) - 0.5 * np.log(2.0 * np.pi * std**2) - 12.5
    assert fitted.log_predictive_density(X, far) > normal
    assert fitted.log_predictive_density(X, mean) > np.log1p(-usual.share) - 0.5 * np.log(2.0 * np.pi * std**2)


def test_quantiles_of_readings_are_those_of_the_mixture(fitted):
    X = np.array([[3.3]])
    levels = np.array([0.005, 0.25, 0.5, 0.75, 0.995])
    quantiles = fitted.predict_quantiles(X, levels, include_noise=True)[0]
    draws = fitted.sample_y(X, 200_000, include_noise=True)[0]
    assert [np.mean(draws <= each) for each in quantiles] == pytest.approx(levels, abs=0.004)
    std = fitted.predict(X, return_std=True, include_noise=True)[1][0]
    assert draws.std() == pytest.approx(std, rel=0.02)
    # More of the readings are near than by the normal, and more are far away.
    assert quantiles[3] - quantiles[1] < 1.3 * std
    assert quantiles[4] - quantiles[0] > 5.5 * std
    assert np.ptp(fitted.predict_quantiles(X, levels)[0]) < 1.5 * std


def test_a_saved_model_has_them(fitted, tmp_path):
    biasgp.save(fitted, tmp_path / "model.skops")
    assert biasgp.load(tmp_path / "model.skops")._tails == TAILS
