"""Which readings are biased: their labels, the odds of each given all the others, and moves between labels.

Given the labels the model is Gaussian. A clean reading (label 0) has noise σ²; one of group g has noise σ² + τ_g² and
the group's mean bias m_g ~ N(0, V), which is integrated out. A reading that was replaced rather than shifted tells
nothing about f: it is left out of the GP, and its value has a density of its own.

With Q = (C + noise)⁻¹, everything about leaving one reading out comes from Q's rows, for all readings at once, and a
change of label is a rank-one update of Q.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from biasgp._typing import Array, Mask
from biasgp.covariance.dense import add_outer, add_product, factorise
from biasgp.covariance.dense_engine import Inverse
from biasgp.models.problem import EVERYTHING, LOG_2PI, Rows
from biasgp.models.sparse.kinds import PRIOR, Labels, Slab, log_normal


@dataclass(frozen=True)
class _MovePolicy:
    """How labels are moved."""

    min_inside: int = 3  # the GP keeps at least this many readings
    min_gain: float = 1e-9  # nats. A move that raises the log evidence by less is rounding.
    rounding: float = 1e-12  # lower limit of a positive difference, as a share of its minuend
    ahead: int = 32  # readings whose odds are computed at once in a sweep, at about the cost of one
    batch: int = 32  # rank-one updates that are applied to Q together: one pass over N×N numbers instead of this many


_POLICY = _MovePolicy()


def log_evidence(C: Array, y: Array, noise: Array, slab: Slab, labels: Labels) -> float:
    """log p(y, labels), as a `Support` has it, without the inverse: a third of the work."""
    inside = np.flatnonzero((labels == 0) | (not slab.replaced))
    Z, all_noise, Qy = slab.loadings[labels], noise + slab.added[labels], np.zeros(len(y))
    factor = factorise(C if len(inside) == len(y) else C[inside[:, None], inside], all_noise[inside])
    solved = factor.solve(np.column_stack([y, Z])[inside])
    Qy[inside] = solved[:, 0]
    A, b = Z[inside].T @ solved[:, 1:], Z[inside].T @ solved[:, 0]
    return _log_evidence(y, slab, labels, (factor.logdet, Qy), (A, b))


def _log_evidence(
    y: Array, slab: Slab, labels: Labels, known: tuple[float, Array], of_means: tuple[Array, Array]
) -> float:
    """From the logarithm of the determinant and Qy, and from A and b."""
    (logdet, Qy), (A, b), out = known, of_means, labels > 0
    n_inside = len(y) - int(out.sum()) if slab.replaced else len(y)
    value = PRIOR.log_labels(slab.counts(labels), len(y)) + (0.0 if out.any() else PRIOR.spotless_ahead(len(y)))
    value -= 0.5 * (n_inside * LOG_2PI + logdet + float(y @ Qy))
    if slab.replaced:
        return value + float(log_normal(y[out] - slab.means[0], slab.variances[0]).sum())
    covariance = np.linalg.inv(A + np.diag(slab.prior_precision))
    return float(value + 0.5 * b @ covariance @ b + 0.5 * np.linalg.slogdet(covariance * slab.prior_precision)[1])


@dataclass(frozen=True)
class _FixedLabels:
    """Sufficient statistics of the readings whose labels are fixed, for those whose labels are free.

    `values` are the free readings themselves, where y is what the fixed readings do not explain of them; `loadings` is
    minus what the fixed readings explain of the group means at them. A and b are the contribution of the fixed readings
    to the information about the means, counts and n theirs to the shares, and `inside` of them are in the GP.
    """

    values: Array
    loadings: Array | float
    A: Array | float = 0.0
    b: Array | float = 0.0
    counts: Array | float = 0.0
    n: int = 0
    inside: int = 0


class Support:
    """Labels with all that follows from them, at fixed parameters.

    Q is the inverse over the readings that are in the GP; rows and columns of replaced readings are zero. The
    coefficients of Z's columns, at present the group means, are integrated out.
    """

    def __init__(
        self, C: Array | Inverse, y: Array, noise: Array, slab: Slab, labels: Labels, fixed: _FixedLabels | None = None
    ) -> None:
        """With C, or with the inverse for these labels, which is then its own."""
        known = C if isinstance(C, Inverse) else None
        self.C = C = C.C if isinstance(C, Inverse) else C
        self.y, self.clean_noise, self.slab = y, noise, slab
        self.labels = labels.copy()
        self.fixed = fixed or _FixedLabels(values=y, loadings=0.0)
        self.added, self.loadings = slab.added, slab.loadings
        self._waiting, self._factors = np.empty((len(y), _POLICY.batch), order="F"), np.empty(_POLICY.batch)
        self._n_waiting = 0
        self._explained = np.full(len(y), np.nan)
        noise, rows = self.clean_noise + self.added[labels], np.flatnonzero(self.inside)
        if known is not None:
            self.logdet, self._Q = known.logdet, known.Q
        elif len(rows) == len(y):
            factor = factorise(C, noise)
            self.logdet, self._Q = factor.logdet, factor.inverse(overwrite=True)
        else:
            self.logdet, self._Q = 0.0, np.zeros_like(C)
            if len(rows):  # none, where all readings of a part are replaced
                factor = factorise(C[np.ix_(rows, rows)], noise[rows])
                self.logdet, self._Q[np.ix_(rows, rows)] = factor.logdet, factor.inverse(overwrite=True)
        self.verdict: Array | None = None
        self._renew()

    def copy(self) -> Support:
        """The same, whose labels can be moved without moving these."""
        inverse = Inverse(self.C, self.Q.copy(), self.logdet)
        copied = Support(inverse, self.y, self.clean_noise, self.slab, self.labels, self.fixed)
        return copied.holding(self.verdict)

    def afresh(self) -> Support:
        """The same without the rounding of the moves that have led here."""
        new = Support(self.C, self.y, self.clean_noise, self.slab, self.labels, self.fixed)
        return new.holding(self.verdict)

    def holding(self, verdict: Array | None) -> Support:
        """Itself, whose labels from now on are those that verdicts allow: none for good readings, some for bad ones.

        The labels must be such already (`Problem.held`).
        """
        self.verdict = verdict
        return self

    def barred(self, rows: Rows = EVERYTHING) -> Mask:
        """Labels that verdicts do not allow; shape (rows, groups + 1)."""
        out = np.zeros((len(self.labels[rows]), self.slab.n_groups + 1), dtype=bool)
        if self.verdict is not None:
            out[:, 1:], out[:, 0] = (self.verdict[rows] == 0.0)[:, None], self.verdict[rows] == 1.0
        return out

    def is_at(self, slab: Slab, labels: Labels) -> bool:
        """Whether slab and labels are these."""
        return self.slab == slab and np.array_equal(self.labels, labels)

    @property
    def inside(self) -> Mask:
        """Readings that are in the GP."""
        return np.asarray((self.labels == 0) | (not self.slab.replaced))

    @property
    def Q(self) -> Array:
        """The inverse, N×N: updates that wait are applied first."""
        if self._n_waiting:
            waiting, self._n_waiting = self._waiting[:, : self._n_waiting], 0
            self._Q = add_product(self._Q, waiting * self._factors[: waiting.shape[1]], waiting)
            self._renew()
        return self._Q

    def _renew(self) -> None:
        """All that follows from Q and the labels, afresh: Q's diagonal, Qy, U = QZ, A = ZᵀQZ, b = ZᵀQy."""
        self.diagonal = self._Q.diagonal().copy()
        self.Z = self.loadings[self.labels] + self.fixed.loadings
        self.Qy, self.U = self._Q @ self.y, self._Q @ self.Z
        self._renew_means()

    def _renew_means(self) -> None:
        self.A = self.fixed.A + self.Z.T @ self.U
        self.b = self.fixed.b + self.Z.T @ self.Qy

    def part(self, rows: NDArray[np.intp], labels: Labels) -> tuple[Support, Array]:
        """Some readings of the GP as a model of their own, given the others; and their covariance given the others."""
        K = factorise(self.Q[np.ix_(rows, rows)], np.zeros(len(rows))).inverse()
        noise, U = self.clean_noise[rows], self.U[rows]
        rest = np.delete(self.labels, rows)
        fixed = _FixedLabels(
            values=self.y[rows],
            loadings=K @ U - self.loadings[self.labels[rows]],
            A=self.A - U.T @ K @ U,
            b=self.b - U.T @ K @ self.Qy[rows],
            counts=self.slab.counts(rest),
            n=len(rest),
            inside=int(self.inside.sum()) - len(rows),
        )
        C = K - np.diag(noise + self.added[self.labels[rows]])
        part = Support(C, K @ self.Qy[rows], noise, self.slab, labels, fixed)
        return part.holding(None if self.verdict is None else self.verdict[rows]), K

    def posterior_of_means(self) -> tuple[Array, Array]:
        """Mean and covariance of the group means given all readings."""
        covariance = np.asarray(np.linalg.inv(self.A + np.diag(self.slab.prior_precision)))
        return covariance @ self.b, covariance

    def standardised_residuals(self) -> Array:
        """Leave-one-out residuals of the clean readings, in their standard deviations."""
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
        """log p(y, labels): the group means and the share of outliers integrated out.

        That is but for a constant, the chance that there are outliers at all.
        """
        return _log_evidence(self.y, self.slab, self.labels, (self.logdet, self.Qy), (self.A, self.b))

    def log_volume(self) -> float:
        """What all other labels add to log p(y, labels), were those in doubt independent: −Σ log p(labelᵢ | others)."""
        weights = self.log_weights()
        own = weights[np.arange(len(weights)), self.labels]
        return float((logsumexp(weights, axis=1) - own).sum())

    def log_weights(self, rows: Rows = EVERYTHING) -> Array:
        """log p(yᵢ, labelᵢ = c | the others), for these readings and every label; shape (rows, groups + 1).

        −∞ for labels that verdicts do not allow.
        """
        weights = self.free_log_weights(rows)
        if self.verdict is not None:
            weights[self.barred(rows)] = -np.inf
        return weights

    def free_log_weights(self, rows: Rows = EVERYTHING) -> Array:
        """The same, as if there were no verdict on these readings."""
        residual, variance = self._left_out(rows)
        values = self.fixed.values[rows]
        return self.slab.log_joint(values, values[:, None] - residual, variance, self.label_prior(rows))

    def log_odds_against_verdict(self) -> Array | None:
        """Of each reading given the others; NaN where nothing was said of it, None without any verdict."""
        if self.verdict is None:
            return None
        weights = self.free_log_weights()
        return np.asarray((1.0 - 2.0 * self.verdict) * (logsumexp(weights[:, 1:], axis=1) - weights[:, 0]))

    def _left_out(self, rows: Rows) -> tuple[Array, Array]:
        """Residual of each reading given the others, and its variance, from f and the group mean of each label.

        Leaving i out: fᵢ given the others and the means m is N(aᵢ − cᵢᵀm, vᵢ), and m given the others is Gaussian with
        A and b less i's contribution. A reading that is not in the GP is predicted by all that are.
        """
        inside, labels, noise, U = self.inside[rows], self.labels[rows], self.clean_noise[rows], self.U[rows]
        Qii = np.where(inside, self.diagonal[rows], 1.0)
        residual, v = self.Qy[rows] / Qii, 1.0 / Qii - noise - self.added[labels]
        if not inside.all():
            outside = np.arange(len(self.y))[rows][~inside]
            residual[~inside] = self.y[outside] - self.C[outside] @ self.Qy
            v[~inside] = self.C.diagonal()[outside] - self.explained(outside)
        # The covariance of m without i is S after another rank-one update: S + Su(Su)ᵀ/(Qᵢᵢ − uᵀSu).
        means, S = self.posterior_of_means()
        V, SV, each = U.T, S @ U.T, self.loadings.T
        remaining = np.maximum(Qii - np.einsum("gn,gn->n", V, SV), _POLICY.rounding * Qii)
        # Groups × labels × readings: long sums come last.
        loading = each[:, :, None] - (np.take(each, labels, axis=1) - V / Qii)[:, None]
        along = np.einsum("gln,gn->ln", loading, SV)
        expected = np.einsum("g,gln->ln", means, loading) - along * ((self.Qy[rows] - U @ means) / remaining)
        spread = np.einsum("gln,gh,hln->ln", loading, S, loading) + along**2 / remaining
        return (residual - expected).T, (np.maximum(v, 0.0) + noise + spread).T

    def explained(self, outside: NDArray[np.intp]) -> Array:
        """Variance of f at readings outside the GP that those inside explain; kept up to date from then on."""
        new = outside[np.isnan(self._explained[outside])]
        if len(new):
            cross = self.C[new]
            self._explained[new] = np.einsum("ij,ij->i", cross @ self.Q, cross)
        return self._explained[outside]

    def label_prior(self, rows: Rows = EVERYTHING) -> Array:
        """p(labelᵢ = c | the other labels), with the shares integrated out."""
        own = self.labels[rows][:, None] == np.arange(1, self.slab.n_groups + 1)
        counts = self.fixed.counts + self.slab.counts(self.labels) - own
        return PRIOR.label(counts, len(self.y) + self.fixed.n)

    def move(self, i: int, label: int) -> None:
        """Give reading i another label: a rank-one update of Q."""
        if label == self.labels[i] or (label and not self._can_take_out()):
            return
        if self.slab.replaced:
            self._take_out(i) if label else self._put_back(i)
            self.labels[i] = label
            self._renew()
        else:
            self._relabel(i, label)

    def _can_take_out(self) -> bool:
        """Whether enough readings stay in the GP without one of them; shifted readings do not leave it."""
        return not self.slab.replaced or int(self.inside.sum()) + self.fixed.inside > _POLICY.min_inside

    def _relabel(self, i: int, label: int) -> None:
        """Another noise for i, and another mean; Q itself is updated once several such moves wait."""
        waiting = self._waiting[:, : self._n_waiting]
        q = self._Q[i] + waiting @ (self._factors[: self._n_waiting] * waiting[i])
        before, after = self.clean_noise[i] + self.added[self.labels[i]], self.clean_noise[i] + self.added[label]
        change = after - before
        # The ratio of i's variances given the others: between 1 and the ratio of its noises, except for rounding.
        shrink = max(1.0 + change * q[i], min(1.0, after / before))
        factor = -change / shrink
        turn = self.loadings[label] - self.loadings[self.labels[i]]
        self.logdet += float(np.log(shrink))
        self.diagonal += factor * q**2
        self.Qy += factor * self.Qy[i] * q
        self.U += np.outer(q, factor * self.U[i] + (1.0 + factor * q[i]) * turn)
        self.Z[i] += turn
        self.labels[i] = label
        self._renew_means()
        self._waiting[:, self._n_waiting], self._factors[self._n_waiting] = q, factor
        self._n_waiting += 1
        if self._n_waiting == _POLICY.batch:
            _ = self.Q

    def _take_out(self, i: int) -> None:
        q = self._Q[i].copy()
        self._add_outer(-1.0 / q[i], q)
        self._Q[i], self._Q[:, i] = 0.0, 0.0
        self.logdet += float(np.log(q[i]))

    def _put_back(self, i: int) -> None:
        border = self._Q @ self.C[i]
        # At least the noise, except for rounding.
        pivot = max(float(self.C[i, i] + self.clean_noise[i] - self.C[i] @ border), float(self.clean_noise[i]))
        border[i] = -1.0
        self._add_outer(1.0 / pivot, border)
        self._explained[i] = np.nan
        self.logdet += float(np.log(pivot))

    def _add_outer(self, factor: float, v: Array) -> None:
        """factor·vvᵀ is added to Q, and to what it explains of the readings outside."""
        self._Q = add_outer(self._Q, factor, v)
        known = np.flatnonzero(~np.isnan(self._explained))
        self._explained[known] += factor * (self.C[known] @ v) ** 2

    def sweep(
        self,
        order: NDArray[np.intp],
        rng: np.random.Generator,
        temperature: float = 1.0,
        weights: Array | None = None,
    ) -> int:
        """Draw the label of one reading after another given all the others; returns how many changed.

        Odds are taken to the power 1/temperature. `weights` are the log weights of all readings, if they are known.
        """
        gumbel_noise = rng.gumbel(size=(len(order), self.slab.n_groups + 1))
        known = self.log_weights() if weights is None else weights
        at = moves = 0
        while at < len(order):
            # What is drawn for the next readings holds until one of them changes.
            ahead = order[at : at + _POLICY.ahead] if moves else order
            ahead_weights = self.log_weights(ahead) if moves else known[order]
            drawn = (ahead_weights / temperature + gumbel_noise[at : at + len(ahead)]).argmax(axis=1)
            changed = np.flatnonzero(drawn != self.labels[ahead])
            if len(changed):
                first = int(changed[0])
                self.move(int(ahead[first]), int(drawn[first]))
                at, moves = at + first + 1, moves + 1
            else:
                at += len(ahead)
        return moves

    def climb(self, max_moves: int | None = None) -> int:
        """Make the best single move until none raises p(y, labels); returns the number of moves made.

        At most max_moves, by default one per reading.
        """
        limit, everyone = len(self.y) if max_moves is None else max_moves, np.arange(len(self.y))
        for moves in range(limit):
            weights = self.log_weights()
            best = weights.argmax(axis=1)
            gain = weights[everyone, best] - weights[everyone, self.labels]
            i = int(gain.argmax())
            if gain[i] <= _POLICY.min_gain or not self._can_take_out():
                return moves
            self.move(i, int(best[i]))
        return limit
