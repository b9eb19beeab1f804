"""Which readings are biased: their labels, the odds of each given all the others, and moves between labels.

Given the labels the model is Gaussian. A clean reading (label 0) has noise σ²; one of group g has noise σ² + τ_g² and
the group's mean bias m_g ~ N(0, V), which is integrated out. A reading that was replaced rather than shifted tells
nothing of f: it is left out of the GP, and its value has a density of its own.

With Q = (C + noise)⁻¹ everything about leaving one reading out comes from Q's rows, for all readings at once, and a
change of label is a rank-one update of Q.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from biasgp._typing import Array, Mask
from biasgp.covariance.dense import add_outer, factorise
from biasgp.models.problem import EVERYTHING, Rows
from biasgp.models.sparse.kinds import PRIOR_CLEAN, PRIOR_OUTLIERS, Labels, Slab, log_normal

MIN_INSIDE = 3
"""The GP keeps at least this many readings."""
ROUNDING = 1e-12
"""Share of a difference's first term that it is at least, where it cannot be negative but for rounding."""
KEPT = 32
"""Rank-one updates of Q that are carried out together: one pass over N×N numbers instead of so many."""
MANY, WORTH_A_LEAP, RELATED = 500, 10, 0.1
"""With more readings than the first, moves are taken together while so many can be that are not related."""


@dataclass(frozen=True)
class FixedLabels:
    """Sufficient statistics of the readings whose labels are fixed, for those whose labels are not.

    `values` are the readings whose labels are not: y is what the fixed ones leave to be explained of them. `loadings`
    is minus what of the group means the fixed readings explain at them; A and b are the fixed readings' part of what
    is known of the means, counts and n their part in the shares, and `inside` of them are in the GP.
    """

    values: Array
    loadings: Array
    A: Array
    b: Array
    counts: NDArray[np.intp]
    n: int
    inside: int


class Support:
    """Labels with all that follows from them, at fixed parameters.

    Q is the inverse over the readings that are in the GP; rows and columns of replaced readings are zero.
    """

    def __init__(
        self, C: Array, y: Array, noise: Array, slab: Slab, labels: Labels, fixed: FixedLabels | None = None
    ) -> None:
        self.C, self.y, self.clean_noise, self.slab = C, y, noise, slab
        self.labels = labels.copy()
        n_means = 0 if slab.replaced else slab.n_groups
        self.fixed = fixed or FixedLabels(
            values=y,
            loadings=np.zeros((len(y), n_means)),
            A=np.zeros((n_means, n_means)),
            b=np.zeros(n_means),
            counts=np.zeros(slab.n_groups, dtype=np.intp),
            n=0,
            inside=0,
        )
        self.added = slab.added
        self._kept, self._factors = np.empty((len(y), KEPT)), np.empty(KEPT)
        self.refresh()

    def is_at(self, slab: Slab, labels: Labels) -> bool:
        """Whether the labels are, or have come to be, these."""
        return self.slab == slab and np.array_equal(self.labels, labels)

    @property
    def inside(self) -> Mask:
        """Readings that are in the GP."""
        return np.asarray((self.labels == 0) | (not self.slab.replaced))

    def refresh(self) -> None:
        """Q from a fresh factorisation."""
        rows = np.flatnonzero(self.inside)
        noise = self.clean_noise + self.added[self.labels]
        if len(rows) == len(self.y):
            factor = factorise(self.C, noise)
            self.logdet, self._Q = factor.logdet, factor.inverse(overwrite=True)
        else:
            self.logdet, self._Q = 0.0, np.zeros_like(self.C)
            if len(rows):
                factor = factorise(self.C[np.ix_(rows, rows)], noise[rows])
                self.logdet, self._Q[np.ix_(rows, rows)] = factor.logdet, factor.inverse()
        self._n_kept = 0
        self._renew()

    @property
    def Q(self) -> Array:
        """The inverse, N×N: moves that were kept back are carried out first."""
        if self._n_kept:
            kept, self._n_kept = self._kept[:, : self._n_kept], 0
            self._Q += (kept * self._factors[: kept.shape[1]]) @ kept.T
            self._renew()
        return self._Q

    def _renew(self) -> None:
        """Everything that follows from Q and the labels, afresh: Q's diagonal, Qy, U = QZ, A = ZᵀQZ, b = ZᵀQy."""
        self.diagonal = self._Q.diagonal().copy()
        self.Z = self.indicators + self.fixed.loadings
        self.Qy, self.U = self._Q @ self.y, self._Q @ self.Z
        self._renew_means()

    def _renew_means(self) -> None:
        self.A = self.fixed.A + self.Z.T @ self.U
        self.b = self.fixed.b + self.Z.T @ self.Qy

    def part(self, rows: NDArray[np.intp], labels: Labels) -> tuple[Support, Array]:
        """Some readings of the GP as a model of their own, whose prior is what the others say; and their covariance."""
        K = factorise(self.Q[np.ix_(rows, rows)], np.zeros(len(rows))).inverse()
        noise, U = self.clean_noise[rows], self.U[rows]
        rest = np.delete(self.labels, rows)
        fixed = FixedLabels(
            values=self.y[rows],
            loadings=K @ U - self.indicators[rows],
            A=self.A - U.T @ K @ U,
            b=self.b - U.T @ K @ self.Qy[rows],
            counts=np.bincount(rest, minlength=self.slab.n_groups + 1)[1:],
            n=len(rest),
            inside=int(self.inside.sum()) - len(rows),
        )
        C = K - np.diag(noise + self.added[self.labels[rows]])
        return Support(C, K @ self.Qy[rows], noise, self.slab, labels, fixed), K

    @property
    def indicators(self) -> Array:
        """N×G: which group of shifted readings each belongs to."""
        return self.slab.indicators(self.labels)

    def posterior_of_means(self) -> tuple[Array, Array]:
        """Mean and covariance of the group means given all readings."""
        return self.slab.means_given(self.A, self.b)

    def standardised_residuals(self) -> Array:
        """Of the clean readings from the prediction without them, in its standard deviations."""
        means, covariance = self.posterior_of_means()
        alpha = self.Qy - self.U @ means
        precision = self.Q.diagonal() - np.einsum("ng,gh,nh->n", self.U, covariance, self.U)
        clean = self.labels == 0
        return np.asarray(alpha[clean] / np.sqrt(precision[clean]))

    def nearest_flagged(self, flagged: Mask) -> Mask:
        """Whether the nearest neighbour (by correlation of f) of each flagged reading is flagged."""
        # Where f has no variance (a linear kernel at its origin) it is correlated with nothing.
        scale = np.sqrt(np.where(self.C.diagonal() > 0.0, self.C.diagonal(), 1.0))
        correlation = self.C[flagged] / np.outer(scale[flagged], scale)
        correlation[np.arange(len(correlation)), np.flatnonzero(flagged)] = -np.inf
        return np.asarray(flagged[correlation.argmax(axis=1)])

    def log_evidence(self) -> float:
        """log p(y, labels): the group means and the share of outliers integrated out."""
        seen = GPStatistics(self.logdet, float(self.y @ self.Qy), self.A, self.b)
        return _log_joint(self.y, self.slab, self.labels, seen)

    def log_weights(self, rows: Rows = EVERYTHING) -> Array:
        """log p(yᵢ, labelᵢ = c | the others), for these readings and every label; shape (rows, groups + 1)."""
        if self.slab.replaced:
            mean, variance = self.leave_one_out_replaced(rows)
            clean = log_normal(self.y[rows] - mean, variance + self.clean_noise[rows])
            weights = np.column_stack([clean, self.slab.log_density(self.fixed.values[rows])])
        else:
            weights = self._log_weights_shifted(rows)
        return np.asarray(weights + self.log_prior(rows))

    def leave_one_out_replaced(self, rows: Rows = EVERYTHING) -> tuple[Array, Array]:
        """Mean and variance of each fᵢ given the other readings in the GP."""
        inside = self.inside[rows]
        Qii = np.where(inside, self.diagonal[rows], 1.0)
        mean, variance = self.y[rows] - self.Qy[rows] / Qii, 1.0 / Qii - self.clean_noise[rows]
        cross = self.C[rows][~inside]
        mean[~inside] = cross @ self.Qy
        variance[~inside] = self.C.diagonal()[rows][~inside] - np.einsum("ij,ij->i", cross @ self.Q, cross)
        return mean, np.maximum(variance, 0.0)

    def _log_weights_shifted(self, rows: Rows) -> Array:
        """Leaving i out: fᵢ given the others and the means m is N(aᵢ − cᵢᵀm, vᵢ), and m given the others is Gaussian
        with A and b less i's share.
        """
        Qii, Qy, U, labels = self.diagonal[rows], self.Qy[rows], self.U[rows], self.labels[rows]
        noise = self.clean_noise[rows]
        v = np.maximum(1.0 / Qii - noise - self.added[labels], 0.0) + noise
        residual = Qy / Qii
        # Their covariance is S less i's share, again a rank-one update: S + Su(Su)ᵀ/(Qᵢᵢ − uᵀSu).
        means, S = self.posterior_of_means()
        SU = U @ S
        remaining = np.maximum(Qii - (U * SU).sum(axis=1), ROUNDING * Qii)
        pull = Qy - U @ means
        choices = np.eye(self.slab.n_groups + 1)[:, 1:]
        loading = choices[:, None, :] - (choices[labels] - U / Qii[:, None])
        along = (loading * SU).sum(axis=2)
        expected = loading @ means - along * (pull / remaining)
        spread = ((loading @ S) * loading).sum(axis=2) + along**2 / remaining
        return log_normal(residual - expected, v + self.added[:, None] + spread).T

    def log_prior(self, rows: Rows = EVERYTHING) -> Array:
        """log p(labelᵢ = c | the other labels), with the shares integrated out."""
        n, n_groups = len(self.y) + self.fixed.n, self.slab.n_groups
        counts = self.fixed.counts + np.bincount(self.labels, minlength=n_groups + 1)[1:]
        counts = counts - (self.labels[rows][:, None] == np.arange(1, n_groups + 1))
        n_out = counts.sum(axis=1)
        total = np.log(n - 1 + PRIOR_OUTLIERS + PRIOR_CLEAN)
        clean = np.log(n - 1 - n_out + PRIOR_CLEAN) - total
        out = np.log(n_out + PRIOR_OUTLIERS) - total
        return np.column_stack([clean, out[:, None] + np.log(counts + 1.0) - np.log(n_out + n_groups)[:, None]])

    def move(self, i: int, label: int) -> None:
        """Give reading i another label: a rank-one update of Q."""
        if label == self.labels[i] or (self.slab.replaced and label and self._n_inside() <= MIN_INSIDE):
            return
        if self.slab.replaced:
            self._take_out(i) if label else self._put_back(i)
            self.labels[i] = label
            self._renew()
        else:
            self._relabel(i, label)

    def _relabel(self, i: int, label: int) -> None:
        """Another noise for i, and another mean; Q itself waits until several such moves have come together."""
        q = self._row(i)
        before, after = self.clean_noise[i] + self.added[self.labels[i]], self.clean_noise[i] + self.added[label]
        change = after - before
        # The ratio of the variances of i given the others: between 1 and that of its noises, but for rounding.
        shrink = max(1.0 + change * q[i], min(1.0, after / before))
        factor = -change / shrink
        groups = np.arange(1, self.slab.n_groups + 1)
        turn = (label == groups) - (self.labels[i] == groups).astype(float)
        self.logdet += float(np.log(shrink))
        self.diagonal += factor * q**2
        self.Qy += factor * self.Qy[i] * q
        self.U += np.outer(q, factor * self.U[i] + (1.0 + factor * q[i]) * turn)
        self.Z[i] += turn
        self.labels[i] = label
        self._renew_means()
        self._kept[:, self._n_kept], self._factors[self._n_kept] = q, factor
        self._n_kept += 1
        if self._n_kept == KEPT:
            _ = self.Q

    def _row(self, i: int) -> Array:
        """A row of Q, with what was kept back."""
        kept = self._kept[:, : self._n_kept]
        return np.asarray(self._Q[i] + kept @ (self._factors[: self._n_kept] * kept[i]))

    def _n_inside(self) -> int:
        return int(self.inside.sum()) + self.fixed.inside

    def _take_out(self, i: int) -> None:
        q = self._Q[i].copy()
        self._Q = add_outer(self._Q, -1.0 / q[i], q)
        self._Q[i], self._Q[:, i] = 0.0, 0.0
        self.logdet += float(np.log(q[i]))

    def _put_back(self, i: int) -> None:
        border = self._Q @ self.C[i]
        # At least the noise, but for rounding.
        pivot = max(float(self.C[i, i] + self.clean_noise[i] - self.C[i] @ border), float(self.clean_noise[i]))
        border[i] = -1.0
        self._Q = add_outer(self._Q, 1.0 / pivot, border)
        self.logdet += float(np.log(pivot))

    def climb(self, max_moves: int) -> int:
        """Take the single best move until none raises p(y, labels); returns how many were taken."""
        leapt = self._leap(max_moves) if len(self.y) > MANY else 0
        for moves in range(leapt, max_moves):
            best, gain = self._best_moves()
            i = int(gain.argmax())
            if gain[i] <= 1e-9 or (self.slab.replaced and self._n_inside() <= MIN_INSIDE):
                return moves
            self.move(i, int(best[i]))
        return max_moves

    def _best_moves(self) -> tuple[Labels, Array]:
        """The best label of each reading given all others, and what it gains over its present one."""
        everyone = np.arange(len(self.y))
        weights = self.log_weights()
        best = weights.argmax(axis=1)
        return best, weights[everyone, best] - weights[everyone, self.labels]

    def _leap(self, max_moves: int) -> int:
        """Moves of readings that hardly know of one another, many at a time, as long as that raises p(y, labels).

        A single move costs O(N²), and so many of them more than a new factorisation.
        """
        moves = 0
        while True:
            best, gain = self._best_moves()
            wanted = np.argsort(-gain)[: min(int((gain > 1e-9).sum()), max_moves - moves)]
            chosen = self._unrelated(wanted)
            if len(chosen) < WORTH_A_LEAP or (self.slab.replaced and self._n_inside() - len(chosen) <= MIN_INSIDE):
                return moves
            before, evidence = self.labels.copy(), self.log_evidence()
            self.labels[chosen] = best[chosen]
            self.refresh()
            if self.log_evidence() <= evidence:
                self.labels = before
                self.refresh()
                return moves
            moves += len(chosen)

    def _unrelated(self, wanted: NDArray[np.intp]) -> NDArray[np.intp]:
        """Those of the readings, in their order, that are not correlated given the rest with one taken before."""
        block = self.Q[np.ix_(wanted, wanted)]
        scale = np.sqrt(np.maximum(block.diagonal(), 1e-300))
        related = np.abs(block) > RELATED * np.outer(scale, scale)
        taken = np.zeros(len(wanted), dtype=bool)
        for i in range(len(wanted)):
            taken[i] = not np.any(related[i] & taken)
        return wanted[taken]


def log_evidence(C: Array, y: Array, noise: Array, slab: Slab, labels: Labels) -> float:
    """log p(y, labels) and nothing else: a third of the work of a Support."""
    known = np.column_stack([y, slab.indicators(labels)])
    noise = noise + slab.added[labels]
    if slab.replaced:
        rows = np.flatnonzero(labels == 0)
        C, noise, known = C[np.ix_(rows, rows)], noise[rows], known[rows]
    factor = factorise(C, noise)
    half = factor.half_solve(known)
    gram = half.T @ half
    return _log_joint(y, slab, labels, GPStatistics(factor.logdet, float(gram[0, 0]), gram[1:, 1:], gram[1:, 0]))


@dataclass(frozen=True)
class GPStatistics:
    """What the GP makes of the readings in it: log|K|, yᵀK⁻¹y, A = ZᵀK⁻¹Z and b = ZᵀK⁻¹y."""

    logdet: float
    fit: float
    A: Array
    b: Array


def _log_joint(y: Array, slab: Slab, labels: Labels, seen: GPStatistics) -> float:
    """log p(y, labels), the group means and the share of outliers integrated out."""
    n, n_out = len(y), int((labels > 0).sum())
    n_inside = n - n_out if slab.replaced else n
    value = -0.5 * (n_inside * np.log(2.0 * np.pi) + seen.logdet + seen.fit)
    if slab.replaced:
        value += slab.log_density(y[labels > 0]).sum()
    elif n_out:
        means, covariance = slab.means_given(seen.A, seen.b)
        value += 0.5 * seen.b @ means + 0.5 * np.linalg.slogdet(covariance / slab.mean_variance)[1]
    value += betaln(n_out + PRIOR_OUTLIERS, n - n_out + PRIOR_CLEAN) - betaln(PRIOR_OUTLIERS, PRIOR_CLEAN)
    # Which group an outlier is of: uniform over the groups' shares, integrated out.
    counts = np.bincount(labels, minlength=slab.n_groups + 1)[1:]
    value += gammaln(counts + 1.0).sum() + gammaln(len(counts)) - gammaln(n_out + len(counts))
    return float(value)
