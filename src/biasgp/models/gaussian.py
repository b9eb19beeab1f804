"""The plain GP: y = f(x) + ε."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.protocol import Engine
from biasgp.models.problem import FitResult, Layout, Problem
from biasgp.models.strategy import EXACT, Found, Strategy, covariance_bounds, covariance_starts, search


@dataclass(frozen=True, kw_only=True)
class GaussianFit(FitResult):
    """A fitted plain GP."""

    log_likelihood: float


class Likelihood:
    """Negative log marginal likelihood of y ~ N(0, C(θ) + σ²I + diag(known)) and its gradient in (θ, log σ²)."""

    def __init__(self, engine: Engine, problem: Problem) -> None:
        self.engine, self.problem = engine, problem
        self.layout = Layout(theta=len(problem.kernel.theta), noise=1)

    def __call__(self, x: Array) -> tuple[float, Array]:
        variance = self.layout.value(x, "noise")
        kernel = self.problem.kernel.with_theta(x[self.layout["theta"]])
        K = self.engine.covariance(kernel, variance + self.problem.known)
        found = K.negative_log_density(self.problem.y)
        return found.value, np.append(found.by_theta, variance * found.by_noise.sum())


def fit(problem: Problem, max_iter: int, strategy: Strategy = EXACT) -> GaussianFit:
    """Maximum likelihood for (θ, σ²)."""
    bounds = covariance_bounds(problem)
    few = problem[strategy.first_rows(problem)]
    found = Found(search(Likelihood, few, covariance_starts(problem.kernel), bounds, max_iter), len(few))
    engine, report = strategy.complete(Likelihood, problem, found, bounds, max_iter)
    layout = Layout(theta=len(problem.kernel.theta), noise=1)
    kernel, variance = problem.kernel.with_theta(report.x[layout["theta"]]), layout.value(report.x, "noise")
    K = engine.covariance(kernel, variance + problem.known)
    return GaussianFit(
        kernel=kernel,
        noise_variance=variance,
        posterior=K.posterior(problem.y),
        report=report,
        log_likelihood=-report.value,
    )
