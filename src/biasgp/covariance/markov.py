"""The exact engine for time: O(N) time and memory, for one input and kernels that have a state-space form.

The readings are put in order of time; a Kalman filter and its adjoint (`markov_passes.py`) then give the likelihood,
its gradient, K⁻¹y, the diagonal of K⁻¹, and f at any time. Other inputs may be in the kernel by linear functions of
them, whose coefficients are part of the state. A reading with infinite noise is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array, Mask
from biasgp.covariance.markov_passes import COMPILED, Gaps, passes
from biasgp.covariance.posterior import PartialPosterior
from biasgp.covariance.protocol import Density
from biasgp.kernels import Kernel
from biasgp.kernels.state_space import StateSpace

Index = NDArray[np.intp]
PIECE = 4096
"""Readings at a time whose A and Q are in memory: those of three numbers per state then stay in a core's cache. As many
different gaps, in a record of any length, are kept in one table."""

_KEPT_MOVES = 2**20
"""Numbers of A, and of Q, that are kept from the pass forward to the pass backward: 8 MB each."""
_MEMORY_STEP = 64
"""Readings between two looks at how much of a state is left."""


def state_space_of(kernel: Kernel, X: Array) -> StateSpace:
    """The kernel's state-space form, or an error that says what to do."""
    form = kernel.state_space(X.shape[1])
    if form is None:
        raise ValueError(
            f"approximation='state-space' needs a kernel of one input that is a finite state, and {kernel!r} has none. "
            "These have: Exponential, Matern32, Matern52, Periodic, Constant and Linear of one column, their sums and "
            "products, and Linear of other columns in a sum. Instead of SquaredExponential take Matern52, which is "
            "nearly as smooth; several inputs need approximation='vecchia'."
        )
    return form


def is_markov(kernel: Kernel, X: Array) -> bool:
    """Whether the engine is exact for this kernel, and compiled."""
    form = kernel.state_space(X.shape[1])
    return COMPILED and form is not None and form.accuracy == 0.0


class _Piece(NamedTuple):
    """Consecutive readings: the gap before each of them is lengths[which]."""

    rows: slice
    lengths: Array
    which: Index


class _Timeline:
    """Readings in order of time, and the gaps between them."""

    def __init__(self, times: Array) -> None:
        in_order = bool((np.diff(times) >= 0.0).all())
        # A slice where nothing moves, so that nothing is copied.
        self.order: Index | slice = slice(None) if in_order else np.argsort(times, kind="stable")
        self.times = self.in_order(times)
        gaps = np.diff(self.times, prepend=self.times[:1])
        lengths = np.unique(gaps[: 2 * PIECE])
        if len(lengths) <= PIECE:
            lengths = np.unique(gaps)
        if len(lengths) <= PIECE:
            self.pieces = [_Piece(slice(0, len(gaps)), lengths, np.searchsorted(lengths, gaps))]
        else:
            cuts = range(0, len(gaps), PIECE)
            rows = [slice(start, min(start + PIECE, len(gaps))) for start in cuts]
            self.pieces = [_Piece(part, gaps[part], np.arange(part.stop - part.start)) for part in rows]

    def in_order(self, values: Array) -> Array:
        """Values of the rows of X, in order of time, as compiled code takes them."""
        return np.require(values[self.order], requirements=["C", "W"])

    def in_rows(self, values: Array) -> Array:
        """Values in order of time, in the order of the rows of X."""
        if isinstance(self.order, slice):
            return values
        back = np.empty_like(values)
        back[self.order] = values
        return back

    def moves(self, form: StateSpace, piece: _Piece) -> Gaps:
        """A and Q of a piece's gaps."""
        A, Q = form.move(piece.lengths)
        return Gaps(piece.which, piece.lengths, np.ascontiguousarray(A), np.ascontiguousarray(Q))


class MarkovEngine:
    """The engine for inputs X, whose column of time the kernel names."""

    def __init__(self, kernel: Kernel, X: Array) -> None:
        self.X = X
        self.column = state_space_of(kernel, X).column

    @cached_property
    def timeline(self) -> _Timeline:
        return _Timeline(np.zeros(len(self.X)) if self.column is None else self.X[:, self.column])

    def covariance(self, kernel: Kernel, noise: Array) -> MarkovCovariance:
        return MarkovCovariance(self, kernel, noise)


class _Found(NamedTuple):
    """Of each reading, in order of time: (K⁻¹y)ᵢ, (K⁻¹)ᵢᵢ, and mean and variance of f given all others, or no rows."""

    alpha: Array
    precision: Array
    mean: Array
    variance: Array


class _Filtered(NamedTuple):
    """Of each reading, in order of time: mean and covariance of the state before it, its residual and its variance."""

    mean: Array
    covariance: Array
    residual: Array
    spread: Array


class _Adjoint(NamedTuple):
    """r and N of the state before each reading (see `markov_passes`)."""

    r: Array
    N: Array


class MarkovCovariance:
    """K at fixed parameters."""

    jitter = 0.0

    def __init__(self, engine: MarkovEngine, kernel: Kernel, noise: Array) -> None:
        self.engine, self.kernel, self.noise = engine, kernel, noise
        self.form = state_space_of(kernel, engine.X)
        self._passes = passes(self.form.size)
        self._timeline = engine.timeline
        self._moves: dict[int, Gaps] = {}

    @cached_property
    def _ordered(self) -> tuple[Array, Array]:
        """Noise and h of each reading, in order of time."""
        line = self._timeline
        return line.in_order(self.noise), np.ascontiguousarray(self.form.observe(self.engine.X[line.order]))

    def _pieces(self, y: Array, *, backwards: bool = False) -> Iterator[tuple[_Piece, tuple[Array, ...], Gaps]]:
        """Each piece of the record with its readings (values, noise, h) and gaps."""
        noise, h = self._ordered
        for piece in self._timeline.pieces[:: -1 if backwards else 1]:
            yield piece, (y[piece.rows], noise[piece.rows], h[piece.rows]), self._moves_in(piece)

    def _moves_in(self, piece: _Piece) -> Gaps:
        """A and Q of a piece's gaps, kept from one pass to the next as long as they are few."""
        start = piece.rows.start
        if start in self._moves:
            return self._moves[start]
        gaps = self._timeline.moves(self.form, piece)
        if (len(self._moves) + 1) * PIECE * self.form.size**2 <= _KEPT_MOVES:
            self._moves[start] = gaps
        return gaps

    def filtered(self, y: Array) -> tuple[float, _Filtered]:
        """−log p(y) without its constant, and the pass forward; y in order of time."""
        n, size = len(y), self.form.size
        found = _Filtered(np.empty((n, size)), np.empty((n, size, size)), np.empty(n), np.empty(n))
        state, value = (np.zeros(size), self.form.prior.copy()), 0.0
        for piece, readings, gaps in self._pieces(y):
            value += self._passes.forward(readings, gaps, state, tuple(part[piece.rows] for part in found))
        return value, found

    def state_after(self, y: Array) -> tuple[Array, Array]:
        """Mean and covariance of the state after the last reading; y in the order of the rows of X."""
        noise, h = self._ordered
        _, before = self.filtered(self._timeline.in_order(y))
        mean, covariance = before.mean[-1], before.covariance[-1]
        if not np.isfinite(noise[-1]):
            return mean, covariance
        gain = covariance @ h[-1] / before.spread[-1]
        kept = np.eye(self.form.size) - np.outer(gain, h[-1])
        after = kept @ covariance @ kept.T + noise[-1] * np.outer(gain, gain)
        return mean + gain * before.residual[-1], 0.5 * (after + after.T)

    def smoothed(self, y: Array) -> _Found:
        """Both passes; y in order of time."""
        return self._backward(y, self.filtered(y)[1], gradient=False)[0]

    def adjoint(self, y: Array, filtered: _Filtered) -> _Adjoint:
        """The pass backward, for a pass forward."""
        copied = filtered._replace(residual=filtered.residual.copy(), spread=filtered.spread.copy())
        kept = _Adjoint(np.empty_like(filtered.mean), np.empty_like(filtered.covariance))
        self._backward(y, copied, gradient=False, kept=kept)
        return kept

    def _backward(
        self, y: Array, filtered: _Filtered, *, gradient: bool, kept: _Adjoint | None = None
    ) -> tuple[_Found, Array]:
        """What is found takes the place of `filtered`'s residual and spread: a million readings are 8 MB each time."""
        n, size = len(y), self.form.size
        without = np.empty((2, 0 if gradient else n))
        found = _Found(filtered.residual, filtered.spread, *without)
        nowhere = (np.empty((0, size)), np.empty((0, size, size)))
        state, by_theta = (np.zeros(size), np.zeros((size, size))), np.zeros(len(self.kernel.theta))
        nothing = np.zeros((size, size))
        for piece, readings, gaps in self._pieces(y, backwards=True):
            by_F, by_Q = np.zeros((size, size)), np.zeros(gaps.A.shape if gradient else (0, size, size))
            before, after = (tuple(part[piece.rows] for part in each) for each in (filtered, found))
            own = nowhere if kept is None else tuple(part[piece.rows] for part in kept)
            self._passes.backward(readings, gaps, state, before, (after, (by_F, by_Q), own))
            if gradient:
                by_theta += self.form.pull(piece.lengths, by_F, by_Q, nothing)
        if gradient:
            r, N = state
            by_prior = 0.5 * (np.outer(r, r) - N)
            by_theta += self.form.pull(np.zeros(0), nothing, np.zeros((0, size, size)), by_prior)
        return found, by_theta

    def leave_one_out(self, y: Array) -> tuple[Array, Array]:
        """Mean and variance of f at each row of X given the readings at all others."""
        found = self.smoothed(self._timeline.in_order(y))
        return self._timeline.in_rows(found.mean), np.maximum(self._timeline.in_rows(found.variance), 0.0)

    def solve(self, b: Array) -> Array:
        if b.ndim > 1:
            return np.column_stack([self.solve(column) for column in b.T])
        return self._timeline.in_rows(self.smoothed(self._timeline.in_order(b)).alpha)

    @cached_property
    def _diagonal(self) -> Array:
        return self._timeline.in_rows(self.smoothed(np.zeros(len(self.noise))).precision)

    def inverse_diagonal(self) -> Array:
        return self._diagonal

    def negative_log_density(self, residual: Array, *, each_noise: bool = False) -> Density:
        """−log N(residual; 0, K) and its gradient."""
        y = self._timeline.in_order(residual)
        value, filtered = self.filtered(y)
        found, by_theta = self._backward(y, filtered, gradient=True)
        whole = float(value + 0.5 * np.isfinite(self.noise).sum() * np.log(2.0 * np.pi))
        if each_noise:
            return Density(whole, -by_theta, self._timeline.in_rows(0.5 * (found.precision - found.alpha**2)))
        return Density(whole, -by_theta, np.array([0.5 * (found.precision.sum() - found.alpha @ found.alpha)]))

    def _times_C(self, v: Array) -> Array:
        """C(θ)v."""
        ordered, out = self._timeline.in_order(v), np.zeros(len(v))
        for backwards in (False, True):
            state = np.zeros(self.form.size)
            for piece, (values, _, h), gaps in self._pieces(ordered, backwards=backwards):
                sweep = self._passes.collect_backward if backwards else self._passes.collect
                sweep((values, h), gaps, self.form.prior, state, out[piece.rows])
        return self._timeline.in_rows(out)

    def clamped_solve(self, y: Array, alpha: Array, free: Mask) -> tuple[Array, Array]:
        """The free readings alone determine their α, once what the held ones add to y there is taken off."""
        held = np.where(free, 0.0, alpha)
        alone = MarkovCovariance(self.engine, self.kernel, np.where(free, self.noise, np.inf))
        found = np.where(free, alone.solve(y - self._times_C(held)), alpha)
        delta = y - self._times_C(found) - self.noise * found
        return found, np.where(free, 0.0, delta)

    def memory(self, y: Array, left: float) -> int:
        """Readings after which no more than a share `left` of a state before them counts, at these gains and gaps.

        Where the record is too short to see that, the decay that it shows is taken to go on.
        """
        line, (_, h) = self._timeline, self._ordered
        _, before = self.filtered(line.in_order(y))
        gains = np.einsum("nij,nj->ni", before.covariance, h) / before.spread[:, None]
        gaps, scale = np.diff(line.times, append=line.times[-1:]), np.sqrt(self.form.prior.diagonal())
        vectors, first, done, remains = np.diag(scale), len(y) // 2, 0, 1.0
        step = min(_MEMORY_STEP, len(y) - first - 1)
        while remains > left and 0 < step < len(y) - first - done:
            at = first + done
            A = np.ascontiguousarray(self.form.move(gaps[at : at + step])[0])
            self._passes.carry(vectors, A, gains[at + 1 : at + step + 1], h[at + 1 : at + step + 1])
            remains, done = float(np.abs(vectors / scale).max()), done + step
        if remains <= left:
            return done
        return int(np.ceil(max(done, 1) * np.log(left) / np.log(min(remains, 1.0 - np.finfo(float).eps))))

    def posterior(self, residual: Array) -> MarkovPosterior:
        return MarkovPosterior(self.kernel, self.engine.X, residual, self.noise)


class TimeSurroundings:
    """The readings before and after each reading, for predictions of each without itself."""

    def __init__(self, kernel: Kernel, X: Array) -> None:
        self.engine = MarkovEngine(kernel, X)

    @cached_property
    def nearest(self) -> Index:
        """Of each reading, the nearest other in time."""
        line, n = self.engine.timeline, len(self.engine.X)
        gaps = np.diff(line.times, prepend=-np.inf, append=np.inf)
        beside = np.arange(n) + np.where(gaps[:-1] <= gaps[1:], -1, 1)
        rows = np.arange(n)[line.order]
        found = np.empty(n, dtype=np.intp)
        found[line.order] = rows[np.clip(beside, 0, n - 1)]
        return found

    def leave_one_out(self, kernel: Kernel, y: Array, noise: Array, usable: Mask) -> tuple[Array, Array]:
        """Mean and variance of f at each reading given the usable others."""
        return self.engine.covariance(kernel, np.where(usable, noise, np.inf)).leave_one_out(y)


class _States(NamedTuple):
    """What predictions are made from, in order of time: the state after each reading given those up to it, and the
    adjoint of the state before it."""

    times: Array
    mean: Array
    covariance: Array
    adjoint: _Adjoint
    gains: Array


@dataclass(frozen=True)
class MarkovPosterior:
    """f at any time given the readings before and after it; `residual` is y − δ.

    `kept` says which readings of the fit these are, where some were dropped.
    """

    kernel: Kernel
    X: Array
    residual: Array
    noise: Array
    kept: Mask | None = None
    jitter: float = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @cached_property
    def _covariance(self) -> MarkovCovariance:
        return MarkovEngine(self.kernel, self.X).covariance(self.kernel, self.noise)

    @cached_property
    def _states(self) -> _States:
        K = self._covariance
        line, (noise, h) = K._timeline, K._ordered
        y = line.in_order(self.residual)
        _, before = K.filtered(y)
        adjoint = K.adjoint(y, before)
        gain = np.einsum("nij,nj->ni", before.covariance, h) / before.spread[:, None]
        kept = np.eye(K.form.size) - np.einsum("ni,nj->nij", gain, h)
        after = kept @ before.covariance @ kept.swapaxes(1, 2)
        there = np.isfinite(noise)
        after += np.where(there, noise, 0.0)[:, None, None] * np.einsum("ni,nj->nij", gain, gain)
        return _States(line.times, before.mean + gain * before.residual[:, None], after, adjoint, gain)

    def _around(self, X: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Of points X: h; mean and covariance of the state given the readings up to there; r and N there."""
        form, states = self._covariance.form, self._states
        n, size = len(states.times), form.size
        times = np.zeros(len(X)) if form.column is None else X[:, form.column]
        last = np.searchsorted(states.times, times, side="right") - 1
        mean, covariance = np.zeros((len(X), size)), np.tile(form.prior, (len(X), 1, 1))
        old = last >= 0
        A, Q = form.move(times[old] - states.times[last[old]])
        mean[old] = np.einsum("nij,nj->ni", A, states.mean[last[old]])
        covariance[old] = A @ states.covariance[last[old]] @ A.swapaxes(1, 2) + Q
        r, N = np.zeros((len(X), size)), np.zeros((len(X), size, size))
        new = last + 1 < n
        following = last[new] + 1
        A, _ = form.move(states.times[following] - times[new])
        r[new] = np.einsum("nji,nj->ni", A, states.adjoint.r[following])
        N[new] = A.swapaxes(1, 2) @ states.adjoint.N[following] @ A
        return form.observe(X), mean, covariance, r, N

    def mean(self, X: Array) -> Array:
        return self.mean_and_variance(X)[0]

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for start in range(0, len(X), PIECE):
            rows = slice(start, start + PIECE)
            h, m, P, r, N = self._around(X[rows])
            w = np.einsum("nij,nj->ni", P, h)
            mean[rows] = np.einsum("ni,ni->n", h, m) + np.einsum("ni,ni->n", w, r)
            variance[rows] = np.einsum("ni,ni->n", h, w) - np.einsum("ni,nij,nj->n", w, N, w)
        return mean, np.maximum(variance, 0.0)

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """E f and the full Cov f: what the state at one point tells of f, carried on through gaps and readings."""
        K, states = self._covariance, self._states
        column, (_, h_of) = K.form.column, K._ordered
        times = np.zeros(len(X)) if column is None else X[:, column]
        order = np.argsort(times, kind="stable")
        times, (h, m, P, r, N) = times[order], self._around(X[order])
        w = np.einsum("nij,nj->ni", P, h)
        ahead = h - np.einsum("nij,nj->ni", N, w)  # what later readings leave of it
        last = np.searchsorted(states.times, times, side="right")
        covariance, carried = np.empty((len(X), len(X))), np.zeros((0, K.form.size))
        for b in range(len(X)):
            if b:
                between = slice(last[b - 1], last[b])
                path = np.concatenate([times[b - 1 : b], states.times[between], times[b : b + 1]])
                carried = self._carried(carried, np.diff(path), states.gains[between], h_of[between])
            carried = np.vstack([carried, w[b]])
            covariance[order[: b + 1], order[b]] = covariance[order[b], order[: b + 1]] = carried @ ahead[b]
        mean = np.empty(len(X))
        mean[order] = np.einsum("ni,ni->n", h, m) + np.einsum("ni,ni->n", w, r)
        return mean, covariance

    def _carried(self, vectors: Array, gaps: Array, gains: Array, h: Array) -> Array:
        """Vectors (k, s) through gaps and, after each but the last, a reading; zero once nothing is left of them."""
        form, start = self._covariance.form, np.abs(vectors).max()
        for first in range(0, len(gaps), PIECE):
            rows = slice(first, first + PIECE)
            moved = form.move(gaps[rows])[0]
            self._covariance._passes.carry(vectors, np.ascontiguousarray(moved), gains[rows], h[rows])
            if np.abs(vectors).max() <= np.finfo(float).eps ** 2 * start:
                return np.zeros_like(vectors)
        return vectors

    def leave_one_out(self) -> tuple[Array, Array]:
        if self.kept is not None:
            return PartialPosterior(replace(self, kept=None), self.kept).leave_one_out()
        return self._covariance.leave_one_out(self.residual)
