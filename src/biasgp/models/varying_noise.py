"""Noise whose variance varies, with the inputs or with the level of f, chosen by evidence over one σ².

With the inputs: log σ²(x) is a Gaussian process of them. What is known of the noise at a reading is its residual given
all others, r ~ N(0, v + σ²(x)), v the variance of f there, unless the reading is an outlier. The mode of the log
variance is found by Newton's method with the Fisher information, its evidence by Laplace's approximation. The process
varies as f does, or by a factor more slowly: inputs that f does not depend on, the noise does not either. A few dozen
basis functions (subset of regressors, by pivoted Cholesky factorisation) make it O(N). With the level: σ² + κ²f(x)²,
where f has a zero.

A model takes what varies as known variances beside the σ² that it learns, and what it then says of the residuals gives
the noise anew. Both are compared with one σ² by the evidence of the model and the prior of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol, TypeVar

import numpy as np
from scipy.optimize import minimize

from biasgp._typing import Array
from biasgp.covariance.neighbours import Nearness
from biasgp.covariance.protocol import Posterior
from biasgp.models.problem import LOG_2PI, FitResult, Problem

LEAST_BIAS = 1.0
"""In units of y's robust standard deviation: what is closer to f may as well be noise that varies."""
CONSTANT, VARYING, PROPORTIONAL, AUTO = "constant", "varying", "proportional", "auto"
NOISE_MODELS = (AUTO, CONSTANT, VARYING, PROPORTIONAL)
_Model = TypeVar("_Model", bound=FitResult)


class Noise(Protocol):
    """Variance of the noise beyond the model's σ², and the log prior of the function that it is."""

    @property
    def own(self) -> float:
        """The σ² that is left to the model, about."""

    @property
    def log_prior(self) -> float: ...

    def __call__(self, X: Array, posterior: Posterior) -> Array:
        """At the rows of X, f being known as it is."""


@dataclass(frozen=True)
class _NoisePolicy:
    """What noise may be, and how long it is looked for."""

    stretches: tuple[float, ...] = (1.0, 2.0, 4.0)
    """Times that the noise varies more slowly than f."""
    spreads: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Standard deviations of log σ²(x): by e^½ either way, up to three orders of magnitude in all."""
    widest: float = 20.0  # logarithm of the factor by which the parts of a proportional noise may differ
    mean_std: float = 5.0  # of the mean of log σ²(x) around that of one σ²: anything
    basis: int = 60  # functions, at most
    resolved: float = 0.01  # share of the prior variance that the basis may leave out
    min_gain: float = 3.0
    """Nats by which the residuals must prefer it, for the model to be fitted again: log 9 for the choice among nine."""
    min_lead: float = 5.0
    """Nats by which that model must then be better: noise that is the same everywhere is the rule."""
    min_readings: int = 30  # fewer say nothing about how noise varies
    iterations: int = 50
    halvings: int = 12  # of a step that leads down
    tolerance: float = 1e-6  # nats; Newton's method converges quadratically
    max_rounds: int = 4  # of noise and model
    settled: float = 3.0  # nats by which a further round must be better
    same_level: float = 2.0  # factor between two levels within which Newton's method ends at the same noise
    own_share: float = 0.5
    """Of the lowest noise variance that is left to the model's σ²."""


POLICY = _NoisePolicy()


@dataclass(frozen=True)
class Residuals:
    """Of readings at X given all others: r, mean and variance of f, and the noise variance that the model gave them.

    `log_outlier` is the log density of the reading as an outlier, and `log_clean` the log probability that it is none.
    """

    X: Array
    value: Array
    mean: Array
    variance: Array
    noise: Array
    log_outlier: Array | float = -np.inf
    log_clean: Array | float = 0.0

    def likelihood(self, log_noise: Array) -> tuple[float, Array, Array]:
        """log p(r | noise), its gradient in the log variances, and the Fisher information about each."""
        noise = np.exp(log_noise)
        total = self.variance + noise
        clean = self.log_clean - 0.5 * (LOG_2PI + np.log(total) + self.value**2 / total)
        density = np.logaddexp(clean, self.log_outlier)
        weight, share = np.exp(clean - density), noise / total
        return float(density.sum()), 0.5 * weight * share * (self.value**2 / total - 1.0), 0.5 * weight * share**2


@dataclass(frozen=True)
class _Basis:
    """Basis functions of a squared exponential process of variance 1 in the coordinates in which f varies."""

    nearness: Nearness
    stretch: float
    factor: Array

    @classmethod
    def of(cls, nearness: Nearness, stretch: float) -> tuple[_Basis, Array]:
        """Their values at the readings are a pivoted Cholesky factor."""
        U = nearness.coordinates(nearness.X) / stretch
        n = len(U)
        columns, left, pivots = np.zeros((n, min(POLICY.basis, n))), np.ones(n), []
        for k in range(columns.shape[1]):
            # The first one at the centre: which reading comes first must not matter.
            pivot = int(left.argmax()) if k else int(((U - np.median(U, axis=0)) ** 2).sum(axis=1).argmin())
            if left.mean() <= POLICY.resolved:
                break
            row = np.exp(-0.5 * ((U - U[pivot]) ** 2).sum(axis=1)) - columns[:, :k] @ columns[pivot, :k]
            columns[:, k] = row / np.sqrt(left[pivot])
            left = np.maximum(left - columns[:, k] ** 2, 0.0)
            pivots.append(pivot)
        columns = columns[:, : len(pivots)]
        return cls(replace(nearness, X=nearness.X[pivots]), stretch, columns[pivots]), columns

    def __call__(self, X: Array) -> Array:
        U, P = (self.nearness.coordinates(each) / self.stretch for each in (X, self.nearness.X))
        squares = (U**2).sum(axis=1)[:, None] + (P**2).sum(axis=1) - 2.0 * U @ P.T
        return np.linalg.solve(self.factor, np.exp(-0.5 * np.maximum(squares, 0.0)).T).T


@dataclass(frozen=True)
class VaryingNoise:
    """Noise that varies with the inputs: at the most probable process."""

    basis: _Basis
    spread: float
    mean: float
    weights: Array
    own: float
    log_prior: float

    def __call__(self, X: Array, posterior: Posterior) -> Array:
        log_noise = self.mean + self.spread * self.basis(X) @ self.weights
        return np.asarray(np.maximum(np.exp(log_noise) - self.own, 0.0))


@dataclass(frozen=True)
class ProportionalNoise:
    """Noise whose standard deviation grows as the distance of f from zero: κ² times its square."""

    own: float
    relative: float
    zero: float
    log_prior: float

    def __call__(self, X: Array, posterior: Posterior) -> Array:
        return np.asarray(self.relative * (posterior.mean(X) - self.zero) ** 2)


def with_noise_model(
    noise_model: str,
    problem: Problem,
    constant: _Model,
    fit: Callable[[Problem, _Model, Noise, _Model | None], _Model | None],
    residuals: Callable[[Problem, _Model], Residuals],
) -> _Model:
    """The model with the noise that has the most evidence; `constant`, with one σ², where residuals ask for no more.

    A noise that is asked for by name is used whatever its evidence. `fit` goes on from a model, with a noise; it may be
    given up (None) where it will not be better than another model. `residuals` of a model and the readings that it was
    fitted to may be those of a part of them.
    """
    best = found = constant
    readings, ahead_by = problem, POLICY.min_lead if noise_model == AUTO else -np.inf
    for i in range(0 if noise_model == CONSTANT else POLICY.max_rounds):
        noise = _fitted_noise(noise_model, found, residuals(readings, found), problem.zero)
        if noise is None:
            break
        readings = beside(problem, noise, found.posterior)
        # The labels that one σ² led to may hide how the noise varies: the first round need not be better.
        fitted = fit(readings, found, noise, best if i > 0 else None)
        if fitted is None:
            break
        found = replace(fitted, noise=noise)
        if found.evidence > best.evidence + ahead_by:
            best, ahead_by = found, POLICY.settled
        elif i > 0:
            break
    return best


def beside(problem: Problem, noise: Noise | None, posterior: Posterior) -> Problem:
    """The readings with what varies of the noise among their known variances."""
    return problem if noise is None else replace(problem, known=problem.known + noise(problem.X, posterior))


def _fitted_noise(noise_model: str, model: FitResult, residuals: Residuals, zero: float | None) -> Noise | None:
    """The noise that the residuals have; None where one σ² is as good."""
    if len(residuals.value) < POLICY.min_readings:
        return None
    # From the level of the noise as it is, and from one that takes all residuals for noise which may be noise.
    usual, small = float(np.median(residuals.noise)), residuals.value[np.abs(residuals.value) < LEAST_BIAS]
    larger = float(np.mean(small**2)) if len(small) else 0.0
    levels = np.log([usual, larger] if larger > POLICY.same_level * usual else [usual]).tolist()
    one = max(_maximised(residuals, np.empty((len(residuals.value), 0)), level)[0] for level in levels)
    found, lowest = list[tuple[float, Noise]](), float((residuals.mean + residuals.value).min())
    if noise_model in (AUTO, VARYING):
        found += _varying(residuals, Nearness.of(model.kernel, residuals.X), levels)
    # By itself, only for a quantity that is never negative.
    if zero is not None and (noise_model == PROPORTIONAL or (noise_model == AUTO and lowest >= zero)):
        found += _proportional(residuals, zero, levels)
    evidence, noise = max(found, key=lambda each: each[0], default=(-np.inf, None))
    return noise if noise_model != AUTO or evidence > one + POLICY.min_gain else None


def _varying(residuals: Residuals, nearness: Nearness, levels: list[float]) -> Iterator[tuple[float, Noise]]:
    """Noises that vary with the inputs, with their evidence."""
    for stretch in POLICY.stretches:
        basis, columns = _Basis.of(nearness, stretch)
        for spread, level in product(POLICY.spreads, levels):
            evidence, weights, log_prior = _maximised(residuals, spread * columns, level)
            log_noise = level + weights[-1] + spread * columns @ weights[:-1]
            own = POLICY.own_share * float(np.exp(log_noise.min()))
            yield evidence, VaryingNoise(basis, spread, level + float(weights[-1]), weights[:-1], own, log_prior)


def _proportional(residuals: Residuals, zero: float, levels: list[float]) -> Iterator[tuple[float, Noise]]:
    """Noises that vary with the level, with their evidence by the BIC."""
    squares = (residuals.mean - zero) ** 2
    if not np.ptp(squares):
        return

    def objective(x: Array) -> tuple[float, Array]:
        parts = np.exp(x)[:, None] * np.array([np.ones(len(squares)), squares])
        noise = parts.sum(axis=0)
        value, gradient, _ = residuals.likelihood(np.log(noise))
        return -value, -(parts / noise) @ gradient

    log_prior = -0.5 * float(np.log(len(squares)))
    for level in levels:
        start = np.array([level, level - np.log(np.mean(squares))])
        bounds = np.column_stack([start - POLICY.widest, start + POLICY.widest])
        best = minimize(objective, start, jac=True, bounds=bounds)
        own, relative = np.exp(best.x).tolist()
        yield -float(best.fun) + log_prior, ProportionalNoise(own, relative, zero, log_prior)


def _maximised(residuals: Residuals, columns: Array, level: float) -> tuple[float, Array, float]:
    """Laplace's evidence, the mode of the weights (that of the mean is the last), and their part of the log prior."""
    H = np.column_stack([columns, np.ones(len(columns))])
    precision = np.ones(H.shape[1])
    precision[-1] = POLICY.mean_std**-2
    weights = np.zeros(len(precision))
    value, gradient, information = residuals.likelihood(level + H @ weights)
    objective = value
    for _ in range(POLICY.iterations):
        curvature = (H.T * information) @ H + np.diag(precision)
        step, before = np.linalg.solve(curvature, H.T @ gradient - precision * weights), objective
        for size in 0.5 ** np.arange(POLICY.halvings):
            moved = weights + size * step
            value, gradient, information = residuals.likelihood(level + H @ moved)
            objective = value - 0.5 * float(precision @ moved**2)
            if objective >= before:
                break
        weights = moved
        if objective - before < POLICY.tolerance:
            break
    curvature = (H.T * information) @ H + np.diag(precision)
    log_det = float(np.linalg.slogdet(curvature)[1])
    # The determinant of the block of an inverse, by that of the other block of the matrix (Jacobi's identity).
    of_process = float(np.log(curvature[-1, -1])) - log_det
    log_prior = 0.5 * (of_process - float(weights[:-1] @ weights[:-1]))
    return objective - 0.5 * (log_det - float(np.log(precision).sum())), weights, log_prior
