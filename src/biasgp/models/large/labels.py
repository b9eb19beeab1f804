"""Which of many readings are biased: the odds of each given the nearest others that are not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, logsumexp

from biasgp._typing import Array, Mask
from biasgp.covariance.kriging import Surroundings
from biasgp.kernels import Kernel
from biasgp.models.support import PRIOR_CLEAN, PRIOR_OUTLIERS, log_normal

MAX_PASSES = 8
SETTLED = 1e-4
"""Labels have settled when no larger share of them moves in a pass."""
SLAB_FLOOR = 1e-4
MIN_CLEAN = 0.5
"""No pass flags more than this: the majority is what the signal is."""


@dataclass(frozen=True)
class Kinds:
    """The kinds of outlier: share of all readings, mean and variance of the bias (of the value, if replaced)."""

    shares: Array
    means: Array
    variances: Array
    replaced: bool


@dataclass(frozen=True)
class Odds:
    """Each reading without itself: what is left of it, that prediction's variance (noise included), and its chances.

    `chance` has a column for clean and one for each kind; `log_density` is log p(yᵢ | the others).
    """

    residual: Array
    variance: Array
    chance: Array
    log_density: Array

    @property
    def flagged(self) -> Mask:
        """More likely an outlier than not; never the majority."""
        probability = 1.0 - self.chance[:, 0]
        return np.asarray(probability > max(0.5, float(np.quantile(probability, MIN_CLEAN))))


def odds(y: Array, mean: Array, variance: Array, noise: Array, kinds: Kinds) -> Odds:
    """The chances of every kind, from the prediction of f at each reading without it."""
    residual, total = y - mean, variance + noise
    columns = [np.log1p(-kinds.shares.sum()) + log_normal(residual, total)]
    for share, center, spread in zip(kinds.shares, kinds.means, kinds.variances, strict=True):
        density = (
            log_normal(y - center, np.full(len(y), spread))
            if kinds.replaced
            else log_normal(residual - center, total + spread)
        )
        columns.append(np.log(share) + density)
    weights = np.column_stack(columns)
    log_density = np.asarray(logsumexp(weights, axis=1))
    return Odds(residual, total, np.exp(weights - log_density[:, None]), log_density)


def updated(kinds: Kinds, found: Odds, y: Array) -> Kinds:
    """A step of expectation maximisation for the shares, means and variances."""
    members = found.chance[:, 1:]
    counts = members.sum(axis=0)
    total = (counts.sum() + PRIOR_OUTLIERS) / (len(y) + PRIOR_OUTLIERS + PRIOR_CLEAN)
    shares = total * (counts + 1.0) / (counts.sum() + len(counts))
    if kinds.replaced:
        weights = members / np.maximum(counts, 1.0)
        means = np.where(counts > 1.0, y @ weights, kinds.means)
        spread = ((y[:, None] - means) ** 2 * weights).sum(axis=0) + SLAB_FLOOR
        return Kinds(shares, means, np.where(counts > 1.0, spread, kinds.variances), True)
    precision = members / (found.variance[:, None] + kinds.variances)
    enough = counts > 1.0
    weight = np.where(enough, precision.sum(axis=0), 1.0)
    means = np.where(enough, found.residual @ precision / weight, kinds.means)
    excess = (found.residual[:, None] - means) ** 2 - found.variance[:, None]
    spread = (precision * excess).sum(axis=0) / weight
    return Kinds(shares, means, np.where(enough, np.maximum(spread, SLAB_FLOOR), kinds.variances), False)


def settle(
    around: Surroundings, kernel: Kernel, y: Array, noise: Array, flagged: Mask, kinds: Kinds
) -> tuple[Odds, Mask, Kinds, int]:
    """Passes over all readings until the flags settle: the odds, the flags they were taken with, and how many moved."""
    moved = 0
    for _ in range(MAX_PASSES):
        mean, variance = around.leave_one_out(kernel, y, noise, ~flagged)
        found = odds(y, mean, variance, noise, kinds)
        kinds = updated(kinds, found, y)
        change = int((found.flagged != flagged).sum())
        moved += change
        flagged = found.flagged
        if change <= SETTLED * len(y):
            break
    return found, flagged, kinds, moved


def moments(found: Odds, kinds: Kinds) -> tuple[Array, Array]:
    """Posterior mean and variance of each bias, over what it may be."""
    each = found.chance[:, 1:]
    if kinds.replaced:
        means = np.broadcast_to(found.residual[:, None], each.shape)
        variances = np.broadcast_to(found.variance[:, None], each.shape)
    else:
        keep = kinds.variances / (kinds.variances + found.variance[:, None])
        means = kinds.means + keep * (found.residual[:, None] - kinds.means)
        variances = keep * found.variance[:, None]
    mean = (each * means).sum(axis=1)
    return mean, (each * (variances + means**2)).sum(axis=1) - mean**2


def log_prior(flagged: NDArray[np.bool_]) -> float:
    """log p(flags), the share of outliers integrated out."""
    n_out = int(flagged.sum())
    a, b = n_out + PRIOR_OUTLIERS, len(flagged) - n_out + PRIOR_CLEAN
    return float(betaln(a, b) - betaln(PRIOR_OUTLIERS, PRIOR_CLEAN))
