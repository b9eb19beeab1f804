"""The log evidence of every possible episode at once, beside those that are there already.

With P the inverse of the covariance of the readings, an episode with the column u and the variance V raises the log
evidence by ½ b²/(A + 1/V) − ½ log(1 + VA), where A = uᵀPu and b = uᵀPy. For u = 1 on a run, A is a block sum of P and b
a partial sum of Py; for a ramp they are such sums with weights. Cumulative sums give them for all runs in O(N²), and
another episode in the covariance changes all of them by partial sums of one vector.

Arrays of runs have the first place for rows and the length for columns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.special import logsumexp, softmax

from biasgp._typing import Array, Mask
from biasgp.models.episodes import RAMP, SHIFT, STEP, Ordering, Run

LARGEST_VARIANCE = 1e6
"""Of an episode, in units of y's robust variance: no reading lies further out than its square root."""
LEAST_SIGNAL = 1e-6
"""The least of b²/A − 1 that gives an episode a variance: one that its readings no longer support has next to none."""
LEAST_WEIGHT = 9.0
"""Nats behind the best ends at which others no longer matter."""
MOST_RUNS = 400
"""Ends that are averaged over, at most: as many as two ends that are uncertain by twenty readings each have."""
ROUNDING = 1e-12
"""Share of the largest uᵀPu below which one is rounding error."""


@dataclass(frozen=True)
class _Sums:
    """A = uᵀPu and b = uᵀPy of every run of one kind."""

    A: Array
    b: Array


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


class RunScan:
    """Every run of the kinds `kinds`, for readings y whose covariance has the inverse P.

    `log_evidence` is what the episodes that were added since have done to log N(y; 0, P⁻¹).
    """

    def __init__(self, ordering: Ordering, P: Array, Py: Array, kinds: tuple[str, ...] = (SHIFT, RAMP)) -> None:
        self.ordering, self.log_evidence = ordering, 0.0
        self.runs: tuple[Run, ...] = ()
        self._P, self._Py, self._added = P, Py, np.zeros((len(P), 0))
        self._start = ordering.before[:, None]
        width = self._hankel(np.append(0.0, ordering.place)) - self._start
        # Runs beyond the end of a series have a prior of zero, whatever their width.
        self._width = np.where(width > 0.0, width, 1.0)
        p, a = ordering.summed(ordering.summed(P).T), ordering.summed(Py)
        t = ordering.place
        sums = _Sums(self._blocks(p), self._partial(a))
        self._sums = {SHIFT: sums} if SHIFT in kinds else {}
        if RAMP in kinds and ordering.lengths[-1] >= ordering.prior.shortest_ramp:
            mixed, start = self._blocks(0.5 * (t[:, None] + t) * p), self._start
            A = self._blocks(t[:, None] * p * t) - 2.0 * start * mixed + start**2 * sums.A
            b = self._partial(t * a) - start * sums.b
            self._sums[RAMP] = _Sums(A / self._width**2, b / self._width)

    def _hankel(self, v: Array) -> Array:
        """v[first + length] for all runs, of v with one entry per place and one more; a view."""
        lengths = self.ordering.lengths
        padded = np.append(v, np.full(lengths[-1], v[-1]))
        (step,) = padded.strides
        return as_strided(padded[lengths[0] :], (self.ordering.n_places, len(lengths)), (step, step), writeable=False)

    def _blocks(self, q: Array) -> Array:
        """Sums of a symmetric q over the square of each run."""
        m, lengths = len(q), self.ordering.lengths
        D = np.zeros((m + 1, m + 1 + int(lengths[-1])))
        inner = D[1:, 1 : m + 1]
        np.cumsum(q, axis=1, out=inner)
        # Row by row: NumPy's own cumulative sum down the columns takes ten times as long.
        for above, row in pairwise(inner):
            row += above
        down, right = D.strides
        beside = as_strided(D[:, lengths[0] :], (m, len(lengths)), (down + right, right), writeable=False)
        corner = D.diagonal()[: m + 1].copy()
        total = -2.0 * beside
        total += self._hankel(corner)
        total += corner[:m, None]
        total[np.arange(m)[:, None] + lengths > m] = 0.0
        return np.asarray(total)

    def _partial(self, v: Array) -> Array:
        """Sums of v over each run."""
        total = np.concatenate([[0.0], v.cumsum()])
        return np.asarray(self._hankel(total) - total[:-1, None])

    def inverse(self) -> tuple[Array, Array]:
        """P and Py with the added episodes in the covariance."""
        return self._P - self._added @ self._added.T, self._Py.copy()

    def _times(self, u: Array) -> Array:
        """P·u."""
        return np.asarray(self._P @ u - self._added @ (self._added.T @ u))

    def with_run(self, run: Run) -> RunScan:
        """The same with another episode in the covariance."""
        u = self.ordering.columns([run])[:, 0]
        Pu = self._times(u)
        A, b = float(u @ Pu), float(u @ self._Py)
        shrink = 1.0 / (A + 1.0 / run.variance)
        found = copy(self)
        found.runs = (*self.runs, run)
        found.log_evidence = self.log_evidence + 0.5 * b**2 * shrink - 0.5 * float(np.log1p(run.variance * A))
        found._added = np.column_stack([self._added, np.sqrt(shrink) * Pu])
        found._Py = self._Py - shrink * b * Pu
        q = self.ordering.summed(Pu)
        shift = self._partial(q)
        found._sums = {}
        for kind, sums in self._sums.items():
            along = shift
            if kind == RAMP:
                along = (self._partial(self.ordering.place * q) - self._start * shift) / self._width
            found._sums[kind] = _Sums(sums.A - shrink * along**2, sums.b - (shrink * b) * along)
        return found

    def with_runs(self, runs: Sequence[Run]) -> RunScan:
        """The same with these episodes, each with the variance of highest evidence beside those before it."""
        scan = self
        for run in runs:
            scan = scan.with_run(scan.with_best_variance(run))
        return scan

    def with_best_variance(self, run: Run) -> Run:
        """The run with the V of highest evidence."""
        u = self.ordering.columns([run])[:, 0]
        A, b = float(u @ self._times(u)), float(u @ self._Py)
        signal = max(b**2 / A - 1.0, LEAST_SIGNAL) / A if A > 0.0 else 0.0
        return replace(run, variance=min(max(signal, 1.0 / LARGEST_VARIANCE), LARGEST_VARIANCE))

    def statistic(self, kind: str) -> tuple[Array, Array]:
        """b²/A of every run of a kind, and its A. With V at its best, 1 + VA is this statistic, where it exceeds 1."""
        sums = self._sums[kind]
        usable = ROUNDING * float(sums.A.max(initial=1.0)) < sums.A
        return np.divide(sums.b**2, sums.A, out=np.zeros_like(sums.A), where=usable), sums.A

    def gains(self, kind: str) -> Array:
        """What each run of a kind would do to the log evidence, its own prior included but for the rate."""
        s, _ = self.statistic(kind)
        gain = np.maximum(s, 1.0)
        gain -= 1.0 + np.log(gain)
        gain *= 0.5
        gain += self.ordering.log_prior[kind]
        gain[s <= 1.0] = -np.inf
        return np.asarray(gain)

    def best(self, kinds: tuple[str, ...] = (SHIFT, RAMP), where: Mask | None = None) -> tuple[float, Run]:
        """The episode that raises the log evidence most, its price paid; among those of a mask of runs, if given.

        A sensor has one fault at a time: without a mask, episodes do not overlap.
        """
        best, found = -np.inf, Run(SHIFT, 0, 0)
        possible = self.apart() if where is None else where
        for kind in kinds:
            if kind in self._sums:
                gain = self.gains(kind)
                gain[~possible] = -np.inf
                at = int(gain.argmax())
                if gain.flat[at] > best:
                    best, found = float(gain.flat[at]), self.run_at(kind, at)
        return best + self.price(), found

    def run_at(self, kind: str, at: int) -> Run:
        """The run of a kind by its place in the flattened arrays, with its best variance."""
        row, column = divmod(at, len(self.ordering.lengths))
        first, stop = row, row + int(self.ordering.lengths[column])
        A, b = float(self._sums[kind].A[row, column]), float(self._sums[kind].b[row, column])
        V = max(b**2 / A - 1.0, LEAST_SIGNAL) / A
        return Run(self.ordering.named(kind, first, stop), first, stop, min(V, LARGEST_VARIANCE))

    def price(self) -> float:
        """What the rate of episodes costs for one more."""
        prior, n, count = self.ordering.prior, self.ordering.n, len(self.runs)
        return prior.log_count(count + 1, n) - prior.log_count(count, n)

    def ends(self, run: Run) -> Ends:
        """Where an episode begins and ends, given the other episodes in the covariance.

        All runs of its kind that share more than half of the readings of the longer of the two with it, weighted by
        evidence.
        """
        ordering, kind = self.ordering, _scanned(run.kind)
        first, length = np.arange(ordering.n_places)[:, None], ordering.lengths
        shared = np.minimum(first + length, run.stop) - np.maximum(first, run.first)
        likewise = self.apart() & (2 * shared > np.maximum(length, run.stop - run.first))
        if ordering.verdict is not None:
            likewise &= ordering.covering(run)
        same = np.flatnonzero(likewise)
        gains = self.gains(kind)
        own, gains = float(gains[run.first, run.stop - run.first - length[0]]), gains.flat[same]
        if own == -np.inf:
            # Its readings no longer support it, whatever its ends.
            return Ends(0.0, (ordering.columns([run]) > 0.0)[:, 0].astype(float), *self._amplitude(run))
        likely = np.flatnonzero(gains > gains.max() - LEAST_WEIGHT)
        likely = likely[np.argsort(-gains[likely], kind="stable")[:MOST_RUNS]]
        weights = softmax(gains[likely])
        runs = [self.run_at(kind, at) for at in same[likely].tolist()]
        U = ordering.columns(runs)
        A, b = np.array([self._of(each) for each in runs]).T
        # The amplitude given the run, with V at its best.
        kept = 1.0 - A / np.maximum(b**2, A)
        amplitude, variance = kept * b / A, kept / A
        mean = U @ (weights * amplitude)
        spread = np.column_stack([U * np.sqrt(weights * variance), (U * amplitude - mean[:, None]) * np.sqrt(weights)])
        return Ends(float(logsumexp(gains)) - own, (U > 0.0) @ weights, mean, spread)

    def _amplitude(self, run: Run) -> tuple[Array, Array]:
        """Mean of what an episode adds to each reading, and the column whose outer product is its covariance."""
        u = self.ordering.columns([run])
        A, b = self._of(run)
        shrink = 1.0 / (A + 1.0 / run.variance)
        return shrink * b * u[:, 0], np.sqrt(shrink) * u

    def change_by(self, run: Run, ends: Ends) -> _Change:
        """What averaging over the ends of an episode changes, where these are the other episodes."""
        mean, column = self._amplitude(run)
        before, after = self._times(column), self._times(ends.spread)
        bias = ends.mean - mean
        variance = np.einsum("ij,ij->i", ends.spread, ends.spread) - column[:, 0] ** 2
        return _Change(-self._times(bias), before @ before.T - after @ after.T, bias, variance)

    def _of(self, run: Run) -> tuple[float, float]:
        """A and b of a run."""
        sums, at = self._sums[_scanned(run.kind)], run.stop - run.first - self.ordering.lengths[0]
        return float(sums.A[run.first, at]), float(sums.b[run.first, at])

    def apart(self) -> Mask:
        """Runs that do not overlap those in the covariance."""
        first, m = np.arange(self.ordering.n_places), self.ordering.n_places
        longest = np.full(m, m)
        for run in self.runs:
            longest = np.where(first < run.stop, np.minimum(longest, np.maximum(run.first - first, 0)), longest)
        return np.asarray(self.ordering.lengths <= longest[:, None])

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


def _scanned(kind: str) -> str:
    """The kind of the arrays in which a run is found: a step is a shift."""
    return SHIFT if kind == STEP else kind
