"""The plain GP: y = f(x) + ε."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.protocol import Covariance, Engine
from biasgp.models.censored import EXACT_UP_TO, CensoredLikelihood, log_likelihood
from biasgp.models.problem import FitResult, Problem
from biasgp.models.strategy import EXACT, Found, Strategy, covariance_bounds, covariance_starts, search
from biasgp.optimize import Report


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


def fit(problem: Problem, max_iter: int, strategy: Strategy = EXACT) -> FitResult:
    """Maximum likelihood for (θ, σ²); by EP's likelihood, where readings are censored."""
    build = Likelihood if problem.censored is None else CensoredLikelihood
    bounds = covariance_bounds(problem)
    few = problem[strategy.first_rows(problem)]
    found = Found(search(build, few, covariance_starts(problem.kernel), bounds, max_iter), len(few))
    engine, report = strategy.complete(build, problem, found, bounds, max_iter)
    if problem.censored is not None:
        problem, report = _with_pseudo_readings(CensoredLikelihood(engine, problem), report, strategy)
    return FitResult(
        kernel=problem.kernel.with_theta(report.x[:-1]),
        noise_variance=float(np.exp(report.x[-1])),
        posterior=Likelihood(engine, problem).covariance(report.x).posterior(problem.y),
        report=report,
    )


def _with_pseudo_readings(likelihood: CensoredLikelihood, report: Report, strategy: Strategy) -> tuple[Problem, Report]:
    """The readings with those that stand for the censored ones; the value is exact where these are few."""
    problem, x = likelihood.problem, report.x
    pseudo = likelihood.settled(x).sites.applied(problem)
    if problem.is_censored.sum() <= EXACT_UP_TO:
        exact = log_likelihood(problem, problem.kernel.with_theta(x[:-1]), float(np.exp(x[-1])), strategy)
        report = replace(report, value=report.value if np.isnan(exact) else -exact)
    return pseudo, report
