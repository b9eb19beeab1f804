"""Hamiltonian Monte Carlo for a handful of unknowns whose density is expensive to evaluate, and slice sampling.

For the first, unknowns are whitened by a metric that is learnt on the way, so few leapfrog steps make an almost
independent draw. The second (Neal 2003) draws exactly along a line, and needs no gradient and no tuning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.dense import factorise

MAX_WIDTHS = 40
"""The first interval of slice sampling grows to no more than this many widths."""


@dataclass(frozen=True)
class _Trajectories:
    """Of Hamiltonian Monte Carlo. Lengths are in standard deviations: about a quarter turn of a Gaussian's orbit."""

    lengths: tuple[float, float] = (0.8, 2.2)  # between which a trajectory's is drawn
    max_steps: int = 12
    diverged: float = 1e3  # rise of the energy, in nats, that ends one
    acceptance: float = 0.75  # rate that steps are tuned to: between Hoffman and Gelman's 0.65 and Stan's 0.8
    difference: float = 1e-3  # of the unknowns, for the curvature by differences of the gradient
    widest: float = 0.5  # standard deviation of a direction in which the density hardly falls


_TRAJECTORIES = _Trajectories()


class _Point(Protocol):
    """Where a density was evaluated: its logarithm there (−∞ where there is none) and the gradient of that."""

    @property
    def x(self) -> Array: ...
    @property
    def log_density(self) -> float: ...
    @property
    def gradient(self) -> Array: ...


P = TypeVar("P", bound=_Point)


@dataclass(frozen=True)
class Metric:
    """What the unknowns are taken to covary like: `root` is a lower triangle R with RRᵀ their covariance."""

    root: Array

    @classmethod
    def of(cls, covariance: Array) -> Metric:
        lower = np.tril(factorise(covariance, np.zeros(len(covariance))).lower)
        return cls(np.ascontiguousarray(lower))

    @classmethod
    def of_curvature(cls, gradient: Callable[[Array], Array], x: Array, widest: float = _TRAJECTORIES.widest) -> Metric:
        """The metric that the curvature of a log density at x asks for, by differences of its gradient.

        Directions in which the density hardly falls, or even rises, are taken to be `widest`.
        """
        base, step = gradient(x), _TRAJECTORIES.difference
        hessian = np.stack([(gradient(x + step * unit) - base) / step for unit in np.eye(len(x))])
        values, vectors = np.linalg.eigh(-0.5 * (hessian + hessian.T))
        variances = 1.0 / np.maximum(values, 1.0 / widest**2)
        return cls.of((vectors * variances) @ vectors.T)

    def learnt(self, draws: Array, gradients: Array) -> Metric:
        """From draws and the gradients there, one per row; the fewer there are, the more of the present metric is kept.

        The inverse of E ggᵀ is a Gaussian's covariance too; of other densities it reflects the steepest places. The
        geometric mean of the two is taken, in units of the present metric.
        """
        n, p = draws.shape
        if n < 2:
            return self
        kept = p / (n + p)
        whitened = np.linalg.solve(self.root, (draws - draws.mean(axis=0)).T)
        pulled = self.root.T @ gradients.T
        wide = (1.0 - kept) * whitened @ whitened.T / n + kept * np.eye(p)
        steep = (1.0 - kept) * pulled @ pulled.T / n + kept * np.eye(p)
        root, inverse = _power(steep, 0.5), _power(steep, -0.5)
        return Metric.of(self.root @ inverse @ _power(root @ wide @ root, 0.5) @ inverse @ self.root.T)


def _power(A: Array, exponent: float) -> Array:
    """Of a symmetric positive definite matrix."""
    values, vectors = np.linalg.eigh(A)
    return np.asarray((vectors * np.maximum(values, np.finfo(float).tiny) ** exponent) @ vectors.T)


class StepSize:
    """A leapfrog step that is tuned to an acceptance rate by dual averaging, with the constants of its authors.

    References
    ----------
    Hoffman and Gelman (2014), The No-U-Turn Sampler, JMLR 15, section 3.2: 1/γ, t₀ and κ.
    """

    gain, delay, fade = 20.0, 10.0, 0.75

    def __init__(self, first: float, target: float = _TRAJECTORIES.acceptance) -> None:
        self.target = target
        self.restart(first)

    def restart(self, first: float) -> None:
        """Begin again, about a step."""
        self._anchor, self._log, self._log_mean = float(np.log(2.0 * first)), float(np.log(first)), 0.0
        self._error, self._count = 0.0, 0

    def learn(self, acceptance: float) -> None:
        self._count += 1
        self._error += 1.0 / (self._count + self.delay) * (self.target - acceptance - self._error)
        self._log = self._anchor - self.gain * np.sqrt(self._count) * self._error
        self._log_mean += self._count**-self.fade * (self._log - self._log_mean)

    @property
    def current(self) -> float:
        """The step to try next."""
        return float(np.exp(self._log))

    @property
    def settled(self) -> float:
        """The step to stay with."""
        return float(np.exp(self._log_mean)) if self._count else self.current


def transition(
    evaluate: Callable[[Array], P],
    start: P,
    metric: Metric,
    step: float,
    rng: np.random.Generator,
    trajectories: _Trajectories = _TRAJECTORIES,
) -> tuple[P, float]:
    """One trajectory from `start`: the point that it leads to (or `start` again), and its acceptance probability."""
    length, chance = rng.uniform(*trajectories.lengths), rng.random()
    momentum = rng.standard_normal(len(start.x))
    n_steps = int(np.clip(round(length / step), 1, trajectories.max_steps))
    point, energy = start, 0.5 * momentum @ momentum - start.log_density
    for _ in range(n_steps):
        momentum = momentum + 0.5 * step * (metric.root.T @ point.gradient)
        point = evaluate(point.x + step * (metric.root @ momentum))
        momentum = momentum + 0.5 * step * (metric.root.T @ point.gradient)
        rise = float(0.5 * momentum @ momentum - point.log_density - energy)
        if not rise < trajectories.diverged:
            return start, 0.0
    acceptance = float(np.exp(min(0.0, -rise)))
    return (point, acceptance) if chance < acceptance else (start, acceptance)


def slice_along(log_density: Callable[[Array], float], x: Array, direction: Array, rng: np.random.Generator) -> Array:
    """A draw of x + t·direction, t in ℝ, that leaves the density invariant; `direction` is also the first width."""
    level = log_density(x) - rng.exponential()
    low = -rng.random()
    high = low + 1.0
    out_low = int(rng.integers(MAX_WIDTHS))
    out_high = MAX_WIDTHS - 1 - out_low
    while out_low > 0 and log_density(x + low * direction) > level:
        low, out_low = low - 1.0, out_low - 1
    while out_high > 0 and log_density(x + high * direction) > level:
        high, out_high = high + 1.0, out_high - 1
    while True:
        t = rng.uniform(low, high)
        trial = x + t * direction
        if log_density(trial) > level:
            return trial
        if np.array_equal(trial, x):  # the interval has shrunk to a point: the density is a spike
            return x
        low, high = (t, high) if t < 0.0 else (low, t)
