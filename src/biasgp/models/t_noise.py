"""Student-t noise, ε ~ σ·t_ν: its width to most readings, its product with a Gaussian, and what a fit says of it.

The t to the power η is a mixture of Gaussians in f: with κ = η(ν + 1)/2 and c the t's density at its centre,

    t(y | f)^η = c^η/Γ(κ) ∫ w^κ e^{−w} exp(−w (y − f)²/(νσ²)) ds,  w = e^s.

So `tilt` integrates f out in closed form for each w, and what is left is one smooth integral over s. An outlier may
make the density of f bimodal, near the cavity's mean and near y: in s these are two smooth bumps between known ends,
and the trapezoid rule on them has spectral accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from math import exp, lgamma

import numpy as np
from scipy.special import gammaln, ndtr, ndtri, psi, stdtrit
from scipy.stats import shapiro

from biasgp._typing import Array
from biasgp.models import constant_bias
from biasgp.models.problem import FitResult, Problem

START_NU = 2.0
"""Degrees of freedom that searches and chains start from: few enough for outliers to be outliers from the start."""
KNOWN_SHARE = 0.3
"""Least σ² to start from, in units of the median known variance: where σ² is 0 its gradient vanishes too."""
SMALLEST_SPREAD = 1e-150
"""Standard deviation that stands for 0, and that a number may still be divided by."""
UPPER_QUARTILE = 0.75
"""As a probability."""
FARTHEST = 40.0
"""Standard deviations beyond which the normal distribution underflows a double."""


@dataclass(frozen=True)
class Normality:
    """When residuals contradict a t that was found to be almost Gaussian."""

    near_gaussian: float = 30.0  # degrees of freedom from which on a t counts as such
    p_value: float = 1e-4  # of the Shapiro–Wilk test, below which residuals are not normal
    max_residuals: int = 5000  # for which that p-value is accurate; with more, tiny departures would be significant

    def contradiction(self, residuals: Array, nu: float) -> str:
        """What contradicts noise that was found to be Gaussian; empty where nothing does, or where it was not.

        The t is symmetric with one mode: a single wide Gaussian fits many outliers on one side better than it does.
        """
        if nu < self.near_gaussian or np.ptp(residuals) <= 0.0:
            return ""
        # In units of their range: the test takes very small numbers for equal ones, and warns.
        some = (residuals / np.ptp(residuals))[:: -(-len(residuals) // self.max_residuals)]
        p = float(shapiro(some).pvalue)
        if p >= self.p_value:
            return ""
        return (
            f"The noise was found to be Gaussian (ν = {nu:.3g}), but the residuals are not (Shapiro–Wilk p = {p:.1g})"
        )


@dataclass(frozen=True, kw_only=True)
class StudentTNoiseFit(FitResult):
    """A fit with Student-t noise. `noise_variance` is that of a reading that is not an outlier.

    `weights` are E (ν + 1)/(ν + (y − f)²/σ²); `hidden_outliers` says what contradicts noise found to be Gaussian.
    """

    scale2: float
    nu: float
    weights: Array
    outlier_probability: Array
    bias: Array
    hidden_outliers: str


def robust_start(problem: Problem, max_iter: int) -> tuple[constant_bias.ConstantBiasFit, float]:
    """The constant bias fit and σ² to start from.

    With Student-t noise the likelihood has a second mode where ν and σ are large, the plain GP. The constant bias fit
    is on the right side of it.
    """
    found = constant_bias.fit(problem, max_iter)
    return found, max(found.noise_variance, KNOWN_SHARE * float(np.median(problem.known)))


@dataclass(frozen=True)
class _Quadrature:
    """The trapezoid rule over s."""

    log_tail: float = 28.0  # the integrand is cut where it has fallen by e^−28 (1e-12) from a point inside
    step: float = 0.5  # spacing of the nodes in units of a bump's width: the rule's error is then below 1e-8
    max_entries: int = 2**18  # nodes of all readings that are held in memory at a time (2 MiB)


QUADRATURE = _Quadrature()
NEWTON_STEPS, KEPT_WIDTHS = 20, 16
"""Steps after which the widths of the integrand are exact to rounding, and how many of them are kept: they change with
ν and the fraction alone."""


@dataclass(frozen=True)
class Tilted:
    """N(f; mean, variance) · t(y | f)^η, normalised: log of its normaliser, its moments of f, and more.

    `by_log_scale2` and `by_log_nu` are E ∂log t(y | f)/∂·, `weight` is E (ν + 1)/(ν + (y − f)²/σ²).
    """

    log_normaliser: Array
    mean: Array
    variance: Array
    by_log_scale2: Array
    by_log_nu: Array
    weight: Array


@dataclass(frozen=True)
class StudentT:
    """A t of scale² and ν degrees of freedom."""

    scale2: float
    nu: float

    @property
    def core_variance(self) -> float:
        """Variance of the Gaussian that is as high as the t at its centre: the noise of all but the large errors."""
        half = 0.5 * self.nu
        return self.scale2 * half * exp(2.0 * (lgamma(half) - lgamma(half + 0.5)))

    @property
    def quartile_std(self) -> float:
        """Standard deviation of the Gaussian with the t's quartiles: an error of a few of these is a large one.

        The t's scale alone falls short of it by a third where ν is 1.
        """
        return float(np.sqrt(self.scale2) * stdtrit(self.nu, UPPER_QUARTILE) / ndtri(UPPER_QUARTILE))

    @property
    def log_peak(self) -> float:
        """Log density at the centre."""
        half = 0.5 * self.nu
        return float(gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(self.nu * np.pi * self.scale2))

    def weight(self, residual: Array) -> Array:
        """(ν + 1)/(ν + r²/σ²): expected precision of an error r, in units of 1/σ²."""
        return np.asarray((self.nu + 1.0) / (self.nu + residual**2 / self.scale2))

    def sites(self, y: Array, mean: Array) -> Array:
        """Natural parameters (shift, precision) of Gaussians in f of the precision that the t has at these residuals.

        It is never negative.
        """
        precision = self.weight(y - mean) / self.scale2
        return np.stack([precision * y, precision])

    def draw_mixing(self, e: Array, rng: np.random.Generator) -> Array:
        """Variances, in units of σ², of the Gaussians of which the t is a mixture, given errors e."""
        return np.asarray((self.nu + e**2 / self.scale2) / rng.chisquare(self.nu + 1.0, len(e)))

    def tilt(
        self, y: Array, mean: Array, variance: Array, fraction: float = 1.0, rule: _Quadrature = QUADRATURE
    ) -> Tilted:
        """The tilted distributions of cavities N(mean, variance) under readings y and the t to the power `fraction`."""
        kappa, unit = 0.5 * fraction * (self.nu + 1.0), 0.5 * self.nu * self.scale2
        residual = y - mean
        a, b = variance / unit, residual**2 / unit
        # Nodes lie between the s where the integrand, log of it κs − w − ½log(1 + aw) − ½bw/(1 + aw), is negligible.
        # All terms but the first fall with w, so above log κ it falls at least as κs − w does; and they fall no faster
        # than (1 + (a + b)/2)w, whose mode bounds it from below likewise.
        below, above = _widths(rule.log_tail / kappa)
        low, high = np.log(kappa / (1.0 + 0.5 * (a + b))) - below, float(np.log(kappa)) + above
        count = 2 + int((high - low.min(initial=high - 1.0)) * np.sqrt(max(kappa, 1.0)) / rule.step)
        rows = max(1, rule.max_entries // count)
        if rows < len(y):
            chunks = (slice(start, start + rows) for start in range(0, len(y), rows))
            parts = [self.tilt(y[some], mean[some], variance[some], fraction, rule) for some in chunks]
            return Tilted(**{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Tilted)})
        step = (high - low) / (count - 1)
        s = low[:, None] + step[:, None] * np.arange(count)
        w = np.exp(s)
        stretch = 1.0 / (1.0 + a[:, None] * w)  # Var(f | w) over the cavity's variance
        pulled = b[:, None] * w * stretch
        exponent = kappa * s - w + 0.5 * np.log(stretch) - 0.5 * pulled
        top = exponent.max(axis=1)
        weights = np.exp(exponent - top[:, None])
        total = weights.sum(axis=1)
        weights /= total[:, None]
        gain = 1.0 - stretch
        mean_gain = (weights * gain).sum(axis=1)
        gain -= mean_gain[:, None]
        by_scale2 = 0.5 * (mean_gain + (weights * pulled * stretch).sum(axis=1)) / fraction - 0.5
        drift = psi(0.5 * (self.nu + 1.0)) - psi(0.5 * self.nu) + (weights * s).sum(axis=1) - psi(kappa)
        return Tilted(
            log_normaliser=fraction * self.log_peak - gammaln(kappa) + top + np.log(total * step),
            mean=mean + residual * mean_gain,
            # (1 minus the mean gain would be 0 where the cavity is wider than the t by more digits than there are.)
            variance=variance * (weights * stretch).sum(axis=1) + residual**2 * (weights * gain**2).sum(axis=1),
            by_log_scale2=by_scale2,
            by_log_nu=by_scale2 + 0.5 * self.nu * drift,
            weight=(self.nu + 1.0) / (self.nu * kappa) * (weights * w).sum(axis=1),
        )


def exceedance(mean: Array, spread: Array, limit: float) -> tuple[Array, Array]:
    """For e ~ N(mean, spread²): P(|e| > limit), and E of e where that is so and 0 where it is not."""
    spread = np.maximum(spread, max(np.finfo(float).eps * limit, SMALLEST_SPREAD))  # f may be known exactly
    low, high = (np.clip((end - mean) / spread, -FARTHEST, FARTHEST) for end in (-limit, limit))
    outside = ndtr(low) + ndtr(-high)
    density = np.exp(-0.5 * np.stack([low, high]) ** 2) / np.sqrt(2.0 * np.pi)
    return outside, mean * outside + spread * (density[1] - density[0])


@lru_cache(maxsize=KEPT_WIDTHS)
def _widths(depth: float) -> tuple[float, float]:
    """The positive t of t − 1 + e^−t = depth, and that of e^t − 1 − t = depth (Newton from above: both convex)."""
    below, above = depth + 1.0, np.sqrt(2.0 * depth)
    for _ in range(NEWTON_STEPS):
        below -= (below - 1.0 + np.exp(-below) - depth) / (1.0 - np.exp(-below))
        above -= (np.exp(above) - 1.0 - above - depth) / (np.exp(above) - 1.0)
    return float(below), float(above)
