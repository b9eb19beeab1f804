"""A Gaussian times a power of a Student-t: its normaliser, moments and gradients, for many readings at once.

The t to the power η is a mixture of Gaussians in f: with κ = η(ν + 1)/2 and c the t's density at its centre,

    t(y | f)^η = c^η/Γ(κ) ∫ w^κ e^{−w} exp(−w (y − f)²/(νσ²)) ds,  w = e^s.

So f is integrated out in closed form for each w, and what is left is one smooth integral over s. An outlier may make
the density of f bimodal, near the cavity's mean and near y: in s these are two smooth bumps between known ends, and
the trapezoid rule on them has spectral accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, psi

from biasgp._typing import Array

LOG_TAIL = 28.0
"""The integrand is cut where it has fallen by e^−28 from a point inside."""
STEP = 0.5
"""Spacing of the nodes in units of a bump's width: the trapezoid rule's error is then below 1e-8."""
CHUNK_ENTRIES = 2**18
"""Readings are taken so many at a time that their nodes fill about this many numbers (2 MiB)."""


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


def tilt(y: Array, mean: Array, variance: Array, scale2: float, nu: float, fraction: float = 1.0) -> Tilted:
    """The tilted distributions of the cavities N(mean, variance) under readings y."""
    most = _node_count(0.5 * fraction * (nu + 1.0), *_ratios(y, mean, variance, scale2, nu))
    rows = max(1, CHUNK_ENTRIES // most)
    if rows >= len(y):
        return _tilt(y, mean, variance, scale2, nu, fraction)
    parts = [
        _tilt(y[i : i + rows], mean[i : i + rows], variance[i : i + rows], scale2, nu, fraction)
        for i in range(0, len(y), rows)
    ]
    return Tilted(**{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Tilted)})


def _tilt(y: Array, mean: Array, variance: Array, scale2: float, nu: float, fraction: float) -> Tilted:
    kappa = 0.5 * fraction * (nu + 1.0)
    residual = y - mean
    a, b = _ratios(y, mean, variance, scale2, nu)
    s, step = _nodes(kappa, a, b)
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
    log_constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * np.pi * scale2)
    by_scale2 = 0.5 * (mean_gain + (weights * pulled * stretch).sum(axis=1)) / fraction - 0.5
    drift = psi(0.5 * (nu + 1.0)) - psi(0.5 * nu) + (weights * s).sum(axis=1) - psi(kappa)
    spread = (weights * gain**2).sum(axis=1)
    return Tilted(
        log_normaliser=fraction * log_constant - gammaln(kappa) + top + np.log(total * step),
        mean=mean + residual * mean_gain,
        # (1 minus the mean gain would be 0 where the cavity is wider than the t by more digits than there are.)
        variance=variance * (weights * stretch).sum(axis=1) + residual**2 * spread,
        by_log_scale2=by_scale2,
        by_log_nu=by_scale2 + 0.5 * nu * drift,
        weight=(nu + 1.0) / (nu * kappa) * (weights * w).sum(axis=1),
    )


def _ratios(y: Array, mean: Array, variance: Array, scale2: float, nu: float) -> tuple[Array, Array]:
    """a and b: the cavity's variance and the squared residual, in units of νσ²/2."""
    unit = 0.5 * nu * scale2
    return variance / unit, (y - mean) ** 2 / unit


def _ends(kappa: float, a: Array, b: Array) -> tuple[Array, float]:
    """Between which s the integrand lies: low for each reading, high for all.

    Its logarithm is κs − w − ½log(1 + aw) − ½bw/(1 + aw). All terms but the first fall with w, so above log κ it falls
    at least as κs − w does; and they fall no faster than (1 + (a + b)/2)w, whose mode bounds it from below likewise.
    """
    below, above = _widths(LOG_TAIL / kappa)
    return np.log(kappa / (1.0 + 0.5 * (a + b))) - below, float(np.log(kappa)) + above


def _node_count(kappa: float, a: Array, b: Array) -> int:
    low, high = _ends(kappa, a, b)
    return 2 + int((high - low.min(initial=high - 1.0)) * np.sqrt(max(kappa, 1.0)) / STEP)


def _nodes(kappa: float, a: Array, b: Array) -> tuple[Array, Array]:
    """Nodes in s, a row for each reading, and their spacing."""
    low, high = _ends(kappa, a, b)
    count = _node_count(kappa, a, b)
    step = (high - low) / (count - 1)
    return low[:, None] + step[:, None] * np.arange(count), step


@lru_cache(maxsize=16)
def _widths(depth: float) -> tuple[float, float]:
    """The positive t of t − 1 + e^−t = depth, and that of e^t − 1 − t = depth (Newton from above: both convex)."""
    below, above = depth + 1.0, np.sqrt(2.0 * depth)
    for _ in range(20):
        below -= (below - 1.0 + np.exp(-below) - depth) / (1.0 - np.exp(-below))
        above -= (np.exp(above) - 1.0 - above - depth) / (np.exp(above) - 1.0)
    return float(below), float(above)
