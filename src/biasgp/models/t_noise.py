"""Student-t noise, ε ~ σ·t_ν: how wide it is to most readings, and which errors are too large for that."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from biasgp._typing import Array

SHARPEST = 1e-150
"""Standard deviation that stands for none at all, and that a number may still be divided by."""
NOTHING_LEFT = 40.0
"""Standard deviations beyond which a double holds nothing of a normal distribution."""


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
        return float(np.sqrt(self.scale2) * stdtrit(self.nu, 0.75) / ndtri(0.75))


def beyond(mean: Array, spread: Array, limit: float) -> tuple[Array, Array]:
    """For e ~ N(mean, spread²): P(|e| > limit), and E of e where that is so and 0 where it is not."""
    spread = np.maximum(spread, max(np.finfo(float).eps * limit, SHARPEST))  # f may be known exactly
    low, high = (np.clip((end - mean) / spread, -NOTHING_LEFT, NOTHING_LEFT) for end in (-limit, limit))
    outside = ndtr(low) + ndtr(-high)
    density = np.exp(-0.5 * np.stack([low, high]) ** 2) / np.sqrt(2.0 * np.pi)
    return outside, mean * outside + spread * (density[1] - density[0])
