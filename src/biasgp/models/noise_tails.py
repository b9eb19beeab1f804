"""Noise with heavier tails than the normal's: a mixture of two normals, a core and a wide part, chosen by evidence.

f, outliers and the variance of the noise are those of a fit; how that variance is spread over the readings is learnt
from the residual of each given all others. So predictions of f stay as they are, and so does the variance of a reading:
densities, quantiles and draws of readings have the tails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from biasgp._typing import Array
from biasgp.models.varying_noise import Residuals

SHARES = tuple(np.geomspace(0.003, 0.4, 15).tolist())
"""Of the wide part, between which there is a choice: neighbouring ones differ by less than half a nat, as a rule."""
RATIOS = (4.0, 9.0, 16.0, 25.0, 49.0, 100.0)
"""Of the variances of the two: what is more than ten times as wide is no noise."""


@dataclass(frozen=True)
class Tails:
    """The share of readings whose noise is of the wide part, and the ratio of its variance to the core's."""

    share: float
    ratio: float

    @property
    def parts(self) -> tuple[tuple[float, float], ...]:
        """Share of core and wide part, and their variances over that of all noise."""
        core = 1.0 / (1.0 + self.share * (self.ratio - 1.0))
        return (1.0 - self.share, core), (self.share, self.ratio * core)

    def log_density(self, residual: Array, variance: Array, noise: Array | float) -> Array:
        """Log density of readings around the mean of f; `variance` is that of f and noise."""
        each = [np.log(share) + _log_normal(residual, variance + (times - 1.0) * noise) for share, times in self.parts]
        return np.asarray(np.logaddexp(*each))

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Variances of the noise of readings over the mean one."""
        (_, core), (share, wide) = self.parts
        return np.where(rng.random(shape) < share, wide, core)

    @classmethod
    def of(cls, residuals: Residuals) -> Tails | None:
        """Those that residuals have; None where the normal is as good, by the BIC."""
        n, spread = len(residuals.value), residuals.variance + residuals.noise

        def log_likelihood(tails: Tails | None) -> float:
            value = residuals.value
            clean = _log_normal(value, spread) if tails is None else tails.log_density(value, spread, residuals.noise)
            return float(np.logaddexp(residuals.log_clean + clean, residuals.log_outlier).sum())

        value, best = max(((log_likelihood(each), each) for each in _candidates()), key=lambda found: found[0])
        # One half of log n for each of the two parameters.
        return best if value > log_likelihood(None) + np.log(n) else None


def _candidates() -> Iterator[Tails]:
    return (Tails(*each) for each in product(SHARES, RATIOS))


def _log_normal(residual: Array, variance: Array) -> Array:
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * variance) + residual**2 / variance))
