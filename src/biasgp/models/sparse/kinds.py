"""What an outlier is: the kinds of bias that readings may have, and what the labels of readings cost.

A reading of group g is shifted by N(m_g, τ_g²); or it was replaced, and its value comes from N(m, τ²) whatever f is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from biasgp._typing import Array

Labels = NDArray[np.intp]
"""The group of each reading, from 1; 0 for a clean one."""


def log_normal(residual: Array, variance: Array | float) -> Array:
    """Log density of N(0, variance)."""
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * variance) + residual**2 / variance))


def log_cauchy(x: Array, scale: float) -> Array:
    """log density of a Cauchy variable around zero."""
    return np.asarray(-np.log(np.pi * scale) - np.log1p((x / scale) ** 2))


@dataclass(frozen=True)
class _SlabPrior:
    """What is assumed of outliers before the data. Variances are in units of y's robust variance."""

    outliers: float = 1.0
    clean: float = 9.0
    """The share of outliers is Beta(outliers, clean): 0.1 with a standard deviation of 0.09."""
    spotless: float = 0.5
    """Chance that a record has no outlier at all (chosen by benchmarks/faults.py, rows of no fault, and shapes.py
    --only few): with the share alone, a few of the readings of a clean record are always in doubt, and f is the worse
    for it."""
    mean_std: float = 3.0
    """Standard deviation of a group's mean bias, in robust standard deviations of y."""
    max_share: float = 0.5
    """A search never starts from more flagged readings than this share: the majority defines the signal."""
    lowest_variance: float = 1e-4
    """Of the biases of a group: below it they are equal for all practical purposes."""
    highest_variance: float = 1e6
    """The square of the fence (see `Recipe`): no bias is larger."""
    rounding: float = 1e-3
    """Relative distance from the lowest variance at which a fitted variance counts as the lowest."""

    def shares(self, counts: Array, n: int) -> Array:
        """Posterior mean of the shares of clean readings and of each group, given the number of each group among n.

        It is also the probability of each label for another reading, in a record that has outliers.
        """
        n_out, n_groups = counts.sum(axis=-1, keepdims=True), counts.shape[-1]
        total = n + self.outliers + self.clean
        groups = (n_out + self.outliers) / total * (counts + 1.0) / (n_out + n_groups)
        return np.concatenate([(n - n_out + self.clean) / total, groups], axis=-1)

    def unseen(self, n: int) -> Group:
        """The kind of outlier that n readings have not shown: it has the share that is left to what none of them was.

        Without it a reading of −20 would be signal to a model that knows of outliers at +5 only.
        """
        return Group(self.outliers / (n + self.outliers + self.clean), 0.0, self.mean_std**2)

    def label(self, counts: Array, n: int) -> Array:
        """Probability of each label for one of n readings, given the number of each group among the others."""
        shares = self.shares(counts, n - 1)
        shares[..., 0] *= np.where(counts.sum(axis=-1) > 0.0, 1.0, np.exp(self.spotless_ahead(n)))
        shares /= shares.sum(axis=-1, keepdims=True)
        return shares

    def log_labels(self, counts: Array, n: int) -> float:
        """log p(labels of n readings), with the share of outliers and that of each group among them integrated out."""
        n_out, n_groups = counts.sum(), len(counts)
        value = self._log_count(float(n_out), n)
        return float(value + gammaln(counts + 1.0).sum() + gammaln(n_groups) - gammaln(n_out + n_groups))

    def spotless_ahead(self, n: int) -> float:
        """Nats by which no outlier among n readings is likelier than by their share alone."""
        return float(np.log1p(self.spotless / (1.0 - self.spotless) * np.exp(-self._log_count(0.0, n))))

    def _log_count(self, n_out: float, n: int) -> float:
        """log p(so many given outliers among n readings), their share integrated out."""
        return float(betaln(n_out + self.outliers, n - n_out + self.clean) - betaln(self.outliers, self.clean))


PRIOR = _SlabPrior()


@dataclass(frozen=True)
class Group:
    """A kind of outlier: its share of all readings; mean and variance of its bias (of its value, if replaced)."""

    share: float
    mean: float
    variance: float


@dataclass(frozen=True)
class Slab:
    """The kinds of outlier: the bias of a reading of group g comes from N(m_g, variances[g]).

    During the search for labels m_g ~ N(0, mean_variance) and the shares are integrated out; `means` and `shares` are
    for predictions. With `replaced` there is one group, whose values come from N(means[0], variances[0]).
    """

    variances: tuple[float, ...]
    mean_variance: float = 0.0
    replaced: bool = False
    means: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    unseen: Group | None = None
    """For predictions: the kind that no reading has been of, yet. It is the last of the groups, or, where these were
    replaced, one more whose bias is added to f."""

    @classmethod
    def of_groups(cls, groups: Iterable[Group], replaced: bool) -> Slab:
        """For predictions: shares and means have values."""
        shares, means, variances = zip(*((group.share, group.mean, group.variance) for group in groups), strict=True)
        return cls(variances, replaced=replaced, means=means, shares=shares)

    @classmethod
    def of_replaced(cls, y: Array, mean_variance: float, noise_variance: float) -> Slab:
        """For readings that were replaced by these values, which are no better known than other readings are.

        Else values that occur often, as those at a limit of the instrument, would be outliers where f has them, too.
        """
        variance = max(float(y.var()), noise_variance) + PRIOR.lowest_variance if len(y) > 1 else mean_variance
        return cls((variance,), mean_variance, replaced=True, means=(float(y.mean()) if len(y) else 0.0,))

    def with_unseen(self, unseen: Group) -> Slab:
        """The same with a kind of outlier that the readings have not shown."""
        if self.replaced:
            return replace(self, unseen=unseen)
        groups = [replace(group, share=(1.0 - unseen.share) * group.share) for group in self.groups]
        return replace(Slab.of_groups([*groups, unseen], replaced=False), unseen=unseen)

    @property
    def seen(self) -> tuple[Group, ...]:
        """The groups but for the kind that was not seen."""
        return self.groups if self.unseen is None or self.replaced else self.groups[:-1]

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(Group(*each) for each in zip(self.shares, self.means, self.variances, strict=True))

    @property
    def n_groups(self) -> int:
        return len(self.variances)

    @property
    def added(self) -> Array:
        """What each label adds to the noise variance of a reading in the GP."""
        return np.array([0.0, *([0.0] if self.replaced else self.variances)])

    @property
    def loadings(self) -> Array:
        """Labels × columns: which group mean each label adds to a reading. Replaced readings have no common bias."""
        return np.zeros((2, 0)) if self.replaced else np.eye(self.n_groups + 1)[:, 1:]

    @property
    def prior_precision(self) -> Array:
        """Of the coefficient of each column of `loadings`."""
        return np.full(0 if self.replaced else self.n_groups, 1.0 / self.mean_variance)

    def counts(self, labels: Labels) -> Array:
        """The number of readings of each group."""
        return np.bincount(labels, minlength=self.n_groups + 1)[1:].astype(float)

    def log_joint(self, y: Array, mean: Array, variance: Array, shares: Array) -> Array:
        """log p(y, label): one column for clean readings and one for each group.

        `mean` and `variance`, with the same columns, are those of f + noise + the group's mean.
        """
        variance = variance + self.added
        if not self.replaced:
            return np.asarray(np.log(shares) + log_normal(y[:, None] - mean, variance))
        mean, around_f = np.array(np.broadcast_to(mean, variance.shape)), variance[:, 1].copy()
        off = y - mean[:, 1]
        mean[:, 1], variance[:, 1] = self.means[0], self.variances[0]
        joint = np.asarray(np.log(shares) + log_normal(y[:, None] - mean, variance))
        if self.unseen is not None:
            other = np.log(self.unseen.share) + log_normal(off, around_f + self.unseen.variance)
            joint[:, 1] = np.logaddexp(joint[:, 1], other)
        return joint

    def log_predictive(self, y: Array, mean: Array, variance: Array) -> Array:
        """`log_joint` at the slab's own shares and means, where f + noise is N(mean, variance)."""
        other = self.unseen.share if self.replaced and self.unseen is not None else 0.0
        shares = np.array([1.0 - sum(self.shares) - other, *self.shares])
        return self.log_joint(y, mean[:, None] + np.array([0.0, *self.means]), variance[:, None], shares)

    def widened(self, residual: Array, noise: Array, labels: Labels) -> Slab:
        """The slab for more readings than it was fitted to: those that joined a group may lie far from the others."""
        variances = list(self.variances)
        for g in range(0 if self.replaced else self.n_groups):
            group = labels == g + 1
            if group.sum() > 1:
                variances[g] = max(variances[g], float(residual[group].var() - noise[group].mean()))
        return replace(self, variances=tuple(variances))

    def information(self, noise_variance: float, labels: Labels) -> Array:
        """Approximate Fisher information about each log τ²: ½n from n readings, less where the noise hides the spread.

        Another ½ keeps it positive for a group without readings.
        """
        variances = np.array(self.variances)
        return np.asarray(0.5 + 0.5 * self.counts(labels) * (variances / (variances + noise_variance)) ** 2)

    def is_constant(self, g: int) -> bool:
        """Whether all readings of group g have the same bias: its variance is the lowest."""
        return self.variances[g] < (1.0 + PRIOR.rounding) * PRIOR.lowest_variance

    def bic_penalty(self, labels: Labels) -> float:
        """½ log(1 + number of outliers) per fitted parameter of the slab (the group means are integrated out)."""
        constant = sum(self.is_constant(g) for g in range(self.n_groups))
        fitted = self.n_groups + 1 if self.replaced else self.n_groups - constant
        return 0.5 * fitted * float(np.log1p((labels > 0).sum()))
