"""One iteration of the scale mixture's sampler, step by step; `scale_mixture` describes the whole.

The unknowns x = (θ, log σ²) are logarithms of parameters, between the bounds that the other models search in. The
sampler moves in coordinates u without bounds. The priors have no unit: they are about where the data say that a search
should start. A standard deviation is half-Cauchy. A length-scale is half-t₄ with several times its start for a scale:
inputs without influence have long ones, within limits, as the likelihood does not change with them any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, lgamma, log, log1p, pi

import numpy as np
from scipy.special import expit, log_expit, logit

from biasgp._typing import Array, Mask
from biasgp.covariance.dense import factorise, semidefinite_root
from biasgp.kernels import Pullback
from biasgp.messages import CovarianceError
from biasgp.models.problem import LOG_2PI, Problem
from biasgp.models.strategy import covariance_bounds
from biasgp.models.t_noise import StudentT
from biasgp.samplers import Metric, slice_along, transition

NU_RANGE = (0.5, 200.0)
"""Degrees of freedom over whose logarithm the prior is uniform."""
LENGTH_PRIOR = 5.0
"""Scale of a length-scale's prior, in units of its start."""
LENGTH_NU = 4.0
"""Degrees of freedom of that prior."""
EDGE = 1e-10
"""Share of the way between two bounds that is kept from them."""
SLICES, SLICE_WIDTHS = 3, (0.5, 1.0)
"""Moves of (log σ², log ν) per iteration, along random directions, and the first widths of these."""
JITTER, TINY = 1e-10, 1e-300
"""Share of an error's variance that is added to its conditional covariance, which may lose rank; least variance."""


@dataclass(frozen=True)
class _Coordinates:
    """Unknowns x between bounds as functions of coordinates u that have none; x that are held have no coordinate.

    `center` is where x would start, and `lengths` says which of them are logarithms of length-scales.
    """

    low: Array
    high: Array
    center: Array
    lengths: Mask

    @property
    def free(self) -> Mask:
        return np.asarray(self.high > self.low)

    def inside(self, u: Array) -> Array:
        """x at u."""
        x, free = self.low.copy(), self.free
        x[free] += (self.high - self.low)[free] * expit(u)
        return x

    def outside(self, x: Array) -> Array:
        """u at x, which is kept off the bounds by a tiny share."""
        share = ((x - self.low)[self.free]) / (self.high - self.low)[self.free]
        return np.asarray(logit(np.clip(share, EDGE, 1.0 - EDGE)))

    def log_prior(self, x: Array) -> tuple[Array, Array]:
        """Log density of each x, up to a constant, and its slope.

        Length-scales are half-t; the other x are logarithms of variances whose roots are half-Cauchy.
        """
        t = 0.5 * (x - self.center)
        length = x - (self.center + np.log(LENGTH_PRIOR))
        tail, n = 2.0 * length - np.log(LENGTH_NU), LENGTH_NU + 1.0
        value = np.where(self.lengths, length - 0.5 * n * np.logaddexp(0.0, tail), -np.logaddexp(t, -t))
        return value, np.where(self.lengths, 1.0 - n * expit(tail), -0.5 * np.tanh(t))

    def posterior(self, u: Array, x: Array, log_likelihood: float, gradient: Array) -> tuple[float, Array]:
        """The log likelihood at x and its gradient, made the log posterior of u (up to a constant) and its own."""
        free = self.free
        prior, by_prior = self.log_prior(x)
        slope = (self.high - self.low)[free] * expit(u) * expit(-u)
        value = log_likelihood + float(prior[free].sum() + (log_expit(u) + log_expit(-u)).sum())
        return value, (gradient + by_prior)[free] * slope + expit(-u) - expit(u)


@dataclass(frozen=True)
class Target:
    """What is sampled from: the problem, and bounds and prior of x = (θ, log σ²) and ν."""

    problem: Problem
    coordinates: _Coordinates
    nu_range: tuple[float, float]

    @classmethod
    def of(cls, problem: Problem, nu: float | None = None) -> Target:
        kernel, bounds = problem.kernel, covariance_bounds(problem)
        lengths = np.array(["length_scale" in name for name in kernel.parameter_names] + [False])
        coordinates = _Coordinates(bounds[:, 0], bounds[:, 1], np.append(kernel.theta, 0.0), lengths)
        return cls(problem, coordinates, NU_RANGE if nu is None else (nu, nu))

    def log_density_of_noise(self, e2: Array, log_scale2: float, log_nu: float) -> float:
        """log p(e | σ², ν), U integrated out, from the squares of e, plus the log prior of (log σ², log ν)."""
        low, high = self.coordinates.low[-1], self.coordinates.high[-1]
        if not (low <= log_scale2 <= high and log(self.nu_range[0]) <= log_nu <= log(self.nu_range[1])):
            return -np.inf
        nu, t = exp(log_nu), 0.5 * abs(log_scale2)
        each = lgamma(0.5 * (nu + 1.0)) - lgamma(0.5 * nu) - 0.5 * (log(nu * pi) + log_scale2)
        prior = -t - log1p(exp(-2.0 * t))  # σ half-Cauchy, in floats: this is called often
        return len(e2) * each - 0.5 * (nu + 1.0) * float(np.log1p(e2 * exp(-log_scale2 - log_nu)).sum()) + prior

    def at(self, u: Array, U: Array, before: _Conditional | None = None) -> _Conditional:
        """The posterior of x given U at u. C is taken from `before` where that is known to have the same θ."""
        problem, full = self.problem, self.coordinates.inside(u)
        if before is None:
            C, pullback = problem.kernel.with_theta(full[:-1]).vjp(problem.X)
        else:
            C, pullback = before.C, before.pullback
        errors = exp(full[-1]) * U
        factor = factorise(C, errors + problem.known)
        alpha = factor.solve(problem.y)
        value = -0.5 * (len(problem) * LOG_2PI + factor.logdet + float(problem.y @ alpha))
        W = factor.inverse(overwrite=True)
        W -= np.outer(alpha, alpha)
        W *= 0.5
        gradient = -np.append(pullback(W), W.diagonal() @ errors)
        log_density, by_u = self.coordinates.posterior(u, full, value, gradient)
        return _Conditional(u, log_density, by_u, full, errors, C, pullback, W, alpha, factor.jitter)


@dataclass(frozen=True)
class _Conditional:
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

    def draw_errors(self, rng: np.random.Generator) -> Array:
        """e given y, θ, σ², U: mean Vα and covariance V − VQV, V = diag(σ²U)."""
        root = np.sqrt(self.errors)
        S = np.outer(root * self.alpha, -root * self.alpha)
        S -= 2.0 * root[:, None] * self.W * root
        S.flat[:: len(S) + 1] += 1.0
        half = semidefinite_root(S, np.full(len(S), JITTER))
        return np.asarray(self.errors * self.alpha + root * (half @ rng.standard_normal(len(S))))


@dataclass
class Chain:
    """Where a chain is: `at` has θ, σ² and U; e are the errors that U was last drawn from."""

    at: _Conditional
    log_nu: float
    e: Array
    rng: np.random.Generator

    def advance(self, target: Target, metric: Metric, step: float) -> float:
        """One iteration; returns the acceptance probability of its first part."""
        U, last = self.at.errors / self.at.scale2, self.at

        def evaluate(u: Array) -> _Conditional:
            try:
                return target.at(u, U)
            except CovarianceError:  # K is singular: no density
                return replace(last, x=u, log_density=-np.inf, gradient=np.zeros_like(u))

        at, acceptance = transition(evaluate, last, metric, step, self.rng)
        self.e = at.draw_errors(self.rng)
        e2, noise = self.e**2, np.array([at.full[-1], self.log_nu])
        widths = np.multiply(SLICE_WIDTHS, [1.0, float(target.nu_range[0] < target.nu_range[1])])
        for _ in range(SLICES):
            direction = widths * self.rng.standard_normal(2)
            noise = slice_along(lambda x: target.log_density_of_noise(e2, *x.tolist()), noise, direction, self.rng)
        log_scale2, self.log_nu = noise.tolist()
        U = StudentT(exp(log_scale2), exp(self.log_nu)).draw_mixing(self.e, self.rng)
        u = np.append(at.x[:-1], target.coordinates.outside(np.append(at.full[:-1], log_scale2))[-1])
        self.at = target.at(u, U, at)
        return acceptance
