"""One iteration of the scale mixture's sampler, step by step; `scale_mixture` says what it is made of and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, lgamma, log, log1p, pi

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.dense import factorise, semidefinite_root
from biasgp.kernels import Pullback
from biasgp.messages import CovarianceError
from biasgp.models.coordinates import Coordinates
from biasgp.models.problem import LOG_2PI, Problem
from biasgp.models.samplers import Metric, slice_sweep, transition
from biasgp.models.strategy import covariance_bounds

NU_RANGE = (0.5, 200.0)
SLICES = 3
"""Moves of (log σ², log ν) per iteration, along random directions."""
ALMOST_NOTHING, TINY = 1e-10, 1e-300

Rng = np.random.Generator


@dataclass(frozen=True)
class Target:
    """What is sampled from: the problem, and bounds and prior of x = (θ, log σ²) and ν."""

    problem: Problem
    coordinates: Coordinates
    nu_range: tuple[float, float]

    @classmethod
    def of(cls, problem: Problem, nu: float | None = None) -> Target:
        kernel, bounds = problem.kernel, covariance_bounds(problem)
        lengths = np.array(["length_scale" in name for name in kernel.parameter_names] + [False])
        coordinates = Coordinates(bounds[:, 0], bounds[:, 1], np.append(kernel.theta, 0.0), lengths)
        return cls(problem, coordinates, NU_RANGE if nu is None else (nu, nu))


@dataclass(frozen=True)
class Given:
    """The posterior of x given U, f integrated out, at one place; `x` is u there, as the sampler has it.

    With Q = (C + noise)⁻¹, α is Qy and W is ½(Q − ααᵀ); `errors` are the variances σ²U.
    """

    x: Array
    log_density: float
    gradient: Array
    full: Array
    errors: Array
    C: Array
    pullback: Pullback
    W: Array
    alpha: Array
    jitter: float

    @property
    def scale2(self) -> float:
        return exp(self.full[-1])

    @property
    def error_moments(self) -> tuple[Array, Array]:
        """Mean and variance of each e given y: Vα and the diagonal of V − VQV, V = diag(σ²U)."""
        share = self.errors * (2.0 * self.W.diagonal() + self.alpha**2)
        return self.errors * self.alpha, np.maximum(self.errors * (1.0 - share), TINY)


def given(data: Target, u: Array, U: Array, before: Given | None = None) -> Given:
    """Evaluate at u. C is taken from `before` where that is known to have the same θ."""
    full = data.coordinates.inside(u)
    if before is None:
        C, pullback = data.problem.kernel.with_theta(full[:-1]).vjp(data.problem.X)
    else:
        C, pullback = before.C, before.pullback
    errors = exp(full[-1]) * U
    factor = factorise(C, errors + data.problem.known)
    alpha = factor.solve(data.problem.y)
    value = -0.5 * (len(data.problem.y) * LOG_2PI + factor.logdet + float(data.problem.y @ alpha))
    W = factor.inverse(overwrite=True)
    W -= np.outer(alpha, alpha)
    W *= 0.5
    gradient = -np.append(pullback(W), W.diagonal() @ errors)
    log_density, by_u = data.coordinates.posterior(u, full, value, gradient)
    return Given(u, log_density, by_u, full, errors, C, pullback, W, alpha, factor.jitter)


def draw_errors(at: Given, rng: Rng) -> Array:
    """e given y, θ, σ², U: mean Vα and covariance V − VQV, V = diag(σ²U)."""
    root = np.sqrt(at.errors)
    S = np.outer(root * at.alpha, -root * at.alpha)
    S -= 2.0 * root[:, None] * at.W * root
    S.flat[:: len(S) + 1] += 1.0
    # S loses rank where f is smooth. What is added to its diagonal is a share of the errors' own variance.
    half = semidefinite_root(S, np.full(len(S), ALMOST_NOTHING))
    return np.asarray(at.errors * at.alpha + root * (half @ rng.standard_normal(len(S))))


def log_density_of_noise(e2: Array, log_scale2: float, log_nu: float) -> float:
    """log p(e | σ², ν), U integrated out, from the squares of e; plus the log prior of σ²."""
    nu, t = exp(log_nu), 0.5 * abs(log_scale2)
    each = lgamma(0.5 * (nu + 1.0)) - lgamma(0.5 * nu) - 0.5 * (log(nu * pi) + log_scale2)
    prior = -t - log1p(exp(-2.0 * t))  # σ half-Cauchy, in floats: this is called often
    return len(e2) * each - 0.5 * (nu + 1.0) * float(np.log1p(e2 * exp(-log_scale2 - log_nu)).sum()) + prior


def draw_noise(data: Target, e: Array, log_scale2: float, log_nu: float, rng: Rng) -> tuple[float, float]:
    """(log σ², log ν) given e."""
    low, high = float(data.coordinates.low[-1]), float(data.coordinates.high[-1])
    nu_low, nu_high = log(data.nu_range[0]), log(data.nu_range[1])
    e2 = e**2

    def log_density(x: Array) -> float:
        if not (low <= x[0] <= high and nu_low <= x[1] <= nu_high):
            return -np.inf
        return log_density_of_noise(e2, float(x[0]), float(x[1]))

    widths = np.array([0.5, 1.0 if nu_high > nu_low else 0.0])
    x = slice_sweep(log_density, np.array([log_scale2, log_nu]), widths, rng, SLICES)
    return float(x[0]), float(x[1])


def draw_mixing(e: Array, scale2: float, nu: float, rng: Rng) -> Array:
    """U given e."""
    return np.asarray((nu + e**2 / scale2) / rng.chisquare(nu + 1.0, len(e)))


@dataclass
class Chain:
    """Where a chain is: `at` has θ, σ² and U; e are the errors that U was last drawn from."""

    at: Given
    log_nu: float
    e: Array
    rng: Rng

    def advance(self, data: Target, metric: Metric, step: float) -> float:
        """One iteration; returns the acceptance probability of its first part."""
        U = self.at.errors / self.at.scale2
        at, acceptance = transition(lambda u: _or_nowhere(data, u, U, self.at), self.at, metric, step, self.rng)
        self.e = draw_errors(at, self.rng)
        log_scale2, self.log_nu = draw_noise(data, self.e, float(at.full[-1]), self.log_nu, self.rng)
        U = draw_mixing(self.e, exp(log_scale2), exp(self.log_nu), self.rng)
        u = np.append(at.x[:-1], data.coordinates.outside(np.append(at.full[:-1], log_scale2))[-1])
        self.at = given(data, u, U, at)
        return acceptance


def _or_nowhere(data: Target, u: Array, U: Array, last: Given) -> Given:
    """The density at u, or one of nothing where K is singular."""
    try:
        return given(data, u, U)
    except CovarianceError:
        return replace(last, x=u, log_density=-np.inf, gradient=np.zeros_like(u))
