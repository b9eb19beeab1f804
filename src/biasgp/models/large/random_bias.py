"""Random bias on many readings: the same objective, with the density by nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, psi

from biasgp._typing import Array
from biasgp.covariance.vecchia import Vecchia
from biasgp.kernels import Kernel
from biasgp.models import random_bias
from biasgp.models.large import constant_bias
from biasgp.models.large.posterior import VecchiaPosterior
from biasgp.models.large.search import Scheme
from biasgp.models.random_bias import Lambdas, parameter_bounds, start_at
from biasgp.optimize import ON_BOUND, OUT_OF_TIME, Report, minimize, out_of_time, tell

THETA_ITERATIONS, LAMBDA_ITERATIONS = 3, 30
SETTLED = 1e-6
"""Nats a reading: a round that gains less is the last."""


@dataclass(frozen=True)
class LargeRandomBiasFit:
    """As `random_bias.RandomBiasFit`."""

    kernel: Kernel
    noise_variance: float
    posterior: VecchiaPosterior
    mean_bias: float
    bias: Array
    bias_variance: Array
    lambdas: tuple[float, float, float]
    optimality: float
    objective: float
    report: Report
    runaway: str = ""


class RegularisedLikelihood(random_bias.RegularisedLikelihood):
    """RL₂ by nearest neighbours."""

    def __init__(self, vecchia: Vecchia, X: Array, y: Array, kernel: Kernel, known: Array, lambda_mean: float) -> None:
        super().__init__(X, y, kernel, known, lambda_mean)
        self.vecchia = vecchia

    def mean(self, kernel: Kernel, noise: Array) -> float:
        """μ that minimises RL₂."""
        return self.level(self.vecchia.factor(kernel, noise)) if np.isfinite(self.lambda_mean) else 0.0

    def gaussian(self, kernel: Kernel, noise: Array) -> tuple[float, float, Array, Array]:
        mu = self.mean(kernel, noise)
        return mu, *self.vecchia.negative_log_density(kernel, self.y - mu, noise, each_noise=True)


def fit(
    X: Array,
    y: Array,
    kernel: Kernel,
    known: Array,
    max_iter: int,
    scheme: Scheme,
    *,
    lambdas: tuple[float, float, float] | None = None,
) -> LargeRandomBiasFit:
    """Minimise RL₂, or its bound over (λ₂, λ₃) too; from where the constant bias model ends, with its neighbours."""
    cob = constant_bias.fit(X, y, kernel, known, max_iter, scheme)
    x = start_at(cob.kernel, cob.noise_variance, y - cob.posterior.mean(X))
    given: Lambdas = (np.inf, None, None) if lambdas is None else lambdas
    vecchia = Vecchia(cob.kernel, X, scheme.neighbours, make_pool=scheme.make_pool)
    objective = RegularisedLikelihood(vecchia, X, y, kernel, known, given[0])
    bounds = parameter_bounds(X, y, kernel, given)
    report = alternate(objective, np.clip(x, bounds[:, 0], bounds[:, 1]), bounds, max_iter)
    return _at(objective, report, bounds, scheme)


def alternate(objective: RegularisedLikelihood, x: Array, bounds: Array, max_iter: int) -> Report:
    """Expectation maximisation for (τ̃², λ₂, λ₃) and a few steps for θ in turn: each lowers the objective.

    A quasi-Newton method in all N + p + 2 unknowns would need many more evaluations.
    """
    n, p = len(objective.y), len(x) - len(objective.y) - 2
    value, curvature, message, spent = np.inf, None, "the limit of iterations was reached", 0
    for n_iter in range(1, max_iter + 1):
        x = _variances_step(objective, x, bounds)
        theta, variances, shape, scale = objective.split(x)
        mu = objective.mean(objective.kernel.with_theta(theta), variances + objective.known)

        def by_theta(theta: Array, mu: float = mu, noise: Array = variances + objective.known) -> tuple[float, Array]:
            found = objective.vecchia.negative_log_density(objective.kernel.with_theta(theta), objective.y - mu, noise)
            return found[0], found[1]

        step = minimize(by_theta, theta, bounds[:p], THETA_ITERATIONS, curvature)
        x, curvature, spent = np.concatenate([step.x, x[p:]]), step.curvature, spent + step.n_evaluations
        before, value = value, step.value + objective.penalty(mu, variances, shape, scale)
        tell(f"round {n_iter}, objective {value:.6g}")
        if before - value <= SETTLED * n or out_of_time():
            message = OUT_OF_TIME if out_of_time() else "the value settled"
            break
    low, high = bounds[:, 0], bounds[:, 1]
    free = high > low
    settled = message == "the value settled"
    return Report(
        x, value, settled, message, n_iter, spent, free & (x <= low + ON_BOUND), free & (x >= high - ON_BOUND)
    )


def _variances_step(objective: RegularisedLikelihood, x: Array, bounds: Array) -> Array:
    """(λ₂, λ₃) and τ̃² = (λ₃ + ½E e²)/(λ₂ + ½), which minimise the bound given the moments of e = δ + ε."""
    theta, variances, _, _ = objective.split(x)
    factor = objective.vecchia.factor(objective.kernel.with_theta(theta), variances + objective.known)
    mu = objective.level(factor) if np.isfinite(objective.lambda_mean) else 0.0
    e2 = variances**2 * (factor.solve(objective.y - mu) ** 2 - factor.inverse_diagonal()) + variances
    half = 0.5 * np.maximum(e2, 0.0)
    n = len(half)

    def profiled(logs: Array) -> tuple[float, Array]:
        shape, scale = np.exp(logs)
        logs_of = np.log(scale + half)
        value = (shape + 0.5) * logs_of.sum() + n * (gammaln(shape) - gammaln(shape + 0.5) - shape * logs[1])
        by_shape = shape * (logs_of.sum() + n * (psi(shape) - psi(shape + 0.5) - logs[1]))
        by_scale = (shape + 0.5) * (scale / (scale + half)).sum() - n * shape
        return float(value), np.array([by_shape, by_scale])

    logs = minimize(profiled, x[-2:], bounds[-2:], LAMBDA_ITERATIONS).x
    shape, scale = np.exp(logs)
    new = np.concatenate([theta, np.log((scale + half) / (shape + 0.5)), logs])
    return np.asarray(np.clip(new, bounds[:, 0], bounds[:, 1]))


def _at(objective: RegularisedLikelihood, report: Report, bounds: Array, scheme: Scheme) -> LargeRandomBiasFit:
    theta, variances, shape, scale = objective.split(report.x)
    kernel = objective.kernel.with_theta(theta)
    noise = variances + objective.known
    factor = objective.vecchia.factor(kernel, noise)
    mu = objective.level(factor) if np.isfinite(objective.lambda_mean) else 0.0
    usual = float(np.median(variances))
    gradient = objective(report.x)[1]
    moved = report.x - np.clip(report.x - gradient, bounds[:, 0], bounds[:, 1])
    residual = objective.y - mu
    return LargeRandomBiasFit(
        kernel=kernel,
        noise_variance=usual,
        posterior=VecchiaPosterior.of(kernel, objective.X, noise, residual, scheme.neighbours, factor.jitter),
        mean_bias=mu,
        bias=mu + np.maximum(variances - usual, 0.0) * factor.solve(residual),
        bias_variance=variances,
        lambdas=(objective.lambda_mean, shape, scale),
        optimality=float(np.abs(moved).max()),
        objective=report.value,
        report=report,
    )
