"""The log evidence of erratic runs: a bias of its own for each reading of a run, around a level of the run.

With P the inverse of the covariance of the readings and α = Py, biases a ~ N(0, V·T) with T = I + 11ᵀ on the run R
raise the log evidence by ½ α_Rᵀ(P_RR + (VT)⁻¹)⁻¹α_R − ½ log|I + VT·P_RR|. The leading blocks of one Cholesky factor
give that for all runs that begin at one place. An erratic run begins and ends with readings that do not fit the others,
so that few places are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from biasgp._typing import Array, Mask
from biasgp.covariance.dense import factorise
from biasgp.models.episodes import ERRATIC, Ordering, Run


@dataclass(frozen=True)
class _ErraticPolicy:
    """Where erratic runs are looked for."""

    suspicious: float = 2.0
    """Leave-one-out residual, in its standard deviations, of the first and of the last reading of a run at least."""
    longest: int = 100
    """Readings of a run, at most: the cost of a place grows with the cube."""
    spreads: tuple[float, ...] = (1.0, 4.0, 16.0, 100.0, 1e4)
    """V at which runs are looked for, in units of y's robust variance. With less, readings that are only noisier than
    others would do: those of an erratic sensor say next to nothing of f."""
    moved: int = 5
    """Readings by which the ends of a run may be off, at most, where they are averaged over."""


POLICY = _ErraticPolicy()
VARIANCES = np.geomspace(POLICY.spreads[0], 1e6, 61)
"""Of which the best V is taken, in units of y's robust variance: a step changes the evidence of a run by less than
a hundredth of a nat per reading."""


def log_evidence_of_leading(P: Array, Py: Array, V: float) -> Array:
    """What an erratic run of the first 1, 2, … of some readings does to the log evidence, at this V."""
    factor = factorise(P, np.full(len(P), 1.0 / V))
    z, w = factor.half_solve(np.column_stack([Py, np.ones(len(Py))])).T
    count = np.arange(1.0, len(Py) + 1.0)
    # (VT)⁻¹ = I/V − c·11ᵀ.
    c = 1.0 / (V * (count + 1.0))
    along, level = np.cumsum(z * w), 1.0 - c * np.cumsum(w * w)
    logdet = 2.0 * np.cumsum(np.log(factor.lower.diagonal())) + np.log(level) + count * np.log(V) + np.log1p(count)
    return np.asarray(0.5 * (np.cumsum(z * z) + c * along**2 / level - logdet))


def with_best_variance(run: Run, P: Array, Py: Array) -> Run:
    """An erratic run with the V of highest evidence; P and Py are those of its readings."""
    # With the root of T, P becomes diagonal.
    root = np.eye(len(P)) + (np.sqrt(len(P) + 1.0) - 1.0) / len(P)
    values, vectors = np.linalg.eigh(root @ P @ root)
    values, beta = np.maximum(values, 0.0), (vectors.T @ (root @ Py)) ** 2
    grown = 1.0 + VARIANCES[:, None] * values
    evidence = (beta * VARIANCES[:, None] / grown - np.log(grown)).sum(axis=1)
    return replace(run, variance=float(VARIANCES[int(evidence.argmax())]))


def amplitudes(P: Array, Py: Array, V: float) -> tuple[Array, Array]:
    """Mean of the biases of an erratic run, and columns whose outer products are their covariance."""
    n = len(P)
    covariance = np.linalg.inv(P + (np.eye(n) - 1.0 / (n + 1.0)) / V)
    return covariance @ Py, np.linalg.cholesky(covariance)


class ErraticRuns:
    """Erratic runs of readings whose covariance has the inverse P; `refund` is what their labels cost."""

    def __init__(self, ordering: Ordering, P: Array, Py: Array, refund: Array | None = None) -> None:
        rows = ordering.rows
        self.ordering, self._P, self._Py = ordering, P[np.ix_(rows, rows)], Py[rows]
        self._refund = np.zeros(len(rows)) if refund is None else refund[rows]
        self._first = np.append(ordering.first_rows, ordering.n)

    def gains(self, first: int, longest: int, V: float) -> Array:
        """Of the runs that begin at a place, of all lengths up to the longest, but for the rate of episodes."""
        lengths = self.ordering.lengths
        lengths = lengths[lengths <= longest]
        begin, stops = self._first[first], self._first[first + lengths]
        if not len(stops):
            return np.empty(0)
        inside = slice(begin, stops[-1])
        found = log_evidence_of_leading(self._P[inside, inside], self._Py[inside], V) + self._refund[inside].cumsum()
        return np.asarray(found[stops - begin - 1] + self.ordering.log_prior[ERRATIC][first, : len(lengths)])

    def best(self, longest: NDArray[np.intp], least: float = -np.inf) -> tuple[float, Run]:
        """The run of highest gain among those that are no longer than a limit for each first place.

        Only a gain above the least counts; an empty run where there is none.
        """
        shortest, own = int(self.ordering.lengths[0]), np.maximum(self._P.diagonal(), np.finfo(float).tiny)
        odd = self._suspicious(own)
        ends = np.append(False, odd)
        best, found = least, Run(ERRATIC, 0, 0)
        for first in np.flatnonzero(odd).tolist():
            within = ends[first + 1 : first + 1 + min(int(longest[first]), POLICY.longest)]
            # To the last place in reach that does not fit either.
            most = int(np.flatnonzero(within).max(initial=-1)) + 1
            if most < self.ordering.prior.shortest_erratic:
                continue
            fits, stops = ~ends[first + shortest : first + most + 1], first + np.arange(shortest, most + 1)
            count = self._first[stops] - self._first[first]
            for V in reversed(POLICY.spreads):
                gains = self.gains(first, most, V)
                gains[fits] = -np.inf
                at = int(gains.argmax())
                if gains[at] > best:
                    best, found = float(gains[at]), Run(ERRATIC, first, first + shortest + at, V)
                # With less of a bias, less is explained, and each reading costs less by this at most.
                if (gains + 0.5 * np.log(V / POLICY.spreads[0]) * count).max() <= best:
                    break
        return best, found

    def _suspicious(self, own: Array) -> Mask:
        """Places with a reading that does not fit the others, or that has a label."""
        off = (self._Py**2 > POLICY.suspicious**2 * own) | (self._refund > 0.0)
        return np.asarray(np.add.reduceat(off, self._first[:-1]) > 0)

    def around(self, run: Run, longest: NDArray[np.intp]) -> tuple[float, Array]:
        """The ends of a run averaged over: the log evidence that adds, and for each reading that of being in it."""
        ordering, size, begins = self.ordering, run.stop - run.first, range(-POLICY.moved, POLICY.moved + 1)
        gains: dict[tuple[int, int], float] = {}
        for first in (run.first + move for move in begins if 0 <= run.first + move < ordering.n_places):
            found = self.gains(first, min(int(longest[first]), size + 2 * POLICY.moved), run.variance)
            for length, gain in zip(ordering.lengths.tolist(), found.tolist(), strict=False):
                if abs(first + length - run.stop) <= POLICY.moved:
                    gains[first, first + length] = gain
        own = gains.get((run.first, run.stop), -np.inf)
        probability = np.zeros(ordering.n)
        if own == -np.inf:
            probability[ordering.rows_of(run)] = 1.0
            return 0.0, probability
        total = float(logsumexp(list(gains.values())))
        for (first, stop), gain in gains.items():
            probability[ordering.rows_of(Run(ERRATIC, first, stop))] += np.exp(gain - total)
        return total - own, np.minimum(probability, 1.0)
