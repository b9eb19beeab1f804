"""Censored readings, of which it is known only on which side of a limit they lie: below it (−1) or above it (+1).

A reading y = f + ε that lies below its limit L adds P(y < L) to the likelihood. Expectation propagation puts a Gaussian
site in y in its place: a pseudo-reading of a known variance, so that every engine and every model goes on as if it had
been measured. The factor is log-concave, hence the variances are positive and damped parallel updates converge.

Given all others, y has the cavity N(m, v). With a = ±(m − L)/√v, r = φ(a)/Φ(a) and w = r(r + a), the truncated normal
has the mean m ± √v r and the variance v(1 − w), so that the site is the pseudo-reading m ± √v r/w of variance
v(1/w − 1) (Rasmussen and Williams 2006, section 3.6, with the noise in y).

EP's log Z is stationary in the sites: its gradient is that of the density of the pseudo-readings, which are held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from biasgp._typing import Array
from biasgp.covariance.protocol import Covariance, Engine
from biasgp.kernels import Kernel
from biasgp.models.problem import LOG_2PI, FitResult, Problem
from biasgp.models.strategy import Strategy
from biasgp.watch import out_of_time


@dataclass(frozen=True)
class _SitesPolicy:
    """When the sites have converged: means to so many standard deviations, variances to that share of themselves."""

    tolerance: float = 1e-6
    max_sweeps: int = 200  # one covariance each; from the sites of a point nearby there are a few
    first_step: float = 0.9  # of the way to the new sites, in natural parameters; parallel updates may overshoot
    min_step: float = 0.05
    step_growth: float = 1.2  # after a sweep that came nearer; the step is halved after one that did not
    least_weight: float = 1e-6
    """Of a limit in its pseudo-reading (w): below, it says nothing, and the variance of the cavity would be lost in
    that of the site."""
    max_rounds: int = 8
    """Of parameters and sites. What is left of their distance after a round is about a tenth."""
    stays: float = 0.003  # mismatch, as of the tolerance, of sites that stay while the parameters move once more


POLICY = _SitesPolicy()
EXACT_UP_TO = 4
"""Censored readings of which the probability is computed by quadrature (`log_probability`), to 1e-9."""


@dataclass(frozen=True)
class _Cavities:
    """y at the censored readings given all others, and what the limits make of it."""

    mean: Array
    variance: Array
    side: Array
    limit: Array

    @property
    def _distance(self) -> Array:
        return np.asarray(self.side * (self.mean - self.limit) / np.sqrt(self.variance))

    @property
    def log_probability(self) -> Array:
        """Of lying beyond the limit."""
        return np.asarray(log_ndtr(self._distance))

    def sites(self) -> Sites:
        """The pseudo-readings that give the moments of the truncated normal."""
        a = self._distance
        ratio = np.exp(-0.5 * a**2 - 0.5 * LOG_2PI - log_ndtr(a))
        weight = np.clip(ratio * (ratio + a), POLICY.least_weight, 1.0 - POLICY.least_weight)
        value = self.mean + self.side * np.sqrt(self.variance) * ratio / weight
        return Sites(value, self.variance * (1.0 / weight - 1.0))


@dataclass(frozen=True)
class Sites:
    """Pseudo-readings, one per censored reading, and their variances. `log_scale` is the log of what each density is
    multiplied by."""

    value: Array
    variance: Array
    log_scale: Array | None = None

    @classmethod
    def first(cls, problem: Problem) -> Sites:
        """From the prior of one reading: the response is scaled to 1, of which some is noise."""
        side, limit = _of(problem)
        return _Cavities(np.zeros(len(side)), np.ones(len(side)), side, limit).sites()

    def applied(self, problem: Problem) -> Problem:
        """The readings with pseudo-readings for the censored ones, none of which can be an outlier."""
        if problem.censored is None:
            return problem
        where = problem.is_censored
        y, known = problem.y.copy(), problem.known.copy()
        y[where] = self.value
        known[where] += self.variance
        verdict = np.full(len(y), np.nan) if problem.verdict is None else problem.verdict.copy()
        verdict[where] = 0.0
        return replace(problem, y=y, known=known, verdict=verdict, censored=None)

    @property
    def _natural(self) -> Array:
        return np.stack([self.value / self.variance, 1.0 / self.variance])

    def towards(self, other: Sites, step: float) -> Sites:
        """A part of the way to other sites, in natural parameters."""
        shift, precision = self._natural + step * (other._natural - self._natural)
        return Sites(shift / precision, 1.0 / precision)

    def mismatch(self, cavity: _Cavities, wanted: Sites) -> float:
        """Between the marginals of y with these sites and the truncated normals."""
        means, variances = [], []
        for sites in (self, wanted):
            variances.append(1.0 / (1.0 / cavity.variance + 1.0 / sites.variance))
            means.append(variances[-1] * (cavity.mean / cavity.variance + sites.value / sites.variance))
        off = np.maximum(np.abs(means[0] - means[1]) / np.sqrt(variances[1]), np.abs(variances[0] / variances[1] - 1.0))
        return float(off.max(initial=0.0))


def _of(problem: Problem) -> tuple[Array, Array]:
    """Sides and limits of the censored readings."""
    assert problem.censored is not None
    return problem.censored[problem.is_censored], problem.y[problem.is_censored]


@dataclass(frozen=True)
class Settled:
    """Sites at given parameters, whether they have converged there, how far they are from those at the start, and what
    the limits add to the log density with the sites at the start."""

    sites: Sites
    converged: bool
    moved: float
    log_scale_before: float

    @property
    def log_scale(self) -> float:
        """What the limits add to the log density of the readings with these pseudo-readings."""
        assert self.sites.log_scale is not None
        return float(self.sites.log_scale.sum())


def settle(engine: Engine, kernel: Kernel, noise: float, problem: Problem, sites: Sites) -> Settled:
    """EP at given parameters, from given sites; the engine is that of all readings of the problem."""
    (side, limit), where = _of(problem), problem.is_censored
    start, step, before, converged, at_start = sites, POLICY.first_step, np.inf, False, np.nan
    for sweep in range(POLICY.max_sweeps):
        pseudo = sites.applied(problem)
        K = engine.covariance(kernel, noise + pseudo.known)
        spread = 1.0 / K.inverse_diagonal()[where]
        mean = sites.value - K.solve(pseudo.y)[where] * spread
        variance = np.maximum(spread - sites.variance, np.finfo(float).eps * spread)
        cavity = _Cavities(mean, variance, side, limit)
        scale = cavity.log_probability + 0.5 * (LOG_2PI + np.log(spread) + (sites.value - mean) ** 2 / spread)
        sites, wanted = replace(sites, log_scale=scale), cavity.sites()
        at_start = float(scale.sum()) if sweep == 0 else at_start
        off = sites.mismatch(cavity, wanted)
        converged = off <= POLICY.tolerance
        if converged:
            break
        step = max(POLICY.min_step, 0.5 * step) if off > before else min(1.0, POLICY.step_growth * step)
        sites, before = replace(sites.towards(wanted, step), log_scale=scale), off
    return Settled(sites, converged, start.mismatch(cavity, sites), at_start)


class CensoredLikelihood:
    """EP's −log Z of the measured readings and of the sides of the others, and its gradient in (θ, log σ²)."""

    def __init__(self, engine: Engine, problem: Problem) -> None:
        self.engine, self.problem = engine, problem
        self.sites = Sites.first(problem)

    def settled(self, x: Array) -> Settled:
        """The sites at x, from those of the last x."""
        kernel = self.problem.kernel.with_theta(x[:-1])
        found = settle(self.engine, kernel, float(np.exp(x[-1])), self.problem, self.sites)
        self.sites = found.sites if found.converged else Sites.first(self.problem)
        return found

    def covariance(self, x: Array, sites: Sites) -> Covariance:
        """That of the readings and pseudo-readings."""
        known = sites.applied(self.problem).known
        return self.engine.covariance(self.problem.kernel.with_theta(x[:-1]), np.exp(x[-1]) + known)

    def __call__(self, x: Array) -> tuple[float, Array]:
        found = self.settled(x)
        density = self.covariance(x, found.sites).negative_log_density(found.sites.applied(self.problem).y)
        gradient = np.append(density.by_theta, np.exp(x[-1]) * density.by_noise.sum())
        return density.value - found.log_scale, gradient


Model = TypeVar("Model", bound=FitResult)


def alternate(problem: Problem, fit: Callable[[Problem], Model], strategy: Strategy) -> tuple[Model, Problem, Settled]:
    """A model that knows of no censoring, fitted to pseudo-readings, and these by the model, in turn until they stay.

    Returns the model, the readings that it was fitted to, and their sites. At its parameters the gradient of EP's log Z
    is that of the model's own objective: where neither moves, both are at their best. Readings that the model takes for
    outliers say nothing of the censored ones.
    """
    sites = Sites.first(problem)
    for _ in range(POLICY.max_rounds):
        pseudo = sites.applied(problem)
        model = fit(pseudo)
        told = np.asarray(getattr(model, "probability", np.zeros(len(problem)))) <= 0.5
        part = problem[told | problem.is_censored]
        found = settle(strategy.engine(model.kernel, part.X), model.kernel, model.noise_variance, part, sites)
        if found.moved <= POLICY.stays or out_of_time():
            break
        sites = found.sites
    return model, pseudo, found


def log_probability(mean: Array, covariance: Array, side: Array, limit: Array) -> float:
    """log P that jointly normal readings, at most `EXACT_UP_TO`, all lie on their sides of their limits; to 1e-9.

    Integrated one after the other (Genz 1992), by the double-exponential rule, whose nodes are doubled until the result
    stays; NaN where it does not, as for readings that are the same to many digits.
    """
    sign = -side
    upper, covariance = sign * (limit - mean), covariance * np.outer(sign, sign)
    order = np.argsort(upper / np.sqrt(covariance.diagonal()), kind="stable")
    upper, L = upper[order], np.asarray(np.linalg.cholesky(covariance[np.ix_(order, order)]), dtype=np.float64)
    if len(upper) == 1:
        return float(log_ndtr(upper[0] / L[0, 0]))
    before = np.nan
    for spacing in RULE.spacings:
        value = _integral(upper, L, spacing)
        if abs(value - before) <= RULE.tolerance:
            return value
        before = value
    return float("nan")


def log_likelihood(problem: Problem, kernel: Kernel, noise: float, strategy: Strategy) -> float:
    """log p of the measured readings and of the sides of the others, at most `EXACT_UP_TO`, without EP."""
    (side, limit), measured = _of(problem), ~problem.is_censored
    inside, others = problem[measured], problem[~measured]
    mean, covariance, density = np.zeros(len(side)), kernel(others.X), 0.0
    if measured.any():
        engine, variance = strategy.engine(kernel, inside.X), noise + inside.known
        mean, covariance = engine.covariance(kernel, variance).posterior(inside.y).mean_and_covariance(others.X)
        density = -engine.covariance(kernel, variance).negative_log_density(inside.y).value
    return density + log_probability(mean, covariance + np.diag(noise + others.known), side, limit)


@dataclass(frozen=True)
class _Rule:
    """The double-exponential rule on (0, 1)."""

    spacings: tuple[float, ...] = (0.25, 0.125, 0.0625, 0.03125)
    reach: float = 3.2  # where its weights have fallen below 1e-15
    tolerance: float = 1e-9  # of the logarithm


RULE = _Rule()


def _integral(upper: Array, L: Array, spacing: float) -> float:
    """log P(Lx < upper) for standard normal x: an integral over all but the last of them."""
    k = np.arange(-round(RULE.reach / spacing), round(RULE.reach / spacing) + 1) * spacing
    log_node = -np.log1p(np.exp(-np.pi * np.sinh(k)))
    log_weight = np.log(spacing * np.pi * np.cosh(k)) + 2.0 * log_node - np.pi * np.sinh(k)
    shape = [1] * (len(upper) - 1)
    points: list[Array] = []
    total: Array = np.zeros(shape)
    for i, bound in enumerate(upper):
        shift = sum((L[i, j] * x for j, x in enumerate(points)), np.zeros(shape))
        inside = log_ndtr((bound - shift) / L[i, i])
        total = total + inside
        if i < len(upper) - 1:
            along = [*shape[:i], len(k), *shape[i + 1 :]]
            points.append(ndtri_exp(log_node.reshape(along) + inside))
            total = total + log_weight.reshape(along)
    top = float(total.max())
    return top + float(np.log(np.exp(total - top).sum()))
