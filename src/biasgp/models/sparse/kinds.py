"""What an outlier is: the kinds of bias that readings may have, what each costs, and what the readings tell of them.

A reading of group g is shifted by N(m_g, τ_g²). While labels are searched the group means m_g ~ N(0, V) are integrated
out (`Slab`); once they are found, shares and means have values (`Kinds`). Or the readings were replaced: their values
are draws from N(center, variance) whatever f is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array, Mask

Labels = NDArray[np.intp]
"""The group of each reading, from 1; 0 for a clean one."""

PRIOR_OUTLIERS, PRIOR_CLEAN = 1.0, 9.0
"""The share of outliers is Beta(1, 9) before the data: a tenth, give or take a tenth."""
MEAN_STD = 3.0
"""Prior standard deviation of a group's mean bias, in robust standard deviations of y; more where the residuals are."""
LOWEST_VARIANCE = 1e-4
"""Of a group: its readings are as good as shifted by the same. In units of y's robust variance."""
MINORITY = 0.2
"""Outliers start as two groups, above and below, where at least this share of them is on either side."""


def log_normal(residual: Array, variance: Array | float) -> Array:
    """Log density of N(0, variance)."""
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * variance) + residual**2 / variance))


@dataclass(frozen=True)
class Slab:
    """The biases of the readings that have one: a variance for each group, and the prior variance V of their means.

    With `replaced`, there is one group: its readings are draws from N(center, variance) whatever f is.
    """

    variances: tuple[float, ...]
    mean_variance: float
    replaced: bool = False
    center: float = 0.0

    @property
    def n_groups(self) -> int:
        return len(self.variances)

    @property
    def added(self) -> Array:
        """What each label adds to the noise of a reading in the GP."""
        return np.array([0.0, *([0.0] if self.replaced else self.variances)])

    def indicators(self, labels: Labels) -> Array:
        """N×G: which group of shifted readings each belongs to. Replaced readings have no common bias."""
        groups = np.arange(1, 1 if self.replaced else self.n_groups + 1)
        return np.asarray(labels[:, None] == groups, dtype=float)

    def means_given(self, A: Array, b: Array) -> tuple[Array, Array]:
        """Mean and covariance of the group means given A = ZᵀQZ and b = ZᵀQy."""
        covariance = np.asarray(np.linalg.inv(A + np.eye(len(b)) / self.mean_variance))
        return covariance @ b, covariance

    def log_density(self, y: Array) -> Array:
        """Of replaced readings' values."""
        return log_normal(y - self.center, self.variances[0])


@dataclass(frozen=True)
class Group:
    """A kind of outlier: its share of all readings; mean and variance of its bias (of its value, if replaced)."""

    share: float
    mean: float
    variance: float


@dataclass(frozen=True)
class Kinds:
    """The kinds of outlier there are: shares of all readings, means and variances of the bias (of the value, if
    replaced), an entry for each group.
    """

    shares: Array
    means: Array
    variances: Array
    replaced: bool

    @classmethod
    def of(cls, groups: tuple[Group, ...], replaced: bool) -> Kinds:
        rows = [(group.share, group.mean, group.variance) for group in groups]
        shares, means, variances = np.array(rows, dtype=float).reshape(-1, 3).T
        return cls(shares, means, variances, replaced)

    @property
    def groups(self) -> tuple[Group, ...]:
        rows = zip(self.shares.tolist(), self.means.tolist(), self.variances.tolist(), strict=True)
        return tuple(Group(*row) for row in rows)

    def log_joint(self, y: Array, mean: Array, variance: Array) -> Array:
        """log p(y, kind) where f plus noise is N(mean, variance): a column for clean, then one for each group."""
        residual = (y - mean)[:, None]
        if self.replaced:
            density = log_normal(y[:, None] - self.means, np.broadcast_to(self.variances, (len(y), len(self.means))))
        else:
            density = log_normal(residual - self.means, variance[:, None] + self.variances)
        clean = np.log1p(-self.shares.sum()) + log_normal(y - mean, variance)
        return np.column_stack([clean, np.log(self.shares) + density])


def shares_of(counts: Array, n: int) -> Array:
    """Posterior mean of each group's share of n readings, from how many there are of each."""
    total = (counts.sum() + PRIOR_OUTLIERS) / (n + PRIOR_OUTLIERS + PRIOR_CLEAN)
    return np.asarray(total * (counts + 1.0) / (counts.sum() + len(counts)))


def first_slabs(residual: Array, far: Mask, noise_variance: float) -> list[tuple[Slab, Labels]]:
    """Slabs to start from, with their labels: one group, and one for each side where both have outliers."""
    mean_variance = max(MEAN_STD**2, float((residual**2).max()))

    def variance(group: Mask) -> float:
        return max(float(residual[group].var()), noise_variance) if group.sum() > 1 else 1.0

    up, down = far & (residual > 0), far & (residual < 0)
    starts = [(Slab((variance(far),), mean_variance), far.astype(np.intp))]
    if min(up.sum(), down.sum()) >= max(2.0, MINORITY * far.sum()):
        starts.append((Slab((variance(up), variance(down)), mean_variance), up + 2 * down.astype(np.intp)))
    return starts


def widened(slab: Slab, residual: Array, noise: Array, labels: Labels) -> Slab:
    """The slab with more readings than it was fitted to: those that joined a group may lie far from the others."""
    variances = list(slab.variances)
    for g in range(0 if slab.replaced else slab.n_groups):
        group = labels == g + 1
        if group.sum() > 1:
            variances[g] = max(variances[g], float(residual[group].var() - noise[group].mean()))
    return replace(slab, variances=tuple(variances))


def fisher_information(x: Array, slab: Slab, labels: Labels) -> Array:
    """About that of each log τ²: ½n from n readings, less where the noise hides how they are spread."""
    counts = np.bincount(labels, minlength=slab.n_groups + 1)[1:]
    variances = np.array(slab.variances)
    return np.asarray(0.5 + 0.5 * counts * (variances / (variances + np.exp(x[-1]))) ** 2)


def replaced_slab(y: Array, mean_variance: float) -> Slab:
    """N(center, variance) of the replaced readings' values."""
    if len(y) < 2:
        return Slab((mean_variance,), mean_variance, replaced=True, center=float(y.mean()) if len(y) else 0.0)
    return Slab((float(y.var() + LOWEST_VARIANCE),), mean_variance, replaced=True, center=float(y.mean()))


def is_constant(variance: float) -> bool:
    """Whether a group's variance is as low as can be, but for rounding."""
    return variance < 1.001 * LOWEST_VARIANCE


def bic_penalty(slab: Slab, labels: Labels) -> float:
    """½ log(number of outliers) for each fitted parameter of the slab (the group means are integrated out)."""
    n_out = int((labels > 0).sum())
    fitted = slab.n_groups + 1 if slab.replaced else sum(not is_constant(variance) for variance in slab.variances)
    return 0.5 * fitted * float(np.log1p(n_out))
