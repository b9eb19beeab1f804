"""The log evidence of every possible episode at once, beside those that are there already.

With P the inverse of the covariance of the readings, an episode with the column u and the variance V raises the log
evidence by ½ b²/(A + 1/V) − ½ log(1 + VA), where A = uᵀPu and b = uᵀPy. For u = 1 on a run, A is a block sum of P and b
a partial sum of Py; for a ramp they are such sums with weights. Cumulative sums give them for all runs in O(N²), and
another episode in the covariance changes A of all of them by the squares of partial sums of one vector.

Arrays of runs have the first place for rows and the length for columns. They are gone through in blocks of rows that
stay in the cache: for many readings the whole of them would not, and memory would set the pace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from biasgp._typing import Array, Mask
from biasgp.models import erratic_scan
from biasgp.models.episodes import ERRATIC, RAMP, SHIFT, STEP, Ordering, Run
from biasgp.models.erratic_scan import ErraticRuns

LARGEST_VARIANCE = 1e6
"""Of an episode, in units of y's robust variance: no reading lies further out than its square root."""
LEAST_SIGNAL = 1e-6
"""The least of b²/A − 1 that gives an episode a variance: one that its readings no longer support has next to none."""
LEAST_WEIGHT = 9.0
"""Nats behind the best ends at which others no longer matter."""
MOST_RUNS = 400
"""Ends that are averaged over, at most: as many as two ends that are uncertain by twenty readings each have."""
ROUNDING = 1e-12
"""Share of the largest entry of P below which uᵀPu is rounding error."""
ROWS = 32
"""Of runs by their first place, whose sums are taken together: the columns that the last of them needs beside those of
the first are few."""
BLOCK = 16384
"""Runs that are looked at together: a handful of arrays of that many numbers stay in a cache of one megabyte."""


@dataclass(frozen=True)
class Ends:
    """What is known of one episode when its ends are averaged over, everything else held.

    `log_volume` is what that adds to its evidence; `probability` is that of being in it, `mean` what it adds to each
    reading, and the outer product of `spread` the covariance of that.
    """

    log_volume: float
    probability: Array
    mean: Array
    spread: Array


@dataclass(frozen=True)
class _Change:
    """Of α = K⁻¹(y − bias), of the matrix that explains the variance of f, and of mean and variance of the bias."""

    alpha: Array
    precision: Array
    bias: Array
    variance: Array


class _Squares:
    """A = uᵀPu of every run: of one kind when it is first asked for. Ramps have a slope of 1 here."""

    def __init__(self, ordering: Ordering, P: Array) -> None:
        self._ordering, self._P = ordering, P
        self._known: dict[str, Array] = {}

    def __getitem__(self, kind: str) -> Array:
        if kind not in self._known:
            self._known[kind] = self._of(kind, 0, self._ordering.n_places, self._ordering.lengths)
        return self._known[kind]

    def near(self, kind: str, rows: slice, lengths: NDArray[np.intp]) -> Array:
        """Those of runs that begin at a few places and have the shortest lengths."""
        if kind in self._known:
            return self._known[kind][rows, : len(lengths)].copy()
        stop = min(rows.stop + int(lengths[-1]), self._ordering.n_places)
        return self._of(kind, rows.start, stop, lengths)[: rows.stop - rows.start]

    @cached_property
    def _p(self) -> Array:
        """P between places, whose readings are added up, with rows that are contiguous in memory."""
        p = self._ordering.summed(self._ordering.summed(self._P).T)
        return p if p.flags.c_contiguous else p.T

    @cached_property
    def least(self) -> float:
        """What cannot be told from rounding error."""
        return ROUNDING * float(self._P.diagonal().max(initial=1.0))

    def _of(self, kind: str, first: int, stop: int, lengths: NDArray[np.intp]) -> Array:
        """Of the runs between two places.

        A run that is longer by the place j has 2 Σₐ pₐⱼ + pⱼⱼ more, a over the run before; a ramp has that with
        weights. The sums over a are known from the runs that begin one place later.
        """
        p, t = self._p[first:stop, first:stop], self._ordering.place[first:stop, None]
        start, own = self._ordering.before[first:stop, None], 0.5 * p.diagonal()
        n, shortest, longest = stop - first, int(lengths[0]), int(lengths[-1])
        A, sums = np.empty((n, len(lengths))), np.zeros((2, n))
        for begin in reversed(range(0, n, ROWS)):
            rows, width = slice(begin, min(begin + ROWS, n)), min(ROWS + longest, n - begin)
            columns = slice(begin, begin + width)
            more, square = p[rows, columns].copy(), slice(0, rows.stop - begin)
            more[:, square] = np.triu(more[:, square], 1)
            half = np.zeros((len(more), len(more) + longest))
            found = half[:, :width]
            if kind == SHIFT:
                np.add(own[columns], _summed_up(more, sums[0, columns]), out=found)
            else:
                found[:] = _summed_up(t[rows] * more, sums[1, columns])
                found -= start[rows] * _summed_up(more, sums[0, columns])
                height = t[columns, 0] - start[rows]
                found += height * own[columns]
                found *= height
            half[:, square] = np.triu(half[:, square])
            np.cumsum(half, axis=1, out=half)
            # Of each row, the lengths from its own place on.
            along, across = half.strides
            np.multiply(as_strided(half[:, shortest - 1 :], A[rows].shape, (along + across, across)), 2.0, out=A[rows])
        return A


def _summed_up(rows: Array, below: Array) -> Array:
    """Of each row, the sum of it and all rows below it, in its place; `below` has that of those that follow.

    It has that of these as well afterwards.
    """
    rows[-1] += below[: rows.shape[1]]
    np.cumsum(rows[::-1], axis=0, out=rows[::-1])
    below[: rows.shape[1]] = rows[0]
    return rows


def _slices(n: int, width: int) -> Iterator[slice]:
    """n rows of so many numbers in blocks."""
    step = max(BLOCK // max(width, 1), 1)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def _hankel(v: Array, n: int, lengths: NDArray[np.intp]) -> Array:
    """v[first + length] of n first places, where v has an entry for each place and one more; a view."""
    padded = np.append(v, np.full(int(lengths[-1]), v[-1]))
    (step,) = padded.strides
    return as_strided(padded[lengths[0] :], (n, len(lengths)), (step, step), writeable=False)


class _Partial:
    """Sums of a vector over every run of a kind; weighted along a ramp of slope 1."""

    def __init__(self, ordering: Ordering, values: Array) -> None:
        v = ordering.summed(values)
        m, lengths = ordering.n_places, ordering.lengths
        self._start = ordering.before[:, None]
        self._sums = [np.concatenate([[0.0], each.cumsum()]) for each in (v, ordering.place * v)]
        self._at_stop = [_hankel(each, m, lengths) for each in self._sums]

    def __call__(self, kind: str, rows: slice, columns: slice) -> Array:
        found = self._at_stop[0][rows, columns] - self._sums[0][rows, None]
        if kind == SHIFT:
            return np.asarray(found)
        found *= self._start[rows]
        along = self._at_stop[1][rows, columns] - self._sums[1][rows, None]
        along -= found
        return np.asarray(along)


class RunScan:
    """Every run of the kinds `kinds`, for readings y whose covariance has the inverse P.

    `log_evidence` is what the episodes that were added since have done to log N(y; 0, P⁻¹).
    """

    def __init__(self, ordering: Ordering, P: Array, Py: Array, kinds: tuple[str, ...] = (SHIFT, RAMP)) -> None:
        self.ordering, self.log_evidence = ordering, 0.0
        self.runs: tuple[Run, ...] = ()
        self._P, self._Py, self._added = P, Py, np.zeros((len(P), 0))
        ramps = ordering.lengths[-1] >= ordering.prior.shortest_ramp
        self._kinds = tuple(kind for kind in kinds if kind == SHIFT or ramps)
        self._squares, self._changes = _Squares(ordering, P), ()  # type: tuple[_Squares, tuple[_Partial, ...]]
        self._products = _Partial(ordering, Py)

    def _of_block(self, kind: str, rows: slice, columns: slice, squares: Array) -> tuple[Array, Array]:
        """A and b of some runs; `squares` are uᵀPu of these without the added episodes."""
        A = squares if not self._changes else squares.copy()
        for change in self._changes:
            along = change(kind, rows, columns)
            along *= along
            A -= along
        # One that is rounding error has no effect on anything.
        return np.maximum(A, self._squares.least), self._products(kind, rows, columns)

    def inverse(self) -> tuple[Array, Array]:
        """P and Py with the added episodes in the covariance."""
        return self._P - self._added @ self._added.T, self._Py.copy()

    def _times(self, u: Array) -> Array:
        """P·u."""
        return np.asarray(self._P @ u - self._added @ (self._added.T @ u))

    def with_run(self, run: Run) -> RunScan:
        """The same with another episode in the covariance."""
        if run.kind == ERRATIC:
            return self._with_erratic(run)
        u = self.ordering.columns([run])[:, 0]
        Pu = self._times(u)
        A, b = float(u @ Pu), float(u @ self._Py)
        shrink = 1.0 / (A + 1.0 / run.variance)
        found = copy(self)
        found.runs = (*self.runs, run)
        found.log_evidence = self.log_evidence + 0.5 * b**2 * shrink - 0.5 * float(np.log1p(run.variance * A))
        column = np.sqrt(shrink) * Pu
        found._added = np.column_stack([self._added, column])
        found._Py = self._Py - shrink * b * Pu
        found._changes = (*self._changes, _Partial(self.ordering, column))
        found._products = _Partial(self.ordering, found._Py)
        return found

    def _with_erratic(self, run: Run) -> RunScan:
        """Many columns at once change P as a whole."""
        (P, Py), U = self.inverse(), self.ordering.scaled_columns([run])
        PU, b = P @ U, U.T @ Py
        M = np.eye(U.shape[1]) + U.T @ PU
        found = RunScan(self.ordering, P - PU @ np.linalg.solve(M, PU.T), Py - PU @ np.linalg.solve(M, b), self._kinds)
        found.runs = (*self.runs, run)
        found.log_evidence = self.log_evidence + 0.5 * float(b @ np.linalg.solve(M, b) - np.linalg.slogdet(M)[1])
        return found

    def best_erratic(self, refund: Array) -> Run | None:
        """The erratic run that raises the log evidence most, if any pays; `refund` is what labels have cost."""
        gain, run = ErraticRuns(self.ordering, *self.inverse(), refund).best(self._longest_apart(), -self.price())
        return run if gain > -self.price() else None

    def with_runs(self, runs: Sequence[Run]) -> RunScan:
        """The same with these episodes, each with the variance of highest evidence beside those before it."""
        scan = self
        for run in runs:
            scan = scan.with_run(scan.with_best_variance(run))
        return scan

    def with_best_variance(self, run: Run) -> Run:
        """The run with the V of highest evidence."""
        if run.kind == ERRATIC:
            return erratic_scan.with_best_variance(run, *self._inside(run))
        u = self.ordering.columns([run])[:, 0]
        A, b = float(u @ self._times(u)), float(u @ self._Py)
        signal = max(b**2 / A - 1.0, LEAST_SIGNAL) / A if A > 0.0 else 0.0
        return replace(run, variance=min(max(signal, 1.0 / LARGEST_VARIANCE), LARGEST_VARIANCE))

    def statistic(self, kind: str) -> Array:
        """b²/A of every run of a kind. With V at its best, 1 + VA is this statistic, where it exceeds 1."""
        rows, columns = slice(0, self.ordering.n_places), slice(0, len(self.ordering.lengths))
        A, b = self._of_block(kind, rows, columns, self._squares[kind])
        return np.asarray(b**2 / A)

    def best(self, kinds: tuple[str, ...] = (SHIFT, RAMP), where: Mask | None = None) -> tuple[float, Run]:
        """The episode that raises the log evidence most, its price paid; among those of a mask of runs, if given.

        A sensor has one fault at a time: without a mask, episodes do not overlap.
        """
        longest = self._longest_apart() if where is None else self.ordering.longest
        shortest, cut = int(self.ordering.lengths[0]), longest < self.ordering.longest
        best, found = -np.inf, Run(SHIFT, 0, 0)
        for kind in kinds:
            for rows, columns in self._blocks(longest) if kind in self._kinds else ():
                if where is not None and not where[rows, columns].any():
                    continue
                s, bound = self._bounds_of_gain(kind, rows, columns)
                if where is not None:
                    bound[~where[rows, columns]] = -np.inf
                for i in np.flatnonzero(cut[rows]).tolist():
                    bound[i, max(int(longest[rows.start + i]) + 1 - shortest, 0) :] = -np.inf
                # The logarithm is taken of the few that may be the best.
                prior, top = self.ordering.log_prior[kind][rows, columns], divmod(int(bound.argmax()), bound.shape[1])
                if bound[top] > best:
                    least = max(best, float(_gain(s[top], prior[top])))
                    near = np.nonzero((bound >= least) & (bound > -np.inf))  # those that are ruled out stay so
                    gains = _gain(s[near], prior[near])
                    at = int(gains.argmax())
                    if gains[at] > best:
                        first = rows.start + int(near[0][at])
                        best, found = float(gains[at]), Run(kind, first, first + shortest + int(near[1][at]))
        return best + self.price(), self._with_variance(found) if best > -np.inf else found

    def _bounds_of_gain(self, kind: str, rows: slice, columns: slice) -> tuple[Array, Array]:
        """b²/A of some runs, and what their gains are less than, within rounding."""
        A, s = self._of_block(kind, rows, columns, self._squares[kind][rows, columns])
        s *= s
        s /= A
        bound = np.multiply(s, 0.5, out=A)
        bound += self.ordering.log_prior[kind][rows, columns]
        return s, bound

    def gain_of(self, run: Run) -> float:
        """What an episode would add to the log evidence, its price paid."""
        kind, at = _scanned(run.kind), run.stop - run.first - int(self.ordering.lengths[0])
        A, b = self._of(run)
        return float(_gain(np.array(b**2 / A), self.ordering.log_prior[kind][run.first, at])) + self.price()

    def _blocks(self, longest: NDArray[np.intp]) -> Iterator[tuple[slice, slice]]:
        """Rows and columns of runs at most so long, from each first place on, in blocks."""
        for rows in _slices(self.ordering.n_places, len(self.ordering.lengths)):
            width = int(longest[rows].max()) + 1 - int(self.ordering.lengths[0])
            if width > 0:
                yield rows, slice(0, width)

    def _with_variance(self, run: Run) -> Run:
        """A run as it was found, by the name of its kind and with its best variance."""
        A, b = self._of(run)
        V = max(b**2 / A - 1.0, LEAST_SIGNAL) / A
        kind = self.ordering.named(run.kind, run.first, run.stop)
        return replace(run, kind=kind, variance=min(V, LARGEST_VARIANCE))

    def _of(self, run: Run) -> tuple[float, float]:
        """A and b of a run."""
        u = self.ordering.columns([run])[:, 0]
        inside = np.flatnonzero(u)
        v = u[inside]
        A = float(v @ self._P[np.ix_(inside, inside)] @ v) - float(np.sum((self._added[inside].T @ v) ** 2))
        return max(A, self._squares.least), float(v @ self._Py[inside])

    def _inside(self, run: Run) -> tuple[Array, Array]:
        """P and Py of the readings of a run."""
        rows = self.ordering.rows_of(run)
        return self._P[np.ix_(rows, rows)] - self._added[rows] @ self._added[rows].T, self._Py[rows]

    def price(self) -> float:
        """What the rate of episodes costs for one more."""
        prior, n, count = self.ordering.prior, self.ordering.n, len(self.runs)
        return prior.log_count(count + 1, n) - prior.log_count(count, n)

    def ends(self, run: Run) -> Ends:
        """Where an episode begins and ends, given the other episodes in the covariance.

        All runs of its kind that share more than half of the readings of the longer of the two with it, weighted by
        evidence.
        """
        if run.kind == ERRATIC:
            volume, probability = ErraticRuns(self.ordering, *self.inverse()).around(run, self._longest_apart())
            return Ends(volume, probability, *self._amplitude(run))
        ordering, kind, size = self.ordering, _scanned(run.kind), run.stop - run.first
        # None of them is twice as long, so that they begin at most one length earlier.
        rows, columns = slice(max(run.first - size, 0), run.stop), slice(0, 2 * size - int(ordering.lengths[0]))
        length = ordering.lengths[columns]
        columns = slice(0, len(length))
        first = np.arange(rows.start, rows.stop)[:, None]
        A, b = self._of_block(kind, rows, columns, self._squares.near(kind, rows, length))
        gains = _gain(b**2 / A, ordering.log_prior[kind][rows, columns])
        own = float(gains[run.first - rows.start, size - length[0]])
        if ordering.verdict is not None:
            gains = np.where(ordering.covering(run)[rows, columns], gains, -np.inf)
        if own == -np.inf:
            # Its readings no longer support it, whatever its ends.
            return Ends(0.0, (ordering.columns([run]) > 0.0)[:, 0].astype(float), *self._amplitude(run))
        same = (length <= self._longest_apart()[rows, None]) & run.shares_most_with(first, first + length)
        gains = np.where(same, gains, -np.inf).ravel()
        likely = np.flatnonzero(gains > gains.max() - LEAST_WEIGHT)
        likely = likely[np.argsort(-gains[likely], kind="stable")[:MOST_RUNS]]
        weights = softmax(gains[likely])
        begins, lasts = np.divmod(likely, len(length))
        begins, stops = begins + rows.start, begins + rows.start + length[lasts]
        U = ordering.columns([Run(kind, a, b) for a, b in zip(begins.tolist(), stops.tolist(), strict=True)])
        # A ramp that ends at 1 has another slope.
        slope = 1.0 / (ordering.place[stops - 1] - ordering.before[begins]) if kind == RAMP else np.ones(len(likely))
        A, b = A.flat[likely] * slope**2, b.flat[likely] * slope
        # The amplitude given the run, with V at its best.
        kept = 1.0 - A / np.maximum(b**2, A)
        amplitude, variance = kept * b / A, kept / A
        mean = U @ (weights * amplitude)
        spread = np.column_stack([U * np.sqrt(weights * variance), (U * amplitude - mean[:, None]) * np.sqrt(weights)])
        return Ends(float(logsumexp(gains)) - own, (U > 0.0) @ weights, mean, _compressed(spread))

    def _amplitude(self, run: Run) -> tuple[Array, Array]:
        """Mean of what an episode adds to each reading, and columns whose outer products are its covariance."""
        if run.kind == ERRATIC:
            rows, n = self.ordering.rows_of(run), self.ordering.n
            mean, spread = erratic_scan.amplitudes(*self._inside(run), run.variance)
            everywhere = np.zeros((n, 1 + len(rows)))
            everywhere[rows] = np.column_stack([mean, spread])
            return everywhere[:, 0], everywhere[:, 1:]
        u = self.ordering.columns([run])
        A, b = self._of(run)
        shrink = 1.0 / (A + 1.0 / run.variance)
        return shrink * b * u[:, 0], np.sqrt(shrink) * u

    def change_by(self, run: Run, ends: Ends) -> _Change:
        """What averaging over the ends of an episode changes, where these are the other episodes."""
        mean, column = self._amplitude(run)
        before, after = self._times(column), self._times(ends.spread)
        bias = ends.mean - mean
        variance = np.einsum("ij,ij->i", ends.spread, ends.spread) - np.einsum("ij,ij->i", column, column)
        return _Change(-self._times(bias), before @ before.T - after @ after.T, bias, variance)

    def apart(self) -> Mask:
        """Runs that may be beside those in the covariance, and do not overlap them."""
        return np.asarray(self.ordering.lengths <= self._longest_apart()[:, None])

    def _longest_apart(self) -> NDArray[np.intp]:
        """Of the runs that begin at each place, may be beside those in the covariance and do not overlap them."""
        first = np.arange(self.ordering.n_places)
        longest = np.minimum(self.ordering.longest, max(self.ordering.places_left(self.runs), 0))
        for run in self.runs:
            longest = np.where(first < run.stop, np.minimum(longest, np.maximum(run.first - first, 0)), longest)
        return longest

    def within(self, run: Run) -> Mask:
        """Runs that leave readings of a run on both sides."""
        first = np.arange(self.ordering.n_places)[:, None]
        return np.asarray((first > run.first) & (first + self.ordering.lengths < run.stop))

    def between(self, jumps: Sequence[int]) -> Mask:
        """Runs that begin or end at one of these places and have none of them inside."""
        first, m = np.arange(self.ordering.n_places), self.ordering.n_places
        following = np.append(sorted(jumps), m)
        longest = following[np.searchsorted(following, first, side="right").clip(max=len(jumps))] - first
        short = self.ordering.lengths <= longest[:, None]
        return np.asarray(short & (self.ending_at(jumps) | np.isin(first, jumps)[:, None]))

    def ending_at(self, places: Collection[int]) -> Mask:
        """Runs that end at one of these places."""
        return np.isin(np.arange(self.ordering.n_places)[:, None] + self.ordering.lengths, list(places))


def _compressed(columns: Array) -> Array:
    """As few columns as possible with the same outer products, as many as there are rows that are not zero at most."""
    rows = np.flatnonzero(columns.any(axis=1))
    if columns.shape[1] <= len(rows):
        return columns
    out = np.zeros((len(columns), len(rows)))
    out[rows] = np.asarray(np.linalg.qr(columns[rows].T, mode="r")).T
    return out


def _scanned(kind: str) -> str:
    """The kind of the arrays in which a run is found: a step is a shift."""
    return SHIFT if kind == STEP else kind


def _gain(s: Array, log_prior: Array) -> Array:
    """What runs with given b²/A, with V at its best, do to the log evidence, their prior but for the rate included."""
    above = np.maximum(s, 1.0)
    return np.asarray(np.where(s > 1.0, 0.5 * (above - 1.0 - np.log(above)) + log_prior, -np.inf))
