"""Biases that last: y = f + U·a + δ + ε, where each column of U is an episode, a run of consecutive readings.

Readings are ordered by one variable, as a rule time. An episode is a `shift` (1 on its run), a `step` (a shift up to
the end of the record) or a `ramp` (grows linearly over its run and ends: a drift until somebody cleans the sensor). Its
amplitude a ~ N(0, V) is integrated out, so that an episode adds V·uuᵀ to the covariance of the readings (`run_scan` has
the evidence of every run). An `erratic` sensor has a bias of variance V for every reading of its run, around a level of
variance V: that adds V·(I + 11ᵀ) on the run (`erratic_scan`). A sensor that is `stuck` repeats its value; such readings
say nothing of f and leave the GP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from biasgp._typing import Array, Mask

SHIFT, STEP, RAMP, ERRATIC, STUCK = "shift", "step", "ramp", "erratic", "stuck"
CROWD = "crowd"
"""Not a bias that lasts, but readings at one place that are wrong together (`sparse.crowds`)."""


@dataclass(frozen=True)
class EpisodePrior:
    """How often episodes are expected, how long they last, and where they begin and end. Prices are in nats."""

    faultless: float = 0.8
    """Chance that a record has no episode at all (chosen by benchmarks/faults.py and accuracy.py)."""
    rate: float = 1.0 / 150.0
    """Otherwise, episodes per reading before the data, worth `weight` readings (chosen by benchmarks/faults.py)."""
    weight: float = 150.0
    shortest: int = 3
    """Readings of an episode, at least: fewer are single outliers."""
    shortest_ramp: int = 10
    """Readings of a ramp, at least: a shorter one cannot be told from a shift."""
    interrupted: int = 2
    """Readings between two visits to a value, at most, that are one visit of a stuck sensor, interrupted."""
    shortest_erratic: int = 5
    """Readings of an erratic run, at least: fewer are single outliers beside one another."""
    erratic: float = 0.1
    """Share of erratic runs among episodes; shifts and ramps have half of the others each."""
    typical_length: float = 25.0
    """Median length; the chance of a length falls as its square from there on, so that none is ruled out."""
    longest_share: float = 0.5
    """Of the record, that an episode lasts at most, and all of them together unless services are known: the majority is
    what the signal is."""
    scale_price: float = 1.0
    """For choosing V: a size known to within a factor e either way, of the e⁴ or so that are possible."""
    at_event: float = 0.9
    """Where the user names events: chance that an episode which ends at one of them is a drift."""
    fault_before_event: float = 0.5
    """Where the user names events: chance that there was a fault for one of them to end; others are routine."""
    off_event: float = 0.02
    """Where the user names events: chance that a level jumps anywhere but at the end of a fault there."""

    def log_count(self, count: int, n: int) -> float:
        """log p(so many given starts among n readings), the rate integrated out."""
        a, b = self.rate * self.weight, (1.0 - self.rate) * self.weight
        faulty = np.log1p(-self.faultless) + betaln(a + count, b + n - count) - betaln(a, b)
        return float(faulty if count else np.logaddexp(np.log(self.faultless), faulty))

    def log_length(self, n: int, tail: float = 2.0) -> tuple[Array, Array]:
        """log p(length) for lengths 0…n, and log p(at least so long), for runs that reach an end of the record."""
        weights = (self.typical_length + np.arange(n + 1)) ** -tail
        weights[: self.shortest] = 0.0
        weights /= max(weights.sum(), np.finfo(float).tiny)
        with np.errstate(divide="ignore"):
            return np.log(weights), np.log(weights[::-1].cumsum()[::-1])


@dataclass(frozen=True)
class Run:
    """An episode by its places first…stop − 1 in an ordering, and V."""

    kind: str
    first: int
    stop: int
    variance: float = 1.0

    def shares_most_with(self, first: NDArray[np.intp], stop: NDArray[np.intp]) -> Mask:
        """Whether it shares more than half of the places of the longer of the two with runs first…stop − 1."""
        shared = np.minimum(stop, self.stop) - np.maximum(first, self.first)
        return np.asarray(2 * shared > np.maximum(stop - first, self.stop - self.first))


class Ordering:
    """Readings in the order of one variable; those at the same value are in an episode together.

    `events` are values of that variable at which somebody serviced the sensor. `series` is a number for each reading:
    series follow one another, an episode lies within one of them, and a negative number stands for one without any. A
    place is a distinct value in one series. With a `verdict` on each reading, a good one (0) is in no episode, and
    neighbours that are bad (1) are in one together or not at all.
    """

    def __init__(
        self,
        values: Array,
        events: Array | None = None,
        prior: EpisodePrior = EpisodePrior(),  # noqa: B008
        series: NDArray[np.intp] | None = None,
        verdict: Array | None = None,
    ) -> None:
        self.values, self.events, self.prior, self.verdict = values, events, prior, verdict
        self.series = np.zeros(len(values), dtype=np.intp) if series is None else series
        self.rows = np.lexsort((values, self.series))
        self._in_order = np.array_equal(self.rows, np.arange(len(values)))
        in_order, of = values[self.rows], self.series[self.rows]
        self._first = np.flatnonzero(np.append(True, (np.diff(in_order) != 0.0) | (np.diff(of) != 0)))
        self.times, self._owner = in_order[self._first], of[self._first]
        self.n, self.n_places = len(values), len(self.times)
        begins = np.flatnonzero(np.append(True, np.diff(self._owner) != 0))
        each = np.diff(begins, append=self.n_places)
        self._begins, self._ends = np.repeat(begins, each), np.repeat(begins + each, each)
        lowest, span = float(values.min()), float(np.ptp(values)) or 1.0
        self.place = (self.times - lowest) / span
        # A ramp is zero one reading before its first.
        self.before = np.concatenate([[0.0], self.place[:-1]])
        self.before[begins] = 2.0 * self.place[begins] - self.place[np.minimum(begins + 1, self.n_places - 1)]
        self.before[begins] = np.where(each > 1, self.before[begins], self.place[begins] - 1.0)
        self._longest = int(each[self._owner[begins] >= 0].max(initial=0))
        self.lengths = np.arange(self.prior.shortest, int(self.prior.longest_share * self._longest) + 1)

    @property
    def first_rows(self) -> NDArray[np.intp]:
        """Of each place, the number of its first reading in order."""
        return np.asarray(self._first)

    def part(self, rows: NDArray[np.intp] | Mask) -> Ordering:
        """The same for some of the readings."""
        verdict = None if self.verdict is None else self.verdict[rows]
        return Ordering(self.values[rows], self.events, self.prior, self.series[rows], verdict)

    @cached_property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """First place of each series, and the one after its last."""
        return tuple(dict.fromkeys(zip(self._begins.tolist(), self._ends.tolist(), strict=True)))

    def rows_of_series(self) -> list[NDArray[np.intp]]:
        """Indices of the readings of each series that may have episodes, in their order."""
        return [self.rows_of(Run(SHIFT, first, stop)) for first, stop in self.bounds if self._owner[first] >= 0]

    @property
    def too_short(self) -> bool:
        """Whether there are too few readings for an episode."""
        return len(self.lengths) == 0

    def columns(self, runs: Sequence[Run]) -> Array:
        """u of each run: what the episode adds to each reading, for an amplitude of 1."""
        heights = np.zeros((self.n_places, len(runs)))
        for k, run in enumerate(runs):
            inside = slice(run.first, run.stop)
            start = self.before[run.first]
            ramp = (self.place[inside] - start) / (self.place[run.stop - 1] - start)
            heights[inside, k] = ramp if run.kind == RAMP else 1.0
        out = np.empty((self.n, len(runs)))
        out[self.rows] = np.repeat(heights, np.diff(self._first, append=self.n), axis=0)
        return out

    def scaled_columns(self, runs: Sequence[Run]) -> Array:
        """U·√V: the outer product of these columns is what episodes add to the covariance.

        An erratic run has a column for its level, and one for each of its readings.
        """
        levels = self.columns(runs) * np.sqrt([run.variance for run in runs])
        each = [self._own_columns(run) for run in runs if run.kind == ERRATIC]
        return np.column_stack([levels, *each])

    def _own_columns(self, run: Run) -> Array:
        """A column for each reading of a run."""
        rows = self.rows_of(run)
        out = np.zeros((self.n, len(rows)))
        out[rows, np.arange(len(rows))] = np.sqrt(run.variance)
        return out

    def rows_of(self, run: Run) -> NDArray[np.intp]:
        """Indices of the readings of an episode, in their order."""
        first = self._first[run.first]
        stop = self.n if run.stop == self.n_places else self._first[run.stop]
        return np.asarray(self.rows[first:stop])

    def episode(self, run: Run, log_odds: float = 0.0) -> Episode:
        """A run as the user knows it, but for the units."""
        return Episode(run.kind, tuple(self.rows_of(run).tolist()), log_odds)

    def summed(self, values: Array) -> Array:
        """Values of the readings, in order, with those at one place added up."""
        in_order = values if self._in_order else values[self.rows]
        return np.asarray(np.add.reduceat(in_order, self._first, axis=0)) if self.n_places < self.n else in_order

    @cached_property
    def longest(self) -> NDArray[np.intp]:
        """Places of the longest run that begins at each of them; 0 where there is none."""
        most = (self.prior.longest_share * (self._ends - self._begins)).astype(np.intp)
        longest = np.minimum(self._ends - np.arange(self.n_places), most)
        return np.asarray(np.where(self._owner >= 0, longest, 0))

    @cached_property
    def log_prior(self) -> dict[str, Array]:
        """log p(kind, run) but for the rate, by first place and length; −∞ where there can be no such run."""
        prior, m = self.prior, self.n_places
        first, length = np.arange(m)[:, None], self.lengths
        stop = first + length
        exactly, at_least = prior.log_length(self._longest)
        at_start, at_end = first == self._begins[:, None], stop == self._ends[:, None]
        ends = np.where(at_start | at_end, at_least[length], exactly[length])
        share = np.log(0.5 * (1.0 - prior.erratic))
        kinds = {SHIFT: share, RAMP: share, ERRATIC: np.log(prior.erratic)}
        if self.events is not None:
            serviced = np.zeros(m + 1 + length[-1], dtype=bool)
            for begin, end in self.bounds:
                at = begin + np.searchsorted(self.times[begin:end], self.events)
                serviced[at[(begin < at) & (at < end)]] = True
            off = float(np.log(prior.off_event))
            # A fault for each such event, not for so many readings: the rate of `log_count` is taken out again.
            # No length scale is known of a fault that lasted until somebody came.
            until_event, _ = prior.log_length(self._longest, tail=1.0)
            until_event += np.log(prior.fault_before_event / prior.rate)
            ends = np.where(serviced[stop], until_event[length], ends + np.where(at_start | at_end, 0.0, off))
            jumps, ends_there = np.log(1.0 - prior.at_event) + off, np.log(prior.at_event)
            kinds = {SHIFT: jumps, RAMP: ends_there, ERRATIC: jumps + np.log(prior.erratic)}
        possible = length <= self.longest[:, None]
        if self.verdict is not None:
            possible &= self._allowed
        found = {kind: np.where(possible, ends - prior.scale_price + price, -np.inf) for kind, price in kinds.items()}
        found[RAMP][:, length < prior.shortest_ramp] = -np.inf
        found[ERRATIC][:, length < prior.shortest_erratic] = -np.inf
        return found

    @cached_property
    def _bad(self) -> Mask:
        """Places whose readings are all known to be bad."""
        bad = np.asarray(np.zeros(self.n) if self.verdict is None else self.verdict == 1.0, dtype=float)
        return np.asarray(self.summed(bad) == self.summed(np.ones(self.n)))

    @cached_property
    def _allowed(self) -> Mask:
        """Runs without a good reading, that do not begin or end between two bad neighbours."""
        good = np.append(0.0, self.summed(np.asarray(self.verdict == 0.0, dtype=float)).cumsum())
        first, stop = np.arange(self.n_places)[:, None], np.minimum(self._stops, self.n_places)
        within = np.append(False, self._bad[:-1] & self._bad[1:] & (np.diff(self._owner) == 0))
        within = np.append(within, False)
        return np.asarray((good[stop] == good[first]) & ~within[first] & ~within[stop])

    def covering(self, run: Run) -> Mask:
        """Runs with all bad readings of a run."""
        bad = np.append(0, self._bad.cumsum())
        first, stop = np.maximum(np.arange(self.n_places)[:, None], run.first), np.minimum(self._stops, run.stop)
        return np.asarray(bad[np.maximum(stop, first)] - bad[first] == bad[run.stop] - bad[run.first])

    def sharing_most(self, run: Run) -> Mask:
        """Runs that share more than half of the places of the longer of the two with a run."""
        return run.shares_most_with(np.arange(self.n_places)[:, None], self._stops)

    @property
    def _stops(self) -> NDArray[np.intp]:
        return np.arange(self.n_places)[:, None] + self.lengths

    def bad_stretches(self) -> Mask:
        """Readings in runs of bad neighbours that are long enough for an episode."""
        edges = np.append(True, (np.diff(self._bad) != 0) | (np.diff(self._owner) != 0))
        of = edges.cumsum() - 1
        long = self._bad & (np.bincount(of)[of] >= self.prior.shortest)
        out = np.empty(self.n, dtype=bool)
        out[self.rows] = np.repeat(long, np.diff(self._first, append=self.n))
        return out

    def log_prior_of(self, runs: Sequence[Run]) -> float:
        """log p(these episodes); −∞ where one of them cannot be, or all of them together."""
        value = self.prior.log_count(len(runs), self.n) if self.places_left(runs) >= 0 else -np.inf
        for run in runs:
            at = run.stop - run.first - self.prior.shortest
            known = 0 <= at < len(self.lengths)
            value += float(self.log_prior[SHIFT if run.kind == STEP else run.kind][run.first, at]) if known else -np.inf
        return value

    def places_left(self, runs: Sequence[Run]) -> int:
        """How many further places may be in an episode; negative where these have too many."""
        if self.events is not None:
            return self.n_places
        return int(self.prior.longest_share * self.n_places) - sum(run.stop - run.first for run in runs)

    def named(self, kind: str, first: int, stop: int) -> str:
        """A shift that lasts to the end of the record is a step."""
        return STEP if kind == SHIFT and stop == self._ends[first] else kind

    def stuck_runs(self, y: Array, repeats_expected: float = 1.0) -> list[Episode]:
        """Runs of equal readings that are too long for chance, in each series on its own; good ones break them."""
        found, good = [], np.zeros(self.n, dtype=bool) if self.verdict is None else self.verdict == 0.0
        for begin, end in self.bounds:
            rows = self.rows_of(Run(STUCK, begin, end))
            if self.series[rows[0]] >= 0:
                found += _stuck_in(rows, np.where(good, np.nan, y), self.prior, repeats_expected)
        return found


@dataclass(frozen=True)
class Episode:
    """A bias that lasts over consecutive readings.

    Attributes
    ----------
    kind : {"stuck", "shift", "step", "ramp", "erratic"}
        The value repeats; a constant bias; the same up to the end of the record; a bias that grows linearly and ends;
        values that jump about.
    rows : tuple of int
        Indices of its readings, in their order.
    log_odds : float
        Log odds against the best explanation without it (for a stuck sensor, against repeats by chance).
    start, stop : float or str
        The ordering variable at its first and at its last reading; a time as ISO 8601 text (UTC where it has a zone).
    bias, bias_std : float
        Of its readings, in y's unit, given the other episodes of the same explanation: at the end of a ramp, and the
        mean of y − f for a stuck or erratic sensor.
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


def outside(episodes: list[Episode], n: int) -> Mask:
    """Readings that are in none of these."""
    kept = np.ones(n, dtype=bool)
    kept[[row for each in episodes for row in each.rows]] = False
    return kept


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
        # A sensor that leaves its value for a reading or two is stuck twice: neither speaks for the other.
        gap = np.maximum(begins - begins[run] - length, begins[run] - begins - lengths)
        same_value = chance & (values == values[run]) & (gap > prior.interrupted)
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
