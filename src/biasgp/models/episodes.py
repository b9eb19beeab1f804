"""Biases that last: y = f + U·a + δ + ε, where each column of U is an episode, a run of consecutive readings.

Readings are ordered by one variable, as a rule time. An episode is a `shift` (1 on its run), a `step` (a shift up to
the end of the record) or a `ramp` (grows linearly over its run and ends: a drift until somebody cleans the sensor). Its
amplitude a ~ N(0, V) is integrated out, so that an episode adds V·uuᵀ to the covariance of the readings, and with P the
inverse of that covariance it raises the log evidence by

    ½ b²/(A + 1/V) − ½ log(1 + V·A),   A = uᵀPu,  b = uᵀPy.

For u = 1 on rows i…j, A is a block sum of P and b a partial sum of Py: cumulative sums give all runs in O(N²).
A sensor that is `stuck` repeats its value; such readings tell nothing of f and leave the GP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from biasgp._typing import Array, Mask

SHIFT, STEP, RAMP, STUCK = "shift", "step", "ramp", "stuck"


@dataclass(frozen=True)
class EpisodePrior:
    """How often episodes are expected, how long they last, and where they begin and end. Prices are in nats."""

    rate: float = 1.0 / 150.0
    """Episodes per reading before the data, worth `weight` readings (chosen by benchmarks/faults.py)."""
    weight: float = 150.0
    shortest: int = 3
    """Readings of an episode, at least: fewer are single outliers."""
    typical_length: float = 25.0
    """Median length; the chance of a length falls as its square from there on, so that none is ruled out."""
    longest_share: float = 0.5
    """Of the record: the majority is what the signal is."""
    scale_price: float = 1.0
    """For choosing V: a size known to within a factor e either way, of the e⁴ or so that are possible."""
    at_event: float = 0.9
    """Where the user names events: chance that an episode ends at the next of them, and that it is a drift."""
    off_event: float = 0.02
    """Where the user names events: chance that a level jumps anywhere but at the end of a fault there."""

    def log_count(self, count: int, n: int) -> float:
        """log p(so many given starts among n readings), the rate integrated out."""
        a, b = self.rate * self.weight, (1.0 - self.rate) * self.weight
        return float(betaln(a + count, b + n - count) - betaln(a, b))

    def log_length(self, n: int) -> tuple[Array, Array]:
        """log p(length) for lengths 0…n, and log p(at least so long), for runs that reach an end of the record."""
        weights = (self.typical_length + np.arange(n + 1)) ** -2.0
        weights[: self.shortest] = 0.0
        weights /= max(weights.sum(), np.finfo(float).tiny)
        with np.errstate(divide="ignore"):
            return np.log(weights), np.log(weights[::-1].cumsum()[::-1])


@dataclass(frozen=True)
class Run:
    """An episode by its place: the distinct values first…stop − 1 of the ordering variable, and V."""

    kind: str
    first: int
    stop: int
    variance: float = 1.0


class Ordering:
    """Readings in the order of one variable; those at the same value are in an episode together.

    `events` are values of that variable at which somebody serviced the sensor. `series` is a number for each reading:
    series follow one another, an episode lies within one of them, and a negative number stands for one without any.
    """

    def __init__(
        self,
        values: Array,
        events: Array | None = None,
        prior: EpisodePrior = EpisodePrior(),  # noqa: B008
        series: NDArray[np.intp] | None = None,
    ) -> None:
        self.values, self.events, self.prior = values, events, prior
        self.series = np.zeros(len(values), dtype=np.intp) if series is None else series
        self.rows = np.lexsort((values, self.series))
        ordered, owners = values[self.rows], self.series[self.rows]
        self._first = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]) | (owners[1:] != owners[:-1])))
        self.times, self.owners = ordered[self._first], owners[self._first]
        self.n, self.n_times = len(values), len(self.times)
        span = float(np.ptp(self.times)) or 1.0
        # A ramp is zero one reading before its first.
        self._place = (self.times - self.times.min()) / span
        self._before = np.append(0.0, self._place[:-1])
        for first, stop in self.bounds:
            step = self._place[first + 1] - self._place[first] if stop - first > 1 else 1.0
            self._before[first] = self._place[first] - step

    @cached_property
    def bounds(self) -> list[tuple[int, int]]:
        """First and stop of each series, in the places of runs."""
        starts = np.append(0, np.flatnonzero(self.owners[1:] != self.owners[:-1]) + 1)
        return list(zip(starts.tolist(), [*starts[1:].tolist(), self.n_times], strict=True))

    def subset(self, kept: Mask) -> Ordering:
        """The same for some of the readings."""
        return Ordering(self.values[kept], self.events, self.prior, self.series[kept])

    @property
    def too_short(self) -> bool:
        """Whether there are too few readings for an episode."""
        return self._longest < 2 * self.prior.shortest

    @property
    def _longest(self) -> int:
        """Places in the longest series that can have episodes."""
        return max((stop - first for first, stop in self.bounds if self.owners[first] >= 0), default=0)

    def column(self, run: Run) -> Array:
        """u: what the episode adds to each reading, for an amplitude of 1."""
        heights = np.zeros(self.n_times)
        inside = slice(run.first, run.stop)
        if run.kind == RAMP:
            start = self._before[run.first]
            heights[inside] = (self._place[inside] - start) / (self._place[run.stop - 1] - start)
        else:
            heights[inside] = 1.0
        out = np.empty(self.n)
        out[self.rows] = np.repeat(heights, np.diff(self._first, append=self.n))
        return out

    def rows_of(self, run: Run) -> NDArray[np.intp]:
        """Indices of the readings of an episode, in their order."""
        first = self._first[run.first]
        stop = self.n if run.stop == self.n_times else self._first[run.stop]
        return np.asarray(self.rows[first:stop])

    def columns(self, runs: tuple[Run, ...]) -> Array:
        """U·√V, one column per episode; their outer product is what episodes add to the covariance."""
        return np.column_stack([np.zeros((self.n, 0)), *(np.sqrt(run.variance) * self.column(run) for run in runs)])

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First and stop of every run that an episode can have, in the order of both."""
        runs = []
        for begin, end in self.bounds:
            first, stop = np.triu_indices(end - begin + 1, k=self.prior.shortest)
            possible = (stop - first <= self.prior.longest_share * (end - begin)) & (self.owners[begin] >= 0)
            runs.append((first[possible] + begin, stop[possible] + begin))
        first, stop = (np.concatenate(ends) for ends in zip(*runs, strict=True))
        return first, stop

    @cached_property
    def _log_prior(self) -> dict[str, Array]:
        """log p(kind, run) of each of these runs, but for the rate."""
        first, stop = self._places
        m, prior, length = self.n_times, self.prior, stop - first
        exactly, at_least = prior.log_length(self._longest)
        edges = [0, *(end for _, end in self.bounds)]
        touches = np.isin(first, edges) | np.isin(stop, edges)
        ends = np.where(touches, at_least[length], exactly[length])
        kinds = {SHIFT: np.log(0.5), RAMP: np.log(0.5)}
        if self.events is not None:
            serviced = np.zeros(m + 1, dtype=bool)
            for begin, end in self.bounds:
                serviced[begin + np.searchsorted(self.times[begin:end], self.events)] = True
            serviced[edges] = False
            off = float(np.log(prior.off_event))
            ends = np.where(serviced[stop], np.log(prior.at_event), ends + np.where(touches, 0.0, off))
            kinds = {SHIFT: np.log(1.0 - prior.at_event) + off, RAMP: np.log(prior.at_event)}
        return {kind: ends - prior.scale_price + float(price) for kind, price in kinds.items()}

    def log_prior_of(self, runs: tuple[Run, ...]) -> float:
        """log p(these episodes); −∞ where one of them cannot be."""
        first, stop = self._places
        value = self.prior.log_count(len(runs), self.n)
        for run in runs:
            at = np.flatnonzero((first == run.first) & (stop == run.stop))
            value += float(self._log_prior[SHIFT if run.kind == STEP else run.kind][at[0]]) if len(at) else -np.inf
        return value

    def best_run(
        self,
        P: Array,
        Py: Array,
        present: tuple[Run, ...] = (),
        kinds: tuple[str, ...] = (SHIFT, RAMP),
        inside: Run | None = None,
    ) -> tuple[float, Run]:
        """The episode that raises the log evidence most beside those present, which P holds, its price paid.

        A sensor has one fault at a time: episodes do not overlap, but one may be looked for `inside` another, as what
        that one should leave out.
        """
        first, stop = self._places
        possible = np.ones(len(first), dtype=bool)
        for run in present:
            possible &= (first >= run.stop) | (stop <= run.first)
        if inside is not None:
            possible &= (first > inside.first) & (stop < inside.stop)
        best, found = -np.inf, Run(SHIFT, 0, 0)
        for kind, A, b in self._sums(P, Py, kinds):
            # With V at its best, 1 + VA is the statistic b²/A, χ² with one degree of freedom where there is no episode.
            usable = possible & (ROUNDING * float(A.max(initial=1.0)) < A)
            s = np.divide(b**2, A, out=np.ones_like(A), where=usable)
            gain = np.where(usable, 0.5 * (s - 1.0 - np.log(np.maximum(s, 1.0))), 0.0) + self._log_prior[kind]
            gain[(s <= 1.0) | ~usable] = -np.inf
            at = int(gain.argmax()) if len(gain) else -1
            if at >= 0 and gain[at] > best:
                best, V = float(gain[at]), min(float((s[at] - 1.0) / A[at]), LARGEST_VARIANCE)
                found = Run(self.named(kind, int(stop[at])), int(first[at]), int(stop[at]), V)
        price = self.prior.log_count(len(present) + 1, self.n) - self.prior.log_count(len(present), self.n)
        return best + price, found

    def named(self, kind: str, stop: int) -> str:
        """A shift that lasts to the end of the record is a step."""
        return STEP if kind == SHIFT and any(stop == end for _, end in self.bounds) else kind

    def with_variance(self, run: Run, P: Array, Py: Array) -> Run:
        """The run with the V of highest evidence beside those that P holds."""
        u = self.column(run)
        A = float(u @ P @ u)
        signal = max(float(u @ Py) ** 2 / A - 1.0, LEAST_SIGNAL) / A if A > 0.0 else 0.0
        return replace(run, variance=min(max(signal, 1.0 / LARGEST_VARIANCE), LARGEST_VARIANCE))

    def _sums(self, P: Array, Py: Array, kinds: tuple[str, ...]) -> list[tuple[str, Array, Array]]:
        """A = uᵀPu and b = uᵀPy of every run, for each kind."""
        p, a = self._summed(P, Py)
        first, stop = self._places

        def block(q: Array) -> Array:
            """Sums of q over the square of each run, from cumulative sums."""
            D = np.zeros((len(q) + 1, len(q) + 1))
            np.cumsum(np.cumsum(q, axis=0), axis=1, out=D[1:, 1:])
            d = D.diagonal()
            return np.asarray(d[stop] + d[first] - D[first, stop] - D[stop, first])

        def partial(v: Array) -> Array:
            total = np.concatenate([[0.0], v.cumsum()])
            return np.asarray(total[stop] - total[first])

        A, b = block(p), partial(a)
        found = [(SHIFT, A, b)] if SHIFT in kinds else []
        if RAMP in kinds:
            weighted = self._place[:, None] * p
            start = self._before[np.minimum(first, self.n_times - 1)]
            width = self._place[stop - 1] - start
            # P is symmetric, so both mixed sums are the same.
            A = (block(weighted * self._place) - 2.0 * start * block(weighted) + start**2 * A) / width**2
            found.append((RAMP, A, (partial(self._place * a) - start * b) / width))
        return found

    def _summed(self, P: Array, Py: Array) -> tuple[Array, Array]:
        """P and Py in order, with the readings at one value taken together."""
        in_order = np.array_equal(self.rows, np.arange(self.n))
        p, a = (P, Py) if in_order else (P[np.ix_(self.rows, self.rows)], Py[self.rows])
        if self.n_times < self.n:
            p = np.add.reduceat(np.add.reduceat(p, self._first, axis=0), self._first, axis=1)
            a = np.add.reduceat(a, self._first)
        return p, a


LARGEST_VARIANCE = 1e6
"""Of an episode, in units of y's robust variance: no reading lies further out than its square root."""
LEAST_SIGNAL = 1e-6
"""The least of b²/A − 1 that gives an episode a variance: one that its readings no longer support has next to none."""


ROUNDING = 1e-12
"""Share of the largest uᵀPu below which one is rounding error."""


def add_column(P: Array, Py: Array, u: Array, variance: float) -> tuple[Array, Array]:
    """P and Py after variance·uuᵀ has been added to the covariance."""
    Pu = P @ u
    factor = 1.0 / (float(u @ Pu) + 1.0 / variance)
    return P - np.outer(factor * Pu, Pu), Py - factor * float(u @ Py) * Pu


def evidence_of_column(P: Array, Py: Array, u: Array, variance: float) -> float:
    """What adding variance·uuᵀ to the covariance does to log N(y; 0, P⁻¹)."""
    A, b = float(u @ P @ u), float(u @ Py)
    return 0.5 * b**2 / (A + 1.0 / variance) - 0.5 * float(np.log1p(variance * A))


@dataclass(frozen=True)
class Episode:
    """A bias that lasts over consecutive readings.

    Attributes
    ----------
    kind : {"stuck", "shift", "step", "ramp"}
        The value repeats; a constant bias; the same up to the end of the record; a bias that grows linearly and ends.
    rows : tuple of int
        Indices of its readings, in their order.
    log_odds : float
        Log odds against the best explanation without it (for a stuck sensor, against repeats by chance).
    start, stop : float or str
        The ordering variable at its first and at its last reading; a time as ISO 8601 text (UTC where it has a zone).
    bias, bias_std : float
        Of its readings, in y's unit: at the end of a ramp, and the mean of y − f for a stuck sensor.
    sensor : str
        The label of its sensor, where several share f; else empty.
    """

    kind: str
    rows: tuple[int, ...]
    log_odds: float
    start: float | str = np.nan
    stop: float | str = np.nan
    bias: float = np.nan
    bias_std: float = np.nan
    sensor: str = ""


def stuck_runs(ordering: Ordering, y: Array, repeats_expected: float = 1.0) -> list[Episode]:
    """Runs of equal readings that are too long for chance, in each series on its own."""
    found = []
    for first, stop in ordering.bounds:
        if ordering.owners[first] >= 0:
            rows = ordering.rows_of(Run(STUCK, first, stop))
            found += _stuck_in(rows, y, ordering.prior, repeats_expected)
    return found


def _stuck_in(rows: NDArray[np.intp], y: Array, prior: EpisodePrior, repeats_expected: float) -> list[Episode]:
    """Runs of equal readings that are too long for chance, given how often readings repeat elsewhere.

    A reading repeats the one before by chance with a probability that is learnt from all other runs, or from all other
    visits to the same value, whichever is larger: a coarse scale repeats everywhere, and a signal at rest at one value
    whenever it is there. `repeats_expected` is what each of the two shares begins with: one repeat.
    """
    z = y[rows]
    begins = np.append(0, np.flatnonzero(z[1:] != z[:-1]) + 1)
    lengths = np.diff(begins, append=len(z))
    values = z[begins]
    log_length, _ = prior.log_length(len(z))
    chance = np.ones(len(lengths), dtype=bool)
    found = []
    for run in np.argsort(-lengths, kind="stable"):
        length = int(lengths[run])
        if length < prior.shortest:
            break
        if length > prior.longest_share * len(z):
            continue
        chance[run] = False
        elsewhere = _share_of_repeats(lengths[chance], repeats_expected)
        same_value = chance & (values == values[run])
        if same_value.any():
            # Few visits say little: they start from the share elsewhere.
            repeats, pairs = (lengths[same_value] - 1).sum(), lengths[same_value].sum()
            at_value = (repeats + repeats_expected * elsewhere) / (pairs + repeats_expected)
            elsewhere = max(elsewhere, float(at_value))
        log_odds = float(np.log(prior.rate) + log_length[length] - (length - 1) * np.log(elsewhere))
        if log_odds > 0.0:
            found.append(Episode(STUCK, tuple(rows[begins[run] + np.arange(length)].tolist()), log_odds))
        else:
            chance[run] = True
    return found


def _share_of_repeats(lengths: NDArray[np.intp], expected: float) -> float:
    """Of all pairs of neighbours within these runs and at their ends, how many are equal."""
    return float(((lengths - 1).sum() + expected) / (lengths.sum() + 2.0 * expected))
