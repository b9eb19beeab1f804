"""The coordinates that a sampler moves in, and the prior there.

The unknowns x are logarithms of parameters, between the bounds that the other models search in. The priors have no
unit: they are about where the data say that a search should start. A standard deviation is half-Cauchy. A length-scale
is half-t₄ with several times its start for a scale: long ones, of inputs without influence, are welcome, but not
without end, as a sampler would lose itself where the likelihood no longer changes with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, logit

from biasgp._typing import Array, Mask

LENGTHS = 5.0
"""Scale of a length-scale's prior, in units of its start."""
T = 4.0
EDGE = 1e-10
"""Share of the way between two bounds that is kept from them."""


def log_half_cauchy(x: Array, center: Array) -> tuple[Array, Array]:
    """Log density of the logarithm x of a variance whose root is half-Cauchy, but for a constant; and its slope."""
    t = 0.5 * (x - center)
    return -np.logaddexp(t, -t), -0.5 * np.tanh(t)


def log_half_t(x: Array, center: Array) -> tuple[Array, Array]:
    """The same for the logarithm of something half-t₄."""
    t = 2.0 * (x - center) - np.log(T)
    return x - center - 0.5 * (T + 1.0) * np.logaddexp(0.0, t), 1.0 - (T + 1.0) * expit(t)


@dataclass(frozen=True)
class Coordinates:
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
        """u at x, which is kept off the bounds by almost nothing."""
        share = ((x - self.low)[self.free]) / (self.high - self.low)[self.free]
        return np.asarray(logit(np.clip(share, EDGE, 1.0 - EDGE)))

    def log_prior(self, x: Array) -> tuple[Array, Array]:
        """Of each x, and its slope."""
        wide, by_wide = log_half_cauchy(x, self.center)
        long, by_long = log_half_t(x, self.center + np.log(LENGTHS))
        return np.where(self.lengths, long, wide), np.where(self.lengths, by_long, by_wide)

    def posterior(self, u: Array, x: Array, log_likelihood: float, gradient: Array) -> tuple[float, Array]:
        """The log likelihood at x and its gradient, made the log posterior of u (but for a constant) and its own."""
        free = self.free
        prior, by_prior = self.log_prior(x)
        slope = (self.high - self.low)[free] * expit(u) * expit(-u)
        value = log_likelihood + float(prior[free].sum() + (log_expit(u) + log_expit(-u)).sum())
        return value, (gradient + by_prior)[free] * slope + expit(-u) - expit(u)
