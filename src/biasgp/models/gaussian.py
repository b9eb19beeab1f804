"""The plain GP: y = f(x) + ε."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.protocol import Covariance, Engine
from biasgp.models.censored import EXACT_UP_TO, alternate, log_likelihood
from biasgp.models.problem import FitResult, Problem
from biasgp.models.strategy import EXACT, Found, Strategy, covariance_bounds, covariance_starts, search
from biasgp.models.varying_noise import CONSTANT, Residuals, with_noise_model


class Likelihood:
    """Negative log marginal likelihood of y ~ N(0, C(θ) + σ²I + diag(known)) and its gradient in (θ, log σ²)."""

    def __init__(self, engine: Engine, problem: Problem) -> None:
        self.engine, self.problem = engine, problem

    def covariance(self, x: Array) -> Covariance:
        """K at x."""
        return self.engine.covariance(self.problem.kernel.with_theta(x[:-1]), np.exp(x[-1]) + self.problem.known)

    def __call__(self, x: Array) -> tuple[float, Array]:
        found = self.covariance(x).negative_log_density(self.problem.y)
        return found.value, np.append(found.by_theta, np.exp(x[-1]) * found.by_noise.sum())


def fit(problem: Problem, max_iter: int, strategy: Strategy = EXACT, noise_model: str = CONSTANT) -> FitResult:
    """Maximum likelihood for (θ, σ²); by EP's likelihood, where readings are censored."""
    if problem.censored is not None:
        return _censored_fit(problem, max_iter, strategy)
    found = _fit(problem, max_iter, strategy)
    if noise_model == CONSTANT:
        return found
    return with_noise_model(
        noise_model,
        problem,
        found,
        lambda each, *_: _fit(each, max_iter, strategy),
        _residuals,
    )


def _residuals(problem: Problem, model: FitResult) -> Residuals:
    """What the readings say about the noise."""
    mean, variance = model.posterior.leave_one_out()
    return Residuals(problem.X, problem.y - mean, mean, variance, model.noise_variance + problem.known)


def _fit(problem: Problem, max_iter: int, strategy: Strategy) -> FitResult:
    bounds = covariance_bounds(problem)
    few = problem[strategy.first_rows(problem)]
    found = Found(search(Likelihood, few, covariance_starts(problem.kernel), bounds, max_iter), len(few))
    engine, report = strategy.complete(Likelihood, problem, found, bounds, max_iter)
    return FitResult(
        kernel=problem.kernel.with_theta(report.x[:-1]),
        noise_variance=float(np.exp(report.x[-1])),
        posterior=Likelihood(engine, problem).covariance(report.x).posterior(problem.y),
        report=report,
    )


def _censored_fit(problem: Problem, max_iter: int, strategy: Strategy) -> FitResult:
    """The value that is reported is exact where few readings are censored."""
    model, _, settled = alternate(problem, lambda each: fit(each, max_iter, strategy), strategy)
    value = model.report.value - settled.log_scale_before
    if problem.is_censored.sum() <= EXACT_UP_TO:
        exact = log_likelihood(problem, model.kernel, model.noise_variance, strategy)
        value = value if np.isnan(exact) else -exact
    return replace(model, report=replace(model.report, value=value))
