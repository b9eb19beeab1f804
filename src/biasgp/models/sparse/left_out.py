"""What the others say of each reading: what was to be expected there, and the odds that it is biased.

At the best labels, episodes and parameters of a fit, which are held. With K = C + noise + TTᵀ the covariance of the
readings, where T has a column for every bias that several readings share (episodes, group means), and P = K⁻¹, all
readings are left out at once: (Py)ᵢ/Pᵢᵢ is the residual of reading i, 1/Pᵢᵢ its variance, and what is known of the
shared biases without it follows from PT.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit, logsumexp

from biasgp._typing import Array, Mask
from biasgp.models.episodes import Episode, Ordering, Run
from biasgp.models.problem import Problem
from biasgp.models.sparse.kinds import PRIOR, Group, Slab
from biasgp.models.sparse.labels import Support
from biasgp.models.sparse.search import Search, SparseBiasFit, State
from biasgp.models.varying_noise import LEAST_BIAS, Residuals

NEAREST = 60
"""Readings by which one is explained among many: others add next to nothing to what these say."""


@dataclass(frozen=True)
class _LogOdds:
    """Of readings given the others: mean and variance of f, and log densities of what was read, if good and if bad.

    `prior` are the log odds before it was read, by the share of the other readings that have a bias. A reading in an
    episode stands or falls with it.
    """

    mean: Array
    variance: Array
    prior: Array
    if_good: Array
    if_bad: Array

    @property
    def log_odds(self) -> Array:
        """That a reading is bad."""
        return np.asarray(self.prior + self.if_bad - self.if_good)

    def in_episodes(self, episodes: Iterable[Episode]) -> _LogOdds:
        """The same, where the odds of readings in episodes are those of these."""
        prior, if_bad = self.prior.copy(), self.if_bad.copy()
        for episode in episodes:
            rows = list(episode.rows)
            prior[rows], if_bad[rows] = episode.log_odds, self.if_good[rows]
        return replace(self, prior=prior, if_bad=if_bad)

    @classmethod
    def of(cls, moments: tuple[Array, Array], joint: Array, shares: Array) -> _LogOdds:
        """From f and from log p(reading, label) and p(label), a column for each label."""
        prior = np.log1p(-shares[:, 0]) - np.log(shares[:, 0])
        if_bad = logsumexp(joint[:, 1:], axis=1) - np.log1p(-shares[:, 0])
        return cls(*moments, prior, joint[:, 0] - np.log(shares[:, 0]), if_bad)


def left_out(problem: Problem, model: SparseBiasFit, ordering: Ordering | None, kept: Mask) -> LeftOut:
    """What the others say of each reading that a fit has kept."""
    known = model.known
    if known is None:
        assert model.given_others is not None
        noise = (model.noise_variance + problem.known)[kept]
        # Fits of earlier versions do not have the kind that was not seen.
        slab = model.slab if model.slab.unseen else Slab.of_groups(model.groups, model.slab.replaced)
        fitted = replace(problem[kept], kernel=model.kernel)
        return _ByNeighbours(fitted, noise, model.labels[kept] == 0, slab, *model.given_others[:, kept])
    runs, state = known.explanations[0]
    return Exact(problem[kept], state, runs, None if ordering is None or not runs else ordering.part(kept))


def residuals(problem: Problem, model: SparseBiasFit, ordering: Ordering | None) -> Residuals:
    """What the readings of an exact fit say about the noise.

    Biases are at least as large as the response varies: what is closer to f may as well be noise.
    """
    return residuals_of(exact(problem, model, ordering), model, LEAST_BIAS)


def exact(problem: Problem, model: SparseBiasFit, ordering: Ordering | None) -> Exact:
    """An exact fit to the readings that it has kept."""
    known = model.known
    assert known is not None
    kept = np.ones(len(problem), dtype=bool) if known.kept is None else known.kept
    runs, state = known.explanations[0]
    return Exact(problem[kept], state, runs, None if ordering is None or not runs else ordering.part(kept))


def residuals_of(left: Exact, model: SparseBiasFit, least_bias: float = 0.0) -> Residuals:
    """The same with biases of another least size."""
    mean, variance = left.as_clean()
    groups = [replace(group, variance=max(group.variance, least_bias**2)) for group in model.groups]
    slab, y = Slab.of_groups(groups, model.slab.replaced), left.problem.y
    joint = slab.log_predictive(y, mean, variance + left.noise)
    clean = float(np.log1p(-sum(slab.shares)))
    return Residuals(left.problem.X, y - mean, mean, variance, left.noise, logsumexp(joint[:, 1:], axis=1), clean)


def flags_and_levels(left: Exact) -> tuple[Array, Array, Mask]:
    """Of the readings outside episodes: the side of each outlier's bias (0 for others), what f is given the others, and
    whether the nearest reading of an outlier is one, too.

    Of outliers whose value was replaced there are none: they are not found where f has that value. And readings of
    which somebody has said what they are say nothing.
    """
    mean, _ = left.as_clean()
    outside = ~left.problem.shared.any(axis=1)  # type: ignore[union-attr]
    if left.verdict is not None:
        outside &= np.isnan(left.verdict)
    flagged = (left.state.labels > 0) & outside & (not left.slab.replaced)
    side = np.where(flagged, np.sign(left.problem.y - mean), 0.0)
    return side[outside], mean[outside], left._support.nearest_flagged(flagged)


class Exact:
    """An exact fit with its best labels and episodes: `state` and `runs` of readings in some order."""

    def __init__(self, problem: Problem, state: State, runs: tuple[Run, ...] = (), ordering: Ordering | None = None):
        shared = np.zeros((len(problem), 0)) if ordering is None else ordering.scaled_columns(runs)
        self.problem = replace(problem, shared=shared, verdict=None, labelled=True)
        self.verdict, self.state, self.slab = problem.verdict, state, state.slab
        self.noise = np.exp(state.x[-1]) + problem.known
        means = np.sqrt(self.slab.mean_variance) * self.slab.loadings
        self.T = np.column_stack([shared, means[state.labels]])
        self.by_label = np.column_stack([np.zeros((len(means), shared.shape[1])), means])
        """The row of T that a reading outside episodes has by each label."""

    @cached_property
    def _support(self) -> Support:
        return Search(self.problem).support(self.state)

    @cached_property
    def P(self) -> Array:
        """Zero for readings that were replaced, which are not in the GP."""
        _, covariance = self._support.posterior_of_means()
        return np.asarray(self._support.Q - self._support.U @ covariance @ self._support.U.T)

    @cached_property
    def C(self) -> Array:
        return self.problem.kernel.with_theta(self.state.x[:-1])(self.problem.X)

    @cached_property
    def _CP(self) -> Array:
        return np.asarray(self.C @ self.P)

    @cached_property
    def _TP(self) -> Array:
        return np.asarray(self.T.T @ self.P)

    @cached_property
    def _Py(self) -> Array:
        return np.asarray(self.P @ self.problem.y)

    def as_clean(self) -> tuple[Array, Array]:
        """Mean and variance of f at each reading with the episodes that it is in, given the others."""
        turn = -self.T
        turn[:, : self.problem.shared.shape[1]] = 0.0  # type: ignore[union-attr]
        return self._given_others(turn)

    def all_odds(self) -> _LogOdds:
        """Of every reading, as if it were in no episode."""
        y, T = self.problem.y, self.T
        moments = [self._given_others(turn[None] - T) for turn in self.by_label]
        mean, variance = (np.column_stack(each) for each in zip(*moments, strict=True))
        joint = self.slab.log_joint(y, mean, variance + self.noise[:, None], self._support.label_prior())
        return _LogOdds.of((mean[:, 0], variance[:, 0]), joint, self._support.label_prior())

    def _given_others(self, turn: Array) -> tuple[Array, Array]:
        """Mean and variance of f + (T + turn)·b at each reading, b the shared biases, given the other readings."""
        y, P, T = self.problem.y, self.P, self.T
        inside = self._support.inside
        own, Py, W = np.where(inside, P.diagonal(), 1.0), self._Py, P @ T
        residual = Py / own
        b = T.T @ Py - W * residual[:, None]
        along = (turn * W).sum(axis=1)
        mean = y - residual + (turn * b).sum(axis=1)
        variance = 1.0 / own - self.noise - self.slab.added[self.state.labels] + 2.0 * along / own
        variance += (turn**2).sum(axis=1) - np.einsum("ij,jk,ik->i", turn, T.T @ W, turn) + along**2 / own
        if not inside.all():
            cross = self.C[~inside] + (T + turn)[~inside] @ T.T
            mean[~inside] = cross @ Py
            variance[~inside] = self.C.diagonal()[~inside] + ((T + turn)[~inside] ** 2).sum(axis=1)
            variance[~inside] -= np.einsum("ij,ij->i", cross @ P, cross)
        return mean, np.maximum(variance, 0.0)

    def sway(self, moves: Array, odds: _LogOdds, groups: Sequence[Group], free: Mask) -> Array:
        """How many labels of readings that are free would change, were f at another moved by so much: summed |Δp|.

        A move of f at i goes on to f at j by their covariance given all readings but i, and what is expected of j
        without its own reading moves by more, since that reading held it. Variances are those of now.
        """
        own, n = self.P.diagonal(), len(self.problem)
        inside = own > 0.0
        along = np.where(inside, self._CP / np.where(inside, own, 1.0), 0.0)
        if not inside.all():
            along[:, ~inside] = self.C[:, ~inside] - self._CP @ self.C[:, ~inside]
        spread = odds.variance + self.noise
        held = np.where(self.state.labels == 0, spread / self.noise, 1.0)
        rate = np.divide(moves, odds.variance, out=np.zeros(n), where=odds.variance > 0.0)
        shift = held[:, None] * along * rate
        off, log_odds = (self.problem.y - odds.mean)[:, None], odds.log_odds[:, None]
        change = ((off - shift) ** 2 - off**2) / (2.0 * spread[:, None])
        if not self.slab.replaced:
            # Towards the group that each reading would be of.
            means, added = (np.array([getattr(group, name) for group in groups]) for name in ("mean", "variance"))
            of = np.abs(off - means).argmin(axis=1)
            bias, wide = means[of][:, None], (spread + added[of])[:, None]
            change -= ((off - bias - shift) ** 2 - (off - bias) ** 2) / (2.0 * wide)
        moved = np.abs(expit(log_odds + change) - expit(log_odds))
        np.fill_diagonal(moved, 0.0)
        return np.asarray(moved[free].sum(axis=0))

    def without_each(self, i: int, odds: _LogOdds) -> Array:
        """The log odds of reading i, which is in no episode, without one more reading, for each of those.

        NaN for itself. `odds` are those of all readings.
        """
        P, y, n = self.P, self.problem.y, len(self.problem)
        rest = np.delete(np.arange(n), i)
        cross = np.array([self.C[i] + turn @ self.T.T for turn in self.by_label])
        prior = self.C[i, i] + np.array([turn @ turn for turn in self.by_label])
        # Products with the inverse without reading i, P - pᵢpᵢᵀ/Pᵢᵢ, from those with P, which are known for all i.
        products = np.vstack([self._CP[i] + self.by_label @ self._TP, self._Py])
        products -= np.outer([*cross[:, i], y[i]], P[i])
        own = P.diagonal()
        if P[i, i] > 0.0:
            products -= np.outer(products[:, i], P[i] / P[i, i])
            own = own - P[i] ** 2 / P[i, i]
        mean, variance = _without(cross[:, rest], prior, (products[:-1, rest], products[-1, rest], own[rest]), y[rest])
        labels = self.state.labels
        others = self.slab.counts(labels) - (labels[rest, None] == np.arange(1, self.slab.n_groups + 1))
        others -= labels[i] == np.arange(1, self.slab.n_groups + 1)
        joint = self.slab.log_joint(np.full(n - 1, y[i]), mean, variance + self.noise[i], PRIOR.label(others, n - 1))
        found = np.full(n, np.nan)
        found[rest] = _log_odds(joint)
        return found


def _log_odds(joint: Array) -> Array:
    """Of a bias, from log p(reading, label)."""
    return np.asarray(logsumexp(joint[:, 1:], axis=1) - joint[:, 0])


def _without(cross: Array, prior: Array, products: tuple[Array, Array, Array], y: Array) -> tuple[Array, Array]:
    """Means and variances of quantities whose covariances with readings y are the rows of `cross`, without each y.

    With M the inverse of the covariance of y, zero for readings that are not in the GP, `products` are cross M, M y and
    the diagonal of M; what is returned has shapes (len(y), quantities).
    """
    A, solved, own = products
    inverse = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0.0)
    mean = (A @ y)[:, None] - A * (solved * inverse)
    variance = (prior - np.einsum("ij,ij->i", A, cross))[:, None] + A**2 * inverse
    return mean.T, np.maximum(variance, 0.0).T


@dataclass(frozen=True)
class _ByNeighbours:
    """A fit to many readings: what is known of each without it, and the readings that f follows from."""

    problem: Problem
    noise: Array
    usable: Mask
    slab: Slab
    mean: Array
    variance: Array

    def all_odds(self) -> _LogOdds:
        """Of every reading."""
        shares = np.tile([1.0 - sum(self.slab.shares), *self.slab.shares], (len(self.noise), 1))
        joint = self.slab.log_predictive(self.problem.y, self.mean, self.variance + self.noise)
        return _LogOdds.of((self.mean, self.variance), joint, shares)

    def sway(self, moves: Array, odds: _LogOdds, groups: Sequence[Group], free: Mask) -> Array:
        """How many labels of others would change with f at each reading: among many readings, not found out."""
        return np.zeros(len(moves))

    def without_each(self, i: int, odds: _LogOdds) -> Array:
        """The log odds of reading i without one more reading, for its nearest; NaN for others."""
        kernel, X, y = self.problem.kernel, self.problem.X, self.problem.y
        there = np.flatnonzero(self.usable & (np.arange(len(y)) != i))
        near = there[np.argsort(-kernel(X[[i]], X[there])[0], kind="stable")[:NEAREST]]
        K = kernel(X[near]) + np.diag(self.noise[near])
        M = np.asarray(np.linalg.inv(K), dtype=np.float64)
        to = kernel(X[[i]], X[near])
        mean, variance = _without(to, kernel.diag(X[[i]]), (to @ M, M @ y[near], M.diagonal()), y[near])
        values, noise = np.full(len(near), y[i]), self.noise[i]
        joint = self.slab.log_predictive(values, mean[:, 0], variance[:, 0] + noise)
        cross = to[0]
        f, left = cross @ M @ y[near], kernel.diag(X[[i]]) - cross @ M @ cross
        whole = self.slab.log_predictive(values[:1], np.array([f]), np.maximum(left, 0.0) + noise)
        found = np.full(len(y), np.nan)
        # Beside what all of them say, which is known from more than these.
        found[near] = odds.log_odds[i] + _log_odds(joint) - _log_odds(whole)
        return found


LeftOut = Exact | _ByNeighbours
"""What the others say of each reading."""
LogOdds = _LogOdds
