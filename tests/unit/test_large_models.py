"""The models on many readings: what they find, how they start, and what they say."""

from __future__ import annotations

import logging
import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP, SparseBiasGP, TimeLimitWarning
from biasgp.covariance.posterior import DensePosterior
from biasgp.covariance.vecchia_posterior import POLICY, VecchiaPosterior
from biasgp.kernels import Exponential, Matern32, SquaredExponential
from biasgp.models import sparse
from biasgp.models.problem import Problem
from biasgp.models.sparse.kinds import Group, Slab
from biasgp.models.sparse.leave_one_out import Odds
from biasgp.models.strategy import EXACT_UP_TO, NearestNeighbours

ESTIMATORS = [GaussianGP, ConstantBiasGP, RandomBiasGP, SparseBiasGP]
N, SIGMA = 2100, 0.1


def wave(X: np.ndarray) -> np.ndarray:
    return np.sin(7.0 * X[:, 0]) * np.cos(5.0 * X[:, 1])


@pytest.fixture(scope="module")
def plane() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Readings of a smooth surface, a tenth of them 10 σ too high."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(N, 2))
    outlier = rng.uniform(size=N) < 0.1
    return X, wave(X) + SIGMA * rng.standard_normal(N) + 10.0 * SIGMA * outlier, outlier


@pytest.fixture(scope="module")
def fitted(plane) -> dict[Any, Any]:
    X, y, _ = plane
    few = slice(0, 700)
    rab = RandomBiasGP(Matern32(), neighbors=8, max_iter=30, approximation="vecchia").fit(X[few], y[few])
    return {E: E(Matern32(), neighbors=8, max_iter=30).fit(X, y) for E in ESTIMATORS if E is not RandomBiasGP} | {
        RandomBiasGP: rab
    }


@pytest.mark.parametrize("Estimator", ESTIMATORS[1:])
def test_robust_models_see_through_the_outliers(fitted, plane, Estimator):
    model = fitted[Estimator]
    X, _, outlier = (part[: len(model.bias_)] for part in plane)
    assert isinstance(model._posterior, VecchiaPosterior)
    error = np.sqrt(np.mean((model.predict(X) - wave(X)) ** 2))
    assert error < 0.06
    assert np.sqrt(np.mean((fitted[GaussianGP].predict(X) - wave(X)) ** 2)) > 1.5 * error
    assert (model.outlier_mask_ & outlier).sum() > 0.97 * outlier.sum()
    # A Student-t has outliers of its own.
    assert (model.outlier_mask_ & ~outlier).sum() < (0.3 if Estimator is RandomBiasGP else 0.05) * outlier.sum()
    assert np.mean(model.bias_[outlier]) == pytest.approx(10.0 * SIGMA, abs=0.2)


def test_the_sparse_model_knows_the_slab_and_the_noise(fitted, plane):
    model, outlier = fitted[SparseBiasGP], plane[2]
    assert np.sqrt(model.noise_variance_) == pytest.approx(SIGMA, rel=0.1)
    (group,) = model.groups_
    assert group.share == pytest.approx(outlier.mean(), abs=0.02)
    assert model.outlier_probability_[outlier].mean() > 0.97
    assert np.abs(model.bias_[~outlier]).max() < 0.5
    assert model.trustworthy_
    assert model.trace_[-1].stage == "all readings"
    assert len(model._posterior.X) == (~model.outlier_mask_).sum()  # flagged readings are nobody's neighbours


@pytest.mark.parametrize("Estimator", [ConstantBiasGP, SparseBiasGP])
def test_predictions_of_all_kinds(fitted, plane, Estimator):
    model, points = fitted[Estimator], plane[0][:40] + 1e-3
    mean, std = model.predict(points, return_std=True)
    joint, covariance = model.predict(points, return_cov=True)
    np.testing.assert_allclose(joint, mean, atol=0.05)
    assert np.sqrt(covariance.diagonal()) == pytest.approx(std, rel=0.3)
    assert model.sample_y(points, 3).shape == (40, 3)
    assert (model.predict(points[:9], return_std=True, include_noise=True)[1] > std[:9]).all()
    # One at a time or together, now or after a journey: the same.
    np.testing.assert_allclose(model.predict(points[:1]), mean[:1], atol=1e-12)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(points), mean)


@pytest.mark.filterwarnings("ignore::biasgp.BiasGPWarning")
def test_the_approximation_is_chosen_by_size(plane):
    X, y, _ = plane
    assert N > EXACT_UP_TO
    few = GaussianGP(Matern32(), max_iter=5).fit(X[:60], y[:60])
    assert not isinstance(few._posterior, VecchiaPosterior)
    forced = GaussianGP(Matern32(), max_iter=50, approximation="vecchia").fit(X[:60], y[:60])
    assert isinstance(forced._posterior, VecchiaPosterior)
    with pytest.raises(ValueError, match="approximation"):
        GaussianGP(approximation="fast").fit(X, y)
    with pytest.raises(ValueError, match="neighbors"):
        GaussianGP(neighbors=0).fit(X, y)


def test_what_has_no_neighbour_form_says_so(plane):
    X, y, _ = plane
    with pytest.raises(ValueError, match="exact"):
        ConstantBiasGP(lam=0.0).fit(X, y)
    for Estimator in (ConstantBiasGP, RandomBiasGP):
        with pytest.raises(ValueError, match="exact"):
            Estimator(tuning="paper").fit(X, y)


def test_given_penalties_are_kept(plane):
    X, y, _ = plane
    few = slice(0, 300)
    cob = ConstantBiasGP(Matern32(), k=1.2, approximation="vecchia", neighbors=8).fit(X[few], y[few])
    assert cob.k_ == pytest.approx((1.2, 1.2))
    assert cob.optimality_ <= 1e-9
    rab = RandomBiasGP(Matern32(), lambdas=(1.0, 1.5, 0.05), approximation="vecchia", neighbors=8).fit(X[few], y[few])
    assert rab.lambdas_ == pytest.approx((1.0, 1.5, 0.05))


def test_max_time_ends_a_fit_and_says_so(plane):
    X, y, _ = plane
    with pytest.warns(TimeLimitWarning, match="max_time"):
        model = SparseBiasGP(Matern32(), neighbors=10, max_time=1e-3).fit(X, y)
    assert np.isfinite(model.predict(X[:5])).all()
    for bad in (0.0, -1.0, "soon"):
        with pytest.raises(ValueError, match="max_time"):
            GaussianGP(max_time=bad).fit(X, y)


def test_verbose_tells_where_the_search_stands(plane, caplog):
    X, y, _ = plane
    with caplog.at_level(logging.INFO, logger="biasgp"):
        GaussianGP(Matern32(), max_iter=5, approximation="vecchia", verbose=True).fit(X[:300], y[:300])
    assert any("neighbours" in message for message in caplog.messages)
    caplog.clear()
    GaussianGP(Matern32(), max_iter=5, approximation="vecchia").fit(X[:300], y[:300])
    assert not caplog.messages


def test_a_stream_with_a_rough_kernel():
    rng = np.random.default_rng(1)
    n = 2400
    steps = rng.standard_normal(n) * np.sqrt(1.0 - np.exp(-2.0 / 60.0))
    f = np.zeros(n)
    for i in range(1, n):
        f[i] = np.exp(-1.0 / 60.0) * f[i - 1] + steps[i]
    outlier = rng.uniform(size=n) < 0.02
    X, y = np.arange(n, dtype=float)[:, None], f + 0.2 * rng.standard_normal(n) + 3.0 * outlier
    model = SparseBiasGP(Exponential(), neighbors=10, max_iter=30).fit(X, y)
    assert model.kernel_.length_scale == pytest.approx(60.0, rel=0.5)
    assert model.noise_variance_ == pytest.approx(0.04, rel=0.2)
    assert (model.outlier_mask_ & outlier).sum() > 0.95 * outlier.sum()


@pytest.mark.parametrize("kind", ["both sides", "replaced"])
def test_other_kinds_of_outlier(kind):
    rng = np.random.default_rng(0)
    n = 900
    X = np.sort(rng.uniform(-3.0, 3.0, n))[:, None]
    z = 2.0 * np.sin(2.0 * X[:, 0]) + 0.2 * rng.standard_normal(n)
    out = rng.uniform(size=n) < 0.08
    far = z + 4.0 * rng.choice([-1.0, 1.0], n) if kind == "both sides" else 5.0 + 0.01 * rng.standard_normal(n)
    y = np.where(out, far, z)
    kernel = SquaredExponential().bind(X)
    found = sparse.fit(Problem(X, y, kernel, np.zeros(n)), 20, np.random.default_rng(0), NearestNeighbours(8))
    assert ((found.probability > 0.5) == out).mean() > 0.98


def test_patches_show_every_scale():
    X = np.random.default_rng(0).uniform(size=(20_000, 2))
    kernel = Matern32().bind(X)

    def first_rows(X):
        return NearestNeighbours().first_rows(Problem(X, np.zeros(len(X)), kernel, np.zeros(len(X))))

    rows = first_rows(X)
    assert 300 < len(rows) <= 400
    gaps = np.sort(np.linalg.norm(X[rows][:, None] - X[rows][None], axis=-1), axis=1)[:, 1]
    assert np.quantile(gaps, 0.2) < 0.01 < 0.02 < np.quantile(gaps, 0.9)
    shuffled = np.random.default_rng(1).permutation(len(X))
    again = first_rows(X[shuffled])
    assert set(map(tuple, X[shuffled][again])) == set(map(tuple, X[rows]))
    assert len(first_rows(X[:100])) == 100


def test_noise_asks_for_more_neighbours_to_predict():
    X = np.random.default_rng(0).uniform(size=(3000, 2))
    kernel = Matern32(length_scale=1.0, variance=1.0).bind(X)
    # Without noise a rough f is screened off by its nearest readings.
    rough = Exponential(length_scale=0.05, variance=1.0).bind(X)
    quiet = VecchiaPosterior.of(rough, X, np.full(3000, 1e-6), np.zeros(3000), 10)
    noisy = VecchiaPosterior.of(kernel, X, np.full(3000, 1.0), np.zeros(3000), 10)
    assert quiet.neighbours < noisy.neighbours == 80


def test_a_joint_covariance_rests_on_no_more_readings_than_it_may(monkeypatch):
    rng = np.random.default_rng(0)
    X, points = rng.uniform(size=(3000, 2)), rng.uniform(size=(400, 2))
    kernel = Matern32(length_scale=1.0, variance=1.0).bind(X)
    posterior = VecchiaPosterior.of(kernel, X, np.full(3000, 0.01), wave(X), 10)
    used, condition = [], DensePosterior.of
    monkeypatch.setattr(
        DensePosterior, "of", lambda kernel, X, *rest: used.append(len(X)) or condition(kernel, X, *rest)
    )
    mean, covariance = posterior.mean_and_covariance(points)
    monkeypatch.setattr("biasgp.covariance.vecchia_posterior.POLICY", replace(POLICY, joint=600))
    fewer_mean, fewer = posterior.mean_and_covariance(points)
    assert 600 < used[0] <= POLICY.joint and 100 < used[1] <= 600
    assert covariance.shape == fewer.shape == (400, 400)
    # With fewer readings f is less certain, and where it is found to be is about the same.
    assert np.all(fewer.diagonal() >= covariance.diagonal() * (1.0 - 1e-9))
    np.testing.assert_allclose(mean, wave(points), atol=0.1)
    np.testing.assert_allclose(fewer_mean, mean, atol=0.2)


def test_the_majority_is_never_flagged():
    # Odds that differ where the chances no longer do.
    log_odds = np.linspace(1.0, 900.0, 10)
    odds = Odds(np.zeros(10), np.zeros(10), np.ones(10), np.column_stack([np.zeros(10), log_odds]))
    assert odds.flagged.tolist() == [False] * 5 + [True] * 5


@pytest.mark.parametrize("seed", range(4))
def test_what_few_readings_said_of_the_outliers_is_not_forgotten(seed):
    """One reading larger by a millionth of a millionth: it is the outlier, not the seven others that agree."""
    y = np.full(8, 1e6)
    y[seed] += 1e-6
    X = np.random.default_rng(seed).uniform(size=(8, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = SparseBiasGP(RBF(), approximation="vecchia").fit(X, y)
    assert np.flatnonzero(model.outlier_mask_).tolist() == [seed]
    assert np.array_equal(model._posterior.kept, ~model.outlier_mask_)


def test_a_majority_that_is_reported_is_doubted(monkeypatch):
    """However it comes about: the flags that the search works with are never the majority, those reported may be."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 1))
    everyone = Odds(np.ones(40), np.ones(40), np.ones(40), np.log(np.tile([0.1, 0.45, 0.45], (40, 1))))
    monkeypatch.setattr(Odds, "of", lambda *args: everyone)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = SparseBiasGP(Matern32(), approximation="vecchia").fit(X, wave(np.tile(X, 2)))
    assert model.outlier_mask_.all() and not model.trustworthy_
    assert any("100% of the readings are flagged" in str(reason) for reason in model.diagnosis_)


@pytest.mark.parametrize("replaced", [False, True])
def test_kinds_of_outlier_by_expectation_maximisation(replaced):
    rng = np.random.default_rng(0)
    y = np.concatenate([0.1 * rng.standard_normal(900), 4.0 + 0.5 * rng.standard_normal(100)])
    slab = Slab.of_groups([Group(0.2, 3.0, 1.0)], replaced)
    for _ in range(20):
        found = Odds.of(y, np.zeros(1000), np.full(1000, 0.01), slab)
        slab = found.updated(slab)
    assert slab.shares[0] == pytest.approx(0.1, abs=0.01)
    assert slab.means[0] == pytest.approx(4.0, abs=0.2)
    assert slab.variances[0] == pytest.approx(0.25, rel=0.4)
    bias, variance = found.moments_of_bias(slab)
    np.testing.assert_allclose(bias[900:], y[900:], atol=0.2)
    assert np.abs(bias[:900]).max() < 0.1
    assert (variance >= 0.0).all()


def test_a_fit_without_outliers_flags_none():
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(2200, 2))
    y = wave(X) + SIGMA * rng.standard_normal(len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SparseBiasGP(Matern32(), neighbors=10, max_iter=30).fit(X, y)
    assert model.outlier_mask_.sum() <= 2
