"""What is known of f and of the biases when some labels stay in doubt: a Gibbs run over those labels alone.

Given the labels of all others, the readings in doubt are the same model in fewer readings, so a move costs what a
small matrix costs. With K their covariance given the others and E = Q_{·D}·K, the inverse for any labels of theirs is
Q = Q_rest + E q Eᵀ, where q is the small one: averages over labels are averages of small matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from biasgp._typing import Array
from biasgp.models.sparse.labels import Support


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


@dataclass(frozen=True)
class LabelAverage:
    """Gibbs sampling of the labels that are in doubt; probabilities are averages of exact conditional odds."""

    sweeps: int = 30
    burn_in: int = 5
    sampled_up_to: float = 7.0
    """Log odds. A more certain label is not drawn in a sweep: it would change once in a thousand."""
    settled_from: float = 9.0
    """Log odds. A label more certain at the start is left out of the run: the others cannot bring it into doubt."""
    ahead: int = 32  # readings whose odds are computed at once, at about the cost of one

    def __call__(self, support: Support, rng: np.random.Generator) -> Moments:
        weights = support.log_weights()
        probability, doubt = _probability_of_bias(weights), _log_odds(weights)
        # At least one: the least certain.
        rows = np.flatnonzero(doubt <= max(self.settled_from, float(doubt.min())))
        average, probability[rows] = _Average(support, rows, self.sweeps), 0.0
        part = average.part
        weights = part.log_weights()
        for sweep in range(self.burn_in + self.sweeps):
            doubt = _log_odds(weights)
            doubtful = np.flatnonzero(doubt < self.sampled_up_to)
            # Sorted by their odds first, so that neither the order of the rows nor the sign of y matters.
            moved = self._sweep(part, rng.permutation(doubtful[np.argsort(doubt[doubtful])]), weights, rng)
            weights = part.log_weights() if moved else weights
            if sweep >= self.burn_in:
                average.add()
                probability[rows] += _probability_of_bias(weights) / self.sweeps
        return average.moments(probability)

    def _sweep(self, part: Support, order: NDArray[np.intp], weights: Array, rng: np.random.Generator) -> int:
        """Draw the label of one reading after another given all the others; returns how many changed.

        `weights` are the log weights of all readings before the sweep.
        """
        gumbel_noise = rng.gumbel(size=(len(order), part.slab.n_groups + 1))
        at = moves = 0
        while at < len(order):
            # What is drawn for the next readings holds until one of them changes.
            ahead = order[at : at + self.ahead] if moves else order
            ahead_weights = part.log_weights(ahead) if moves else weights[order]
            drawn = (ahead_weights + gumbel_noise[at : at + len(ahead)]).argmax(axis=1)
            changed = np.flatnonzero(drawn != part.labels[ahead])
            if len(changed):
                first = int(changed[0])
                part.move(int(ahead[first]), int(drawn[first]))
                at, moves = at + first + 1, moves + 1
            else:
                at += len(ahead)
        return moves


class _Average:
    """All readings given the labels of a part of them, and sums of what follows from the labels that part has had."""

    def __init__(self, whole: Support, rows: NDArray[np.intp], size: int) -> None:
        labels = whole.labels[rows]
        if not whole.inside[rows].all():
            clean = whole.labels.copy()
            clean[rows] = 0
            whole = Support(whole.C, whole.y, whole.clean_noise, whole.slab, clean)
        self.whole, self.rows = whole, rows
        self.block = whole.Q[np.ix_(rows, rows)]
        self.part, K = whole.part(rows, labels)
        self.E = whole.Q[:, rows] @ K
        self.Qy = whole.Qy - self.E @ whole.Qy[rows]
        self.U = whole.U - self.E @ whole.U[rows]
        self.diagonal = whole.Q.diagonal() - np.einsum("ij,ij->i", self.E @ self.block, self.E)
        self.labels = whole.labels.copy()
        n_means = self.U.shape[1]
        self.cores, self.crosses = np.zeros_like(K), np.zeros((n_means, len(rows)))
        self.covariances = np.zeros((n_means, n_means))
        self.alphas, self.biases, self.variances = (np.zeros((size, len(whole.y))) for _ in range(3))
        self.n = 0

    def add(self) -> None:
        """Count the labels as they are now."""
        part, n = self.part, self.n
        means, covariance = part.posterior_of_means()
        self.cores += part.Q - part.U @ covariance @ part.U.T
        self.crosses += covariance @ part.U.T
        self.covariances += covariance
        self.alphas[n] = self.Qy - self.U @ means + self.E @ (part.Qy - part.U @ means)
        self.labels[self.rows] = part.labels
        out = np.flatnonzero(self.labels)
        biases = self._replaced(out) if part.slab.replaced else self._shifted(out, means, covariance)
        self.biases[n, out], self.variances[n, out] = biases
        self.n += 1

    def _replaced(self, out: NDArray[np.intp]) -> tuple[Array, Array]:
        """The bias of a replaced reading is its distance from f given the readings in the GP, and noise."""
        whole, cross = self.whole, self.whole.C[out]
        seen = cross @ self.E
        explained = np.einsum("ij,ij->i", cross @ whole.Q, cross)
        explained += np.einsum("ij,ij->i", seen @ (self.part.Q - self.block), seen)
        variance = np.maximum(whole.C.diagonal()[out] - explained, 0.0) + whole.clean_noise[out]
        return whole.y[out] - cross @ self.alphas[self.n], variance

    def _shifted(self, out: NDArray[np.intp], means: Array, covariance: Array) -> tuple[Array, Array]:
        """δᵢ = m_g + its own part of variance τ²; its covariance with y is V·Z_g + τ²·eᵢ."""
        part, labels = self.part, self.labels
        own, V, extra = labels[out] - 1, part.slab.mean_variance, part.added[labels[out]]
        U, E = self.U + self.E @ part.U, self.E[out]
        A = part.loadings[labels].T @ U
        PZ = (U - U @ covariance @ A)[out, own]
        ZPZ = (A - A @ covariance @ A).diagonal()[own]
        precision = self.diagonal[out] + np.einsum("ij,ij->i", E @ part.Q, E)
        precision -= np.einsum("ij,ij->i", U[out] @ covariance, U[out])
        variance = V + extra - V**2 * ZPZ - 2.0 * V * extra * PZ - extra**2 * precision
        return means[own] + extra * self.alphas[self.n, out], np.maximum(variance, 0.0)

    def moments(self, probability: Array) -> Moments:
        """The average."""
        n, E, U = self.n, self.E, self.U
        alpha = self.alphas.mean(axis=0)
        spread = self.alphas - alpha
        mixed = U @ (self.crosses / n) @ E.T
        precision = self.whole.Q + E @ (self.cores / n - self.block) @ E.T - U @ (self.covariances / n) @ U.T
        precision -= mixed + mixed.T + spread.T @ spread / n
        bias_variance = self.variances.mean(axis=0) + self.biases.var(axis=0)
        return Moments(alpha, precision, probability, self.biases.mean(axis=0), bias_variance)


def _log_odds(weights: Array) -> Array:
    """Of each reading's most probable label against the next."""
    ordered = np.sort(weights, axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2])


def _probability_of_bias(weights: Array) -> Array:
    return np.asarray(1.0 - softmax(weights, axis=1)[:, 0])
