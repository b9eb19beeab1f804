"""Which readings are biased: labels z, the odds of each given all the others, and moves between labels.

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
from biasgp.covariance.dense import factorise, inverse_of

Labels = NDArray[np.intp]

PRIOR_OUTLIERS, PRIOR_CLEAN = 1.0, 9.0
"""The share of outliers is Beta(1, 9) before the data: a tenth, give or take a tenth."""
MIN_INSIDE = 3
"""The GP keeps at least this many readings."""
MANY, WORTH_A_LEAP, RELATED = 500, 10, 0.1
"""With more readings than the first, moves are taken together while so many can be that are not related."""
DOUBT = 7.0
"""Labels whose log odds are larger are not sampled: they would change once in a thousand sweeps."""


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


class Support:
    """Labels with all that follows from them, at fixed parameters.

    Q is the inverse over the readings that are in the GP; rows and columns of replaced readings are zero.
    """

    def __init__(self, C: Array, y: Array, noise: Array, slab: Slab, labels: Labels) -> None:
        self.C, self.y, self.clean_noise, self.slab = C, y, noise, slab
        self.labels = labels.copy()
        self.added = np.array([0.0, *([0.0] if slab.replaced else slab.variances)])
        self.refresh()

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
            self.logdet, self.Q = factor.logdet, inverse_of(factor, overwrite=True)
        else:
            factor = factorise(self.C[np.ix_(rows, rows)], noise[rows])
            self.logdet, self.Q = factor.logdet, np.zeros_like(self.C)
            self.Q[np.ix_(rows, rows)] = inverse_of(factor)
        self._update_means()

    def _update_means(self) -> None:
        """What the group means need: with Z the groups' indicators, Qy, U = QZ, A = ZᵀQZ, b = ZᵀQy."""
        self.Qy = self.Q @ self.y
        Z = self.indicators
        self.U = self.Q @ Z
        self.A = Z.T @ self.U
        self.b = Z.T @ self.Qy

    @property
    def indicators(self) -> Array:
        """N×G: which group of shifted readings each belongs to. Replaced readings have no common bias."""
        if self.slab.replaced:
            return np.zeros((len(self.y), 0))
        return np.asarray(self.labels[:, None] == np.arange(1, self.slab.n_groups + 1), dtype=float)

    def _means_given(self, A: Array, b: Array) -> tuple[Array, Array]:
        """Mean and covariance of the group means given A and b, over leading dimensions."""
        precision = A + np.eye(A.shape[-1]) / self.slab.mean_variance
        covariance = np.asarray(np.linalg.inv(precision))
        return np.asarray(np.einsum("...gh,...h->...g", covariance, b)), covariance

    def posterior_of_means(self) -> tuple[Array, Array]:
        """Mean and covariance of the group means given all readings."""
        return self._means_given(self.A, self.b)

    def log_evidence(self) -> float:
        """log p(y, labels): the group means and the share of outliers integrated out."""
        n, n_out = len(self.y), int((self.labels > 0).sum())
        value = -0.5 * (self.inside.sum() * np.log(2.0 * np.pi) + self.logdet + self.y @ self.Qy)
        if self.slab.replaced:
            value += self._replaced_density(self.y[self.labels > 0]).sum()
        elif n_out:
            means, covariance = self.posterior_of_means()
            value += 0.5 * self.b @ means + 0.5 * np.linalg.slogdet(covariance / self.slab.mean_variance)[1]
        value += betaln(n_out + PRIOR_OUTLIERS, n - n_out + PRIOR_CLEAN) - betaln(PRIOR_OUTLIERS, PRIOR_CLEAN)
        # Which group an outlier is of: uniform over the groups' shares, integrated out.
        counts = np.bincount(self.labels, minlength=self.slab.n_groups + 1)[1:]
        value += gammaln(counts + 1.0).sum() + gammaln(len(counts)) - gammaln(n_out + len(counts))
        return float(value)

    def _replaced_density(self, y: Array) -> Array:
        variance = self.slab.variances[0]
        return np.asarray(-0.5 * (np.log(2.0 * np.pi * variance) + (y - self.slab.center) ** 2 / variance))

    def log_weights(self) -> Array:
        """log p(yᵢ, labelᵢ = c | the others), for every reading and label; shape (N, groups + 1)."""
        if self.slab.replaced:
            mean, variance = self._leave_one_out_replaced()
            clean = log_normal(self.y - mean, variance + self.clean_noise)
            return np.column_stack([clean, self._replaced_density(self.y)]) + self._log_prior()
        return self._log_weights_shifted() + self._log_prior()

    def _leave_one_out_replaced(self) -> tuple[Array, Array]:
        """Mean and variance of each fᵢ given the other readings in the GP."""
        Qii = np.where(self.inside, self.Q.diagonal(), 1.0)
        mean, variance = self.y - self.Qy / Qii, 1.0 / Qii - self.clean_noise
        out = np.flatnonzero(~self.inside)
        cross = self.C[out]
        mean[out] = cross @ self.Qy
        variance[out] = self.C.diagonal()[out] - np.einsum("ij,ij->i", cross @ self.Q, cross)
        return mean, np.maximum(variance, 0.0)

    def _log_weights_shifted(self) -> Array:
        """Leaving i out: fᵢ given the others and the means m is N(aᵢ − cᵢᵀm, vᵢ), and m given the others is Gaussian
        with A and b less i's share.
        """
        Qii, n_groups = self.Q.diagonal(), self.slab.n_groups
        v = np.maximum(1.0 / Qii - self.clean_noise - self.added[self.labels], 0.0)
        a = self.y - self.Qy / Qii
        c = self.indicators - self.U / Qii[:, None]
        A = self.A - self.U[:, :, None] * self.U[:, None, :] / Qii[:, None, None]
        b = self.b - self.U * (self.Qy / Qii)[:, None]
        means, covariance = self._means_given(A, b)
        weights = np.empty((len(self.y), n_groups + 1))
        for label, own in enumerate(np.eye(n_groups + 1)[:, 1:]):
            loading = own - c
            mean = a + (loading * means).sum(axis=1)
            spread = np.einsum("ng,ngh,nh->n", loading, covariance, loading)
            weights[:, label] = log_normal(self.y - mean, v + self.clean_noise + self.added[label] + spread)
        return weights

    def _log_prior(self) -> Array:
        """log p(labelᵢ = c | the other labels), with the shares integrated out."""
        n, n_groups = len(self.y), self.slab.n_groups
        counts = np.bincount(self.labels, minlength=n_groups + 1)[1:] - (
            self.labels[:, None] == np.arange(1, n_groups + 1)
        )
        n_out = counts.sum(axis=1)
        total = np.log(n - 1 + PRIOR_OUTLIERS + PRIOR_CLEAN)
        clean = np.log(n - 1 - n_out + PRIOR_CLEAN) - total
        out = np.log(n_out + PRIOR_OUTLIERS) - total
        return np.column_stack([clean, out[:, None] + np.log(counts + 1.0) - np.log(n_out + n_groups)[:, None]])

    def move(self, i: int, label: int) -> None:
        """Give reading i another label: a rank-one update of Q."""
        if label == self.labels[i] or (self.slab.replaced and label and self.inside.sum() <= MIN_INSIDE):
            return
        if self.slab.replaced:
            self._take_out(i) if label else self._put_back(i)
        else:
            change = self.added[label] - self.added[self.labels[i]]
            q = self.Q[i].copy()
            shrink = 1.0 + change * q[i]
            self.Q -= np.outer(q * (change / shrink), q)
            self.logdet += float(np.log(shrink))
        self.labels[i] = label
        self._update_means()

    def _take_out(self, i: int) -> None:
        q = self.Q[i].copy()
        self.Q -= np.outer(q / q[i], q)
        self.Q[i], self.Q[:, i] = 0.0, 0.0
        self.logdet += float(np.log(q[i]))

    def _put_back(self, i: int) -> None:
        border = self.Q @ self.C[i]
        pivot = float(self.C[i, i] + self.clean_noise[i] - self.C[i] @ border)
        border[i] = -1.0
        self.Q += np.outer(border / pivot, border)
        self.logdet += float(np.log(pivot))

    def climb(self, max_moves: int) -> int:
        """Take the single best move until none raises p(y, labels); returns how many were taken."""
        leapt = self._leap(max_moves) if len(self.y) > MANY else 0
        for moves in range(leapt, max_moves):
            best, gain = self._best_moves()
            i = int(gain.argmax())
            if gain[i] <= 1e-9 or (self.slab.replaced and self.inside.sum() <= MIN_INSIDE):
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
            if len(chosen) < WORTH_A_LEAP or (self.slab.replaced and self.inside.sum() - len(chosen) <= MIN_INSIDE):
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


def log_normal(residual: Array, variance: Array) -> Array:
    """Log density of N(0, variance)."""
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * variance) + residual**2 / variance))


@dataclass(frozen=True)
class Moments:
    """f and δ given the readings, averaged over labels.

    With α = K⁻¹(y − δ̂) and Q of each sample of labels, E f* = c*ᵀᾱ and Var f* = c** − c*ᵀ(Q̄ − Cov α)c*: both moments
    of the mixture are exact, and one N×N matrix holds them.
    """

    alpha: Array
    precision: Array
    probability: Array
    bias: Array
    bias_variance: Array


def average_over_labels(support: Support, sweeps: int, burn_in: int, rng: np.random.Generator) -> Moments:
    """Gibbs sampling of the labels that are in doubt; probabilities are averages of exact conditional odds."""
    n = len(support.y)
    alphas, biases, variances = np.empty((sweeps, n)), np.empty((sweeps, n)), np.empty((sweeps, n))
    precision, probability = np.zeros((n, n)), np.zeros(n)
    weights = support.log_weights()
    current, pending = _given_labels(support), 0
    for sweep in range(burn_in + sweeps):
        likeliest = np.sort(weights, axis=1)
        doubt = likeliest[:, -1] - likeliest[:, -2]
        doubtful = np.flatnonzero(doubt < DOUBT)
        moved = False
        # In the order of their doubt first, so that neither the order of the rows nor the sign of y matters.
        for i in rng.permutation(doubtful[np.argsort(doubt[doubtful])]).tolist():
            label = int((weights[i] + rng.gumbel(size=weights.shape[1])).argmax())
            if label != support.labels[i]:
                support.move(i, label)
                weights, moved = support.log_weights(), True
        if moved:
            precision += pending * current.precision
            current, pending = _given_labels(support), 0
        if sweep >= burn_in:
            kept = sweep - burn_in
            pending += 1
            alphas[kept], biases[kept], variances[kept] = current.alpha, current.bias, current.bias_variance
            probability += _chance_of_bias(weights)
    precision += pending * current.precision
    precision /= sweeps
    spread = alphas - alphas.mean(axis=0)
    return Moments(
        alpha=alphas.mean(axis=0),
        precision=precision - spread.T @ spread / sweeps,
        probability=probability / sweeps,
        bias=biases.mean(axis=0),
        bias_variance=variances.mean(axis=0) + biases.var(axis=0),
    )


def _chance_of_bias(weights: Array) -> Array:
    top = weights.max(axis=1, keepdims=True)
    relative = np.exp(weights - top)
    return np.asarray(1.0 - relative[:, 0] / relative.sum(axis=1))


def _given_labels(support: Support) -> Moments:
    """The same for one set of labels: everything is Gaussian."""
    means, covariance = support.posterior_of_means()
    precision = support.Q - support.U @ covariance @ support.U.T
    alpha = support.Qy - support.U @ means
    out = support.labels > 0
    bias, variance = np.zeros(len(out)), np.zeros(len(out))
    if support.slab.replaced:
        f, f_variance = support._leave_one_out_replaced()
        bias[out], variance[out] = (support.y - f)[out], (f_variance + support.clean_noise)[out]
    elif out.any():
        # δᵢ = m_g + its own part of variance τ²; its covariance with y is V·Z_g + τ²·eᵢ.
        Z, V, extra = support.indicators, support.slab.mean_variance, support.added[support.labels]
        PZ = precision @ Z
        own = Z.astype(bool)
        quadratic = V**2 * np.einsum("gh,nh->ng", Z.T @ PZ, Z)[own] + 2.0 * V * extra[out] * PZ[own]
        bias[out] = (Z @ means)[out] + extra[out] * alpha[out]
        variance[out] = V + extra[out] - quadratic - extra[out] ** 2 * precision.diagonal()[out]
    return Moments(alpha, precision, out.astype(float), bias, np.maximum(variance, 0.0))
