"""Models on the exact engine for time equal the same models on the dense one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP, SparseBiasGP
from biasgp.covariance.markov import MarkovPosterior
from biasgp.kernels import Exponential, Linear, Matern32, SquaredExponential
from biasgp.messages import RunawayTuningWarning
from biasgp.persistence import load_model, save_model

N = 450


def record(seed: int = 0, n: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0.0, 40.0, (n, 1)), axis=0)
    out = rng.uniform(size=n) < 0.07
    return X, np.sin(X[:, 0]) + 0.15 * rng.standard_normal(n) + 1.5 * out, out


@pytest.mark.parametrize("Estimator", [GaussianGP, ConstantBiasGP, RandomBiasGP])
def test_models_without_labels_are_the_same(Estimator) -> None:
    X, y, _ = record()
    exact, ours = (Estimator(Matern32(), approximation=name).fit(X, y) for name in ("exact", "state-space"))
    at = np.linspace(-2.0, 45.0, 200)[:, None]
    # Two searches stop at slightly different places; the densities themselves are compared in unit/test_markov.py.
    for a, b in zip(ours.predict(at, return_std=True), exact.predict(at, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)
    np.testing.assert_allclose(ours.kernel_.theta, exact.kernel_.theta, atol=0.02)


def test_sparse_bias_finds_the_outliers_and_the_same_curve() -> None:
    X, y, out = record()
    exact, ours = (
        SparseBiasGP(Matern32(), approximation=name, order=None).fit(X, y) for name in ("exact", "state-space")
    )
    np.testing.assert_array_equal(ours.outlier_mask_, out)
    assert isinstance(ours._posterior, MarkovPosterior)
    np.testing.assert_allclose(ours.predict(X), exact.predict(X), atol=0.1)
    np.testing.assert_allclose(ours.bias_[out], exact.bias_[out], atol=0.1)
    mean, _ = ours._posterior.leave_one_out()
    assert np.isnan(mean[out]).all() and np.isfinite(mean[~out]).all()


def test_a_linear_part_in_another_column() -> None:
    X, y, _ = record()
    warm = np.random.default_rng(1).normal(size=N)
    frame = pd.DataFrame({"time": pd.Timestamp("2026-01-01") + pd.to_timedelta(X[:, 0], unit="h"), "warm": warm})
    kernel = Matern32().on("time") + Linear().on("warm")
    exact, ours = (
        GaussianGP(kernel, approximation=name).fit(frame, y + 0.5 * warm) for name in ("exact", "state-space")
    )
    a, b = (model.predict(frame, return_cov=True) for model in (ours, exact))
    np.testing.assert_allclose(a[0], b[0], atol=2e-3)
    np.testing.assert_allclose(a[1], b[1], atol=2e-4)
    assert ours.sample_y(frame[:4], 3).shape == (4, 3)


def test_episodes_are_found_on_it() -> None:
    rng = np.random.default_rng(0)
    X = np.arange(2500.0)[:, None]
    y = np.sin(X[:, 0] / 60.0) + 0.2 * rng.standard_normal(2500)
    y[1000:1040] += 3.0
    model = SparseBiasGP(Matern32()).fit(X, y)
    assert isinstance(model._posterior.posterior, MarkovPosterior)
    assert [(episode.kind, episode.rows[0], episode.rows[-1]) for episode in model.episodes_] == [("shift", 1000, 1039)]


def test_auto_uses_it_where_it_is_exact() -> None:
    X, y, _ = record()
    assert isinstance(GaussianGP(Exponential()).fit(X, y)._posterior, MarkovPosterior)
    for model in (
        GaussianGP(SquaredExponential()),
        GaussianGP(Exponential()).set_params(approximation="exact"),
        SparseBiasGP(Exponential(), order=None),  # labels are searched for with all of K⁻¹
    ):
        assert not isinstance(model.fit(X, y)._posterior, MarkovPosterior)
    with pytest.warns(RunawayTuningWarning):
        paper = ConstantBiasGP(Exponential(), lam=0.0).fit(X, y)  # which needs all of K
    assert not isinstance(paper._posterior, MarkovPosterior)


def test_a_kernel_without_a_state_is_refused() -> None:
    X, y, _ = record()
    with pytest.raises(ValueError, match=r"SquaredExponential.*Instead of SquaredExponential take Matern52"):
        GaussianGP(SquaredExponential(), approximation="state-space").fit(X, y)
    with pytest.raises(ValueError, match="several inputs need approximation='vecchia'"):
        GaussianGP(Matern32(), approximation="state-space").fit(np.hstack([X, X**2]), y)


@pytest.mark.parametrize("Estimator", [GaussianGP, SparseBiasGP])
def test_model_files(tmp_path, Estimator) -> None:
    X, y, _ = record()
    model = Estimator(Matern32(), approximation="state-space").fit(X, y)
    model.predict(X)
    save_model(tmp_path / "model.skops", model)
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").predict(X), model.predict(X))


def test_rows_in_any_order() -> None:
    X, y, _ = record()
    shuffled = np.random.default_rng(1).permutation(N)
    one, other = (GaussianGP(Matern32()).fit(X[rows], y[rows]) for rows in (np.arange(N), shuffled))
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-4)
