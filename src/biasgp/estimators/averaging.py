"""Predictions averaged over fits under several transforms of the response: moments, quantiles and draws of mixtures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import logsumexp

from biasgp._typing import Array

HALVINGS = 60
"""Of the interval that a quantile lies in: to the last digit of a double."""
Spread = Array | float
"""Standard deviations, or variances, one per value or one for all."""


def mixed_moments(weights: Sequence[float], means: Sequence[Array], stds: Sequence[Spread]) -> tuple[Array, Array]:
    """Mean and standard deviation of a mixture."""
    mean = mixed(weights, means)
    second = [std**2 + (each - mean) ** 2 for each, std in zip(means, stds, strict=True)]
    return mean, np.sqrt(mixed(weights, second))


def mixed_joint_moments(
    weights: Sequence[float], means: Sequence[Array], covariances: Sequence[Array]
) -> tuple[Array, Array]:
    """Mean and covariance of a mixture."""
    mean = mixed(weights, means)
    second = [each + np.outer(part - mean, part - mean) for part, each in zip(means, covariances, strict=True)]
    return mean, mixed(weights, second)


def mixed(weights: Sequence[float], values: Sequence[Array]) -> Array:
    """The weighted mean."""
    return np.asarray(sum(weight * value for weight, value in zip(weights, values, strict=True)))


def mixed_log_density(weights: Sequence[float], log_densities: Sequence[Array]) -> Array:
    """The logarithm of the weighted mean of densities."""
    return np.asarray(logsumexp(log_densities, axis=0, b=np.array(weights)[:, None]))


def mixed_quantiles(
    weights: Sequence[float],
    quantiles: Sequence[Array],
    probability_below: Callable[[int, Array], Array],
    levels: Array,
) -> Array:
    """Quantiles of a mixture, by bisection between those of its parts.

    `quantiles` are those of each part, one column per level; `probability_below(k, y)` is the distribution function of
    the k-th part, where y has a row per prediction.
    """
    low, high = np.min(quantiles, axis=0), np.max(quantiles, axis=0)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        below = mixed(weights, [probability_below(k, middle) for k in range(len(weights))]) < levels
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(0.5 * (low + high))


def mixed_draws(weights: Sequence[float], draws: Sequence[Array], rng: np.random.Generator) -> Array:
    """Draws of a mixture, one per column, from as many of each part."""
    of = rng.choice(len(weights), size=draws[0].shape[1], p=np.array(weights))
    return np.asarray(np.choose(of, draws) if len(draws) > 1 else draws[0])
