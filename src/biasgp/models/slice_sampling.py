"""Slice sampling (Neal 2003): exact draws along a line from a density that needs no gradient and no tuning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from biasgp._typing import Array

MAX_WIDTHS = 40
"""The first interval grows to no more than this many widths."""


def along(log_density: Callable[[Array], float], x: Array, direction: Array, rng: np.random.Generator) -> Array:
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
        if np.array_equal(trial, x):  # the interval has shrunk to nothing, as where the density is a spike
            return x
        low, high = (t, high) if t < 0.0 else (low, t)


def sweep(
    log_density: Callable[[Array], float], x: Array, widths: Array, rng: np.random.Generator, times: int
) -> Array:
    """Draws along random directions, one after another."""
    for _ in range(times):
        x = along(log_density, x, widths * rng.standard_normal(len(x)), rng)
    return x
