"""The recipe "a model of your own" of CONTRIBUTING.md, step by step: a GP about an unknown slope."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone

from biasgp._typing import Array
from biasgp.covariance.protocol import Covariance, Engine
from biasgp.estimators.base import LargeGP
from biasgp.kernels import Matern32
from biasgp.models.problem import FitResult, Layout, Problem
from biasgp.models.strategy import EXACT, Found, Strategy, covariance_bounds, covariance_starts, search
from biasgp.response import ScaledResponse


@dataclass(frozen=True, kw_only=True)
class TrendFit(FitResult):
    """y = slope·x + f(x) + ε."""

    slope: float


class TrendLikelihood:
    """−log p(y) with the slope at its estimate, and the gradient in (θ, log σ²): by the envelope theorem, the GP's."""

    def __init__(self, engine: Engine, problem: Problem) -> None:
        self.engine, self.problem = engine, problem
        self.layout = Layout(theta=len(problem.kernel.theta), noise=1)

    def covariance(self, x: Array) -> Covariance:
        kernel = self.problem.kernel.with_theta(x[self.layout["theta"]])
        return self.engine.covariance(kernel, self.layout.value(x, "noise") + self.problem.known)

    def slope(self, K: Covariance) -> float:
        t = self.problem.X[:, 0]
        Qt = K.solve(t)
        return float(Qt @ self.problem.y / (Qt @ t))

    def __call__(self, x: Array) -> tuple[float, Array]:
        K = self.covariance(x)
        found = K.negative_log_density(self.problem.y - self.slope(K) * self.problem.X[:, 0])
        return found.value, np.append(found.by_theta, self.layout.value(x, "noise") * found.by_noise.sum())


def fit_trend(problem: Problem, max_iter: int, strategy: Strategy = EXACT) -> TrendFit:
    bounds, few = covariance_bounds(problem), problem[strategy.first_rows(problem)]
    found = Found(search(TrendLikelihood, few, covariance_starts(problem.kernel), bounds, max_iter), len(few))
    engine, report = strategy.complete(TrendLikelihood, problem, found, bounds, max_iter)
    objective = TrendLikelihood(engine, problem)
    K = objective.covariance(report.x)
    slope = objective.slope(K)
    return TrendFit(
        kernel=problem.kernel.with_theta(report.x[:-1]),
        noise_variance=float(np.exp(report.x[-1])),
        posterior=K.posterior(problem.y - slope * problem.X[:, 0]),
        report=report,
        slope=slope,
    )


class TrendGP(LargeGP):
    def _fit_model(self, problem: Problem) -> TrendFit:
        return fit_trend(problem, self.max_iter, self._strategy(problem))

    def _unpack(self, model: TrendFit, response: ScaledResponse) -> None:
        super()._unpack(model, response)
        self.slope_ = model.slope * response.scaling.scale


def test_its_gradient_is_the_numerical_one():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 5.0, (15, 1))
    problem = Problem(X, rng.standard_normal(15), Matern32().bind(X), np.zeros(15))
    objective = TrendLikelihood(EXACT.engine(problem.kernel, X), problem)
    x = np.append(problem.kernel.theta, np.log(0.3))
    for gradient, unit in zip(objective(x)[1], 1e-6 * np.eye(len(x)), strict=True):
        assert gradient == pytest.approx((objective(x + unit)[0] - objective(x - unit)[0]) / 2e-6, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("approximation", ["exact", "vecchia"])
def test_the_estimator_learns_the_slope(approximation):
    rng = np.random.default_rng(1)
    X = np.linspace(0.0, 30.0, 150)[:, None]
    y = 0.7 * X[:, 0] + np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(150)
    model = clone(TrendGP(Matern32(), approximation=approximation)).fit(X, y)
    assert model.slope_ == pytest.approx(0.7, abs=0.05)
    assert np.isfinite(model.predict(X, return_std=True)).all()
