"""The recipe "an engine of your own" of CONTRIBUTING.md, step by step: one file, and one line that registers it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from biasgp import ConstantBiasGP, GaussianGP, RandomBiasGP, SparseBiasGP
from biasgp._typing import Array, Mask
from biasgp.covariance.posterior import DensePosterior
from biasgp.covariance.protocol import Density
from biasgp.kernels import Kernel, Matern32
from biasgp.models import strategy
from biasgp.models.strategy import Approximation, OneEngine
from biasgp.persistence import ModelFileError, load_model, save_model


@dataclass(frozen=True)
class EigenEngine:
    """K by its eigenvalues: not a good idea, but a different one."""

    kernel: Kernel
    X: Array

    def covariance(self, kernel: Kernel, noise: Array) -> EigenCovariance:
        return EigenCovariance(kernel, self.X, noise)


class EigenCovariance:
    jitter = 0.0

    def __init__(self, kernel: Kernel, X: Array, noise: Array) -> None:
        self.kernel, self.X, self.noise = kernel, X, noise
        C, self.pullback = kernel.vjp(X)
        self.K = C + np.diag(noise)
        self.values, self.vectors = np.linalg.eigh(self.K)

    def solve(self, b: Array) -> Array:
        return self.vectors @ ((self.vectors.T @ b).T / self.values).T

    def inverse_diagonal(self) -> Array:
        return (self.vectors**2 / self.values).sum(axis=1)

    def clamped_solve(self, y: Array, alpha: Array, free: Mask) -> tuple[Array, Array]:
        alpha = np.where(free, 0.0, alpha)
        alpha[free] = np.linalg.solve(self.K[np.ix_(free, free)], (y - self.K @ alpha)[free])
        return alpha, np.where(free, 0.0, y - self.K @ alpha)

    def posterior(self, residual: Array) -> DensePosterior:
        return DensePosterior.of(self.kernel, self.X, self.noise, residual)

    def negative_log_density(self, residual: Array, *, each_noise: bool = False) -> Density:
        alpha = self.solve(residual)
        value = 0.5 * (len(residual) * np.log(2.0 * np.pi) + np.log(self.values).sum() + residual @ alpha)
        W = 0.5 * (self.solve(np.eye(len(residual))) - np.outer(alpha, alpha))
        by_noise = W.diagonal() if each_noise else np.array([np.trace(W)])
        return Density(float(value), self.pullback(W), by_noise)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    eigen = Approximation("eigen", lambda neighbours, make_pool: OneEngine(EigenEngine), lambda case: False)
    monkeypatch.setattr(strategy, "APPROXIMATIONS", [*strategy.APPROXIMATIONS, eigen])


@pytest.mark.parametrize("Estimator", [GaussianGP, ConstantBiasGP, RandomBiasGP, SparseBiasGP])
def test_every_model_that_takes_many_readings_runs_on_it(Estimator):
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 10.0, (150, 1)), axis=0)
    out = rng.uniform(size=150) < 0.1
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(150) + 2.0 * out
    theirs, exact = (Estimator(Matern32(), approximation=name).fit(X, y) for name in ("eigen", "exact"))
    np.testing.assert_allclose(theirs.predict(X), exact.predict(X), atol=0.05)
    if Estimator is SparseBiasGP:
        np.testing.assert_array_equal(theirs.outlier_mask_, out)


def test_a_model_without_its_outliers_can_be_saved(tmp_path):
    X = np.linspace(0.0, 10.0, 60)[:, None]
    y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60) + 2.0 * (np.arange(60) % 12 == 5)
    model = SparseBiasGP(Matern32(), approximation="eigen").fit(X, y)
    assert model.outlier_mask_.any() and model._posterior.kept.sum() == len(model._posterior.X) < 60
    save_model(tmp_path / "model.skops", model)
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").predict(X), model.predict(X))
    object.__setattr__(model._posterior, "kept", model._posterior.kept[1:])
    save_model(tmp_path / "forged.skops", model)
    with pytest.raises(ModelFileError, match="do not belong together"):
        load_model(tmp_path / "forged.skops")


def test_it_is_a_choice_like_the_others():
    X, y = np.arange(10.0)[:, None], np.arange(10.0)
    with pytest.raises(ValueError, match="'auto', 'exact', 'state-space', 'vecchia', 'eigen'"):
        GaussianGP(approximation="fast").fit(X, y)
