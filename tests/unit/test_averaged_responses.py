"""Fits under several transforms of the response, and the averages of what they predict."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import trapezoid
from scipy.special import expit
from scipy.stats import norm

import biasgp
from biasgp import GaussianGP, SparseBiasGP, StudentTGP
from biasgp.analysis.judging import Judge
from biasgp.data.columns import Feature, Readings
from biasgp.estimators import base
from biasgp.estimators.averaging import mixed_draws, mixed_joint_moments, mixed_log_density, mixed_moments
from biasgp.models.transform_choice import Weighted
from biasgp.persistence import ModelFileError
from biasgp.response import Identity, Log, YeoJohnson

WEIGHTS = (0.6, 0.4)
AT = np.linspace(0.0, 10.0, 7)[:, None]


def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Readings of a positive quantity, two of them outliers."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 10.0, 60))
    y = np.exp(1.0 + 0.5 * np.sin(X) + 0.15 * rng.standard_normal(60))
    y[[10, 30]] *= 6.0
    return X[:, None], y


@pytest.fixture
def skewed():
    return drawn()


def choose(response, X, y, kernel, names, measured=None):
    """The choice is between a logarithm and none, and readings do not settle it."""
    if response != "auto":
        return (Weighted({"identity": Identity(), "log": Log.of(y)}[response]),)
    return Weighted(Log.of(y), WEIGHTS[0]), Weighted(Identity(), WEIGHTS[1])


@pytest.fixture
def undecided(monkeypatch):
    monkeypatch.setattr(base, "choose_transforms", choose)


@pytest.fixture(scope="module")
def fitted_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "choose_transforms", choose)
        return SparseBiasGP(response="auto").fit(*drawn())


@pytest.fixture
def model(fitted_once):
    """A fit under both, which a test may change."""
    return deepcopy(fitted_once)


def parts(Estimator, X, y, **options):
    return [Estimator(response=response, **options).fit(X, y) for response in ("log", "identity")]


def test_moments_of_a_mixture_are_those_of_its_draws(rng):
    means, covariances = [np.array([0.0, 3.0]), np.array([2.0, 2.0])], [np.eye(2), np.array([[4.0, 1.0], [1.0, 2.0]])]
    mean, covariance = mixed_joint_moments(WEIGHTS, means, covariances)
    draws = [rng.multivariate_normal(*each, 200_000).T for each in zip(means, covariances, strict=True)]
    mixed = mixed_draws(WEIGHTS, draws, rng)
    assert_allclose(mixed.mean(axis=1), mean, atol=0.02)
    assert_allclose(np.cov(mixed), covariance, atol=0.04)
    stds = [np.sqrt(each.diagonal()) for each in covariances]
    assert_allclose(mixed_moments(WEIGHTS, means, stds)[1], np.sqrt(covariance.diagonal()))


def test_densities_of_a_mixture_are_averaged():
    logs = [norm.logpdf(np.arange(3.0)), norm.logpdf(np.arange(3.0), 1.0, 2.0)]
    assert_allclose(
        np.exp(mixed_log_density(WEIGHTS, logs)), WEIGHTS[0] * np.exp(logs[0]) + WEIGHTS[1] * np.exp(logs[1])
    )


@pytest.mark.parametrize("Estimator", [GaussianGP, SparseBiasGP, StudentTGP])
def test_predictions_are_averages_of_those_of_fits_under_each_transform(Estimator, undecided, skewed):
    X, y = skewed
    model = Estimator(response="auto").fit(X, y)
    log, plain = parts(Estimator, X, y)
    assert model.response_weights_ == pytest.approx({"log": WEIGHTS[0], "identity": WEIGHTS[1]})
    assert model.response_.name == "log"
    by_hand = WEIGHTS[0] * log.predict(AT) + WEIGHTS[1] * plain.predict(AT)
    for noise in (False, True):
        (mean, std), (of_log, log_std), (of_plain, plain_std) = (
            each.predict(AT, return_std=True, include_noise=noise) for each in (model, log, plain)
        )
        assert_allclose(mean, WEIGHTS[0] * of_log + WEIGHTS[1] * of_plain)
        second = WEIGHTS[0] * (log_std**2 + of_log**2) + WEIGHTS[1] * (plain_std**2 + of_plain**2)
        assert_allclose(std**2 + mean**2, second)
        covariance = model.predict(AT, return_cov=True, include_noise=noise)[1]
        assert_allclose(np.sqrt(covariance.diagonal()), std)
    assert_allclose(model.predict(AT), by_hand)
    density = [np.exp(each.log_predictive_density(AT, np.full(7, 3.0))) for each in (model, log, plain)]
    assert_allclose(density[0], WEIGHTS[0] * density[1] + WEIGHTS[1] * density[2])


def test_quantiles_are_those_of_the_mixture(undecided, skewed):
    X, y = skewed
    model = GaussianGP(response="auto").fit(X, y)
    levels = np.array([0.01, 0.25, 0.5, 0.9])
    found = model.predict_quantiles(AT, levels, include_noise=True)
    of_each = [each.predict_quantiles(AT, levels, include_noise=True) for each in parts(GaussianGP, X, y)]
    assert np.all(found >= np.min(of_each, axis=0))
    assert np.all(found <= np.max(of_each, axis=0))
    # The density up to a quantile has its level.
    for i in (0, 3):
        grid = np.linspace(found[i, 0] - 30.0, found[i, 2], 20_001)
        density = np.exp(model.log_predictive_density(np.repeat(AT[[i]], len(grid), axis=0), grid))
        assert_allclose(trapezoid(density, grid), 0.5, atol=1e-4)
    draws = model.sample_y(AT, 4000, include_noise=True)
    assert_allclose(np.mean(draws <= found[:, [1]], axis=1), 0.25, atol=0.04)


def test_labels_and_biases_are_averaged(model, undecided, skewed):
    X, y = skewed
    log, plain = parts(SparseBiasGP, X, y)
    probability = WEIGHTS[0] * log.outlier_probability_ + WEIGHTS[1] * plain.outlier_probability_
    assert_allclose(model.outlier_probability_, probability)
    assert_array_equal(model.outlier_mask_, probability > 0.5)
    assert_allclose(model.bias_, WEIGHTS[0] * log.bias_ + WEIGHTS[1] * plain.bias_)
    assert model.outlier_mask_[[10, 30]].all()
    frame = model.to_frame()
    assert_array_equal(frame["kind"] == "none", ~model.outlier_mask_)
    assert_allclose(frame["truth"], model.predict(X))
    odds = model.outlier_probability(AT, np.full(7, 30.0))
    assert np.all((odds > 0.5) & (odds <= 1.0))


def test_new_rows_of_a_table_are_judged_by_all_fits(undecided, skewed):
    X, y = skewed
    feature, every = Feature("x", ("x",)), np.ones(60, dtype=bool)
    readings = Readings("y", (feature,), X, y, every, (), None, ())
    model = SparseBiasGP(response="auto").fit(readings.frame(), y)
    new = Judge(model, replace(readings, y=np.linspace(0.5, 30.0, 60)))
    probability = model.outlier_probability(readings.frame(), new.readings.y)
    assert 0.0 < probability.min() < 0.5 < probability.max()
    assert_allclose(expit(new.log_odds), probability)
    log, plain = (model, model._others[0][1])
    (good, bad), (other_good, other_bad) = (np.exp(each._log_densities(X, new.readings.y)) for each in (log, plain))
    good, bad = (WEIGHTS[0] * a + WEIGHTS[1] * b for a, b in ((good, other_good), (bad, other_bad)))
    assert_allclose(np.exp(new.log_odds), bad / good)


def test_verdicts_reach_every_fit(model):
    verdict = model.verdict_.copy()
    verdict[20] = 1.0
    model.refit(verdict)
    assert model.outlier_mask_[20]
    assert all(other.outlier_mask_[20] for _, other in model._others)
    assert_allclose(sum(model.response_weights_.values()), 1.0)


def test_an_episode_that_only_the_lesser_fit_has_is_another_explanation(undecided, rng):
    t = np.arange(200.0)
    y = np.exp(2.0 + 0.3 * np.sin(t / 15.0) + 0.03 * rng.standard_normal(200))
    y[80:100] *= 1.8
    model = SparseBiasGP(response="auto").fit(t[:, None], y)
    assert any(set(range(85, 95)) <= set(each.rows) for each in model.episodes_)
    # As if the first fit had not found it.
    model._own_episodes, model._own_probability = (), np.zeros(200)
    model._average(model._others)
    assert not model.episodes_
    named = {row for note in model.notes_ for row in note.rows}
    assert set(range(85, 95)) <= named


def test_what_is_left_without_an_episode_that_is_not_borne_out_is_no_further_explanation(undecided, rng):
    t = np.arange(100.0)
    y = np.exp(2.0 + 0.3 * np.sin(t / 15.0) + 0.03 * rng.standard_normal(100))
    y[40:60] *= 1.8
    model = SparseBiasGP(response="auto").fit(t[:, None], y)
    (episode,) = model._own_episodes
    # As if it were in doubt, and no fit took its readings for outliers.
    model.alternatives_ = ((),)
    for _, member in model._members():
        member._own_probability = np.zeros(100)
    model._average(model._others)
    assert not model.episodes_ and () not in model.alternatives_
    texts = [note.evidence for note in model.notes_]
    assert any(set(episode.rows) <= set(note.rows) for note in model.notes_)
    assert not any("no fault" in text for text in texts)


def test_a_model_file_keeps_every_fit(model, tmp_path):
    biasgp.save(model, tmp_path / "model.skops")
    back = biasgp.load(tmp_path / "model.skops")
    for ask in ("predict", "noise_std"):
        assert_array_equal(getattr(back, ask)(AT), getattr(model, ask)(AT))
    assert_array_equal(back.predict_quantiles(AT, [0.1, 0.9]), model.predict_quantiles(AT, [0.1, 0.9]))
    assert back.response_weights_ == model.response_weights_


@pytest.mark.parametrize("weight", [0.0, 1.0, 1.5, float("nan"), 1])
def test_a_model_file_with_weights_that_are_none_is_refused(weight, model, tmp_path):
    model._others = ((weight, model._others[0][1]),)
    biasgp.save(model, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match="do not belong together"):
        biasgp.load(tmp_path / "model.skops")


def test_a_model_file_whose_fits_are_of_other_readings_is_refused(model, undecided, skewed, tmp_path):
    X, y = skewed
    other = SparseBiasGP(response="auto").fit(X[:50], y[:50])
    model._others = ((0.4, other._others[0][1]),)
    biasgp.save(model, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match="do not belong together"):
        biasgp.load(tmp_path / "model.skops")


def test_a_limit_in_time_is_one_for_all_fits(undecided, skewed, monkeypatch):
    X, y = skewed
    given, fit = [], SparseBiasGP._fit_told

    def slow(self, *arguments):
        given.append(self.max_time)
        now[0] += 2.0
        return fit(self, *arguments)

    now = [0.0]
    monkeypatch.setattr(base, "monotonic", lambda: now[0])
    monkeypatch.setattr(SparseBiasGP, "_fit_told", slow)
    assert len(SparseBiasGP(response="auto", max_time=5.0).fit(X, y).response_weights_) == 2
    assert given == [5.0, 3.0]
    assert list(SparseBiasGP(response="auto", max_time=1.0).fit(X, y).response_weights_.values()) == [1.0]


def test_yeo_johnson_may_be_one_of_three(monkeypatch, skewed):
    X, y = skewed
    three = (Weighted(Identity(), 0.5), Weighted(Log.of(y), 0.3), Weighted(YeoJohnson.of(y), 0.2))
    monkeypatch.setattr(base, "choose_transforms", lambda *arguments: three)
    model = GaussianGP(response="auto").fit(X, y)
    assert model.response_weights_ == pytest.approx({"identity": 0.5, "log": 0.3, "yeo-johnson": 0.2})
    assert np.isfinite(model.predict(AT)).all()
