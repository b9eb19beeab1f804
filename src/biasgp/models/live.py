"""A fitted sparse bias model that goes on, reading after reading: labels that are revised over a fixed lag.

In the model's units, and in order of time. `covariance/markov_live.py` has the compiled steps; here is what they are
given: the gaps of the readings, what an outlier and an episode are, and late readings in their place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.covariance import markov_live as core
from biasgp.covariance import markov_window as place
from biasgp.covariance.markov import MarkovEngine, state_space_of
from biasgp.kernels import Kernel
from biasgp.models.episodes import EpisodePrior
from biasgp.models.sparse.kinds import PRIOR, Group

_SPARE = 4
"""Places in the window per reading of the lag: it is moved to the front once in so many lags."""
_MOST_GAPS = 256
"""Different gaps between readings that are remembered: regular times have one, but for rounding."""
_MOST = 1000
"""Readings of a lag, and columns of X, in a file."""
_LARGEST = 1e160
"""Of the numbers in a file."""
_FARTHEST = 1e150
"""Of a reading from the centre, in units of the spread, so that it can be squared."""


class LiveReadings(NamedTuple):
    """Readings: numbers by which they are known, values as they came, rows of X, values and noise in model units.

    Noise is infinite where a reading is missing. Verdicts are good (0), bad (1) or open (NaN).
    """

    number: NDArray[np.int64]
    raw: Array
    X: Array
    z: Array
    noise: Array
    verdict: Array

    def rows(self, rows: Any) -> LiveReadings:
        return LiveReadings(*(part[rows] for part in self))


class Kind(NamedTuple):
    """A kind of outlier: its share, mean and variance of its bias, or of its value if that was replaced."""

    share: float
    mean: float
    variance: float
    replaced: bool = False

    @classmethod
    def all_of(cls, groups: Sequence[Group], replaced: bool, n: int) -> tuple[Kind, ...]:
        """The kinds of outlier of a fit to n readings, and one for those that it has not seen."""
        unseen = PRIOR.unseen(n)
        seen = (cls((1.0 - unseen.share) * g.share, g.mean, g.variance, replaced) for g in groups)
        return (*seen, cls(unseen.share, unseen.mean, unseen.variance))


def _rules(groups: Array, lag: int, prior: EpisodePrior = EpisodePrior()) -> Array:  # noqa: B008
    """What labels and episodes cost, in nats, as `markov_window` has it.

    A shift begins at one given reading of a record that has any, by the prior of episodes.
    """
    rules = np.zeros(6)
    share = float(np.exp(groups[:, place.SHARE]).sum())
    rules[place.CLEAN] = math.log1p(-share)
    # A shifted outlier is nowhere more likely than a clean reading without residual.
    if len(groups) and not groups[:, place.REPLACED].any():
        rules[place.SAFE] = max(-2.0 * (math.log(share) - rules[place.CLEAN]), 0.0)
    rules[place.START] = math.log(prior.rate) + math.log1p(-prior.faultless) + math.log(0.5) - prior.scale_price
    rules[place.TYPICAL], rules[place.SHORTEST], rules[place.LAG] = prior.typical_length, prior.shortest, lag
    return rules


@dataclass
class LiveFilter:
    """The state of a stream: what is settled, and a window of the last `lag` readings that are not.

    `kinds` are what an outlier is; without any no reading is one, and nothing is ever revised.
    `settled` (state, its covariance, facts) and `window` are arrays that the compiled steps change in place.
    """

    kernel: Kernel
    width: int
    kinds: tuple[Kind, ...]
    lag: int
    settled: core._Settled = field(init=False)
    window: place.Window = field(init=False)
    counts: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self._prepare()
        size, S = self._form.size, self._form.size + 1
        self.window = place.Window.empty(size, _SPARE * (self.lag + 1))
        self.counts = np.zeros(2, dtype=np.int64)
        covariance = np.zeros((S, S))
        covariance[:size, :size] = self._form.prior
        self.settled = core._Settled(np.zeros(S), covariance, np.array([np.nan, 0.0, np.nan, 0.0]))

    def _prepare(self) -> None:
        """What follows from the parameters."""
        self._form = state_space_of(self.kernel, np.zeros((1, self.width)))
        if self._form.column is None and self.width > 1:
            raise ValueError(f"{self.kernel!r} has no column of time: a stream needs one, as in Matern32().on('time').")
        self.column = self._form.column or 0
        self._gaps: dict[float, Array] = {}
        rows = [(math.log(kind.share), kind.mean, kind.variance, float(kind.replaced)) for kind in self.kinds]
        groups = np.array(rows).reshape(-1, 4)
        self._given = (groups, _rules(groups, self.lag), (0,) * self._form.size)

    def __getstate__(self) -> dict[str, Any]:
        """Small: the readings of the window without room to grow, and nothing that can be made again."""
        first, count = self.counts
        state: dict[str, Any] = {name: getattr(self, name) for name in ("kernel", "width", "lag")}
        state["kinds"] = np.array(self.kinds, dtype=float).reshape(-1, 4)
        state["settled"] = {name: part.copy() for name, part in self.settled._asdict().items()}
        state["window"] = {name: part[first : first + count].copy() for name, part in self.window._asdict().items()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not all(type(state[name]) is int and 1 <= state[name] <= _MOST for name in ("lag", "width")):
            raise ValueError("lag and width are not numbers that a stream has")
        self.kernel, self.width, self.lag = state["kernel"], state["width"], state["lag"]
        kinds = state["kinds"].tolist()
        self.kinds = tuple(Kind(share, mean, variance, replaced > 0.0) for share, mean, variance, replaced in kinds)
        self.__post_init__()
        _fill(self.settled, state["settled"])
        count = len(state["window"]["facts"])
        if count > self.lag:
            raise ValueError("more readings are open than the lag allows")
        _fill(place.Window(*(part[:count] for part in self.window)), state["window"])
        self.counts[core.COUNT] = count

    def is_sound(self) -> bool:
        """Whether the numbers can be computed with: those of a file may be any."""
        W = place.Window(*(part[: self.n_open] for part in self.window))
        facts = W.facts.T
        finite = (*self.settled[:2], W.h, W.gaps, W.means, W.covs, facts[place.TIME], facts[place.VALUE])
        fine = all(bool((np.abs(part) <= _LARGEST).all()) for part in finite)
        fine = fine and bool((facts[place.NOISE] >= 0.0).all() and (facts[place.DRAWN] >= 0.0).all())
        fine = fine and bool((np.diff(facts[place.TIME]) >= 0.0).all())
        verdict = facts[place.VERDICT]
        fine = fine and bool((np.isnan(verdict) | (verdict == 0.0) | (verdict == 1.0)).all())
        fine = fine and sum(kind.share for kind in self.kinds) < 1.0
        return fine and all(0.0 < kind.variance <= _LARGEST and abs(kind.mean) <= _LARGEST for kind in self.kinds)

    @property
    def n_open(self) -> int:
        """Readings that are not settled."""
        return int(self.counts[core.COUNT])

    @property
    def last_time(self) -> float:
        """Of the last reading; NaN before the first."""
        first, count = self.counts
        return float(self.window.facts[first + count - 1, place.TIME] if count else self.settled_time)

    @property
    def settled_time(self) -> float:
        """Of the last settled reading: none before it can be taken in. NaN where none is settled."""
        return float(self.settled.facts[core.WHEN])

    def times(self, X: Array) -> Array:
        return X[:, self.column]

    def begin_after(self, X: Array, y: Array, noise: Array) -> None:
        """Settle on the state after these readings, those with infinite noise left out."""
        if not len(X):
            return
        K = MarkovEngine(self.kernel, X).covariance(self.kernel, noise)
        mean, covariance = K.state_after(y)
        self.settled.mean[:-1], self.settled.covariance[:-1, :-1] = mean, covariance
        self.settled.facts[core.WHEN] = self.times(X).max()

    def begin_episode(self, since: float, variance: float) -> None:
        """What follows what is settled is in an episode, whose amplitude has this prior variance."""
        self.settled.mean[-1] = 0.0
        self.settled.covariance[-1], self.settled.covariance[:, -1] = 0.0, 0.0
        self.settled.covariance[-1, -1] = variance
        self.settled.facts[core.INSIDE], self.settled.facts[core.BEGUN] = 1.0, since

    def push(self, readings: LiveReadings) -> tuple[Array, Array]:
        """Verdicts on each reading as it came (NaN where it was too late), and on those that are settled now."""
        times = self.times(readings.X)
        if len(times) == 1 and times[0] >= self.last_time:
            return self._advance(readings)
        order = np.argsort(times, kind="stable")
        verdicts, settled = np.full((len(times), core.N_COLUMNS), np.nan), []
        verdicts[:, [core.WHICH, core.AT, core.RAW]] = np.column_stack([readings.number, times, readings.raw])
        too_late, late = times[order] < self.settled_time, times[order] < self.last_time
        for row in order[late & ~too_late]:
            verdicts[row], found = self._insert(readings.rows([row]))
            settled.append(found)
        rest = order[~late]
        verdicts[rest], found = self._advance(readings.rows(rest))
        return verdicts, np.concatenate([*settled, found])

    def open_verdicts(self) -> Array:
        """On the readings of the window, as they stand."""
        out = np.empty((self.n_open, core.N_COLUMNS))
        core.look(self.window, self.counts, self._given, out)
        return out

    def judge(self, numbers: NDArray[np.int64], verdict: Array) -> None:
        """The window once more, with verdicts on those of its readings that have these numbers."""
        first, count = self.counts
        facts, h = (part[first : first + count].copy() for part in self.window[:2])
        for number, said in zip(numbers, verdict, strict=True):
            facts[facts[:, place.NUMBER] == number, place.VERDICT] = said
        self.counts[:] = 0
        self._take(np.ascontiguousarray(facts[:, : place.N_GIVEN]), h)

    def _insert(self, late: LiveReadings) -> tuple[Array, Array]:
        """The window once more, with a late reading in its place."""
        first, count = self.counts
        facts, h = (part[first : first + count] for part in self.window[:2])
        own, own_h = self._given_facts(late), self._form.observe(late.X)
        at = int(np.searchsorted(facts[:, place.TIME], own[0, place.TIME], side="right"))
        facts, h = np.insert(facts[:, : place.N_GIVEN], at, own, axis=0), np.insert(h, at, own_h, axis=0)
        self.counts[:] = 0
        verdicts, settled = self._take(facts, h)
        return verdicts[at], settled

    def _advance(self, readings: LiveReadings) -> tuple[Array, Array]:
        return self._take(self._given_facts(readings), np.ascontiguousarray(self._form.observe(readings.X)))

    def _given_facts(self, readings: LiveReadings) -> Array:
        facts = np.empty((len(readings.z), place.N_GIVEN))
        facts[:, place.NUMBER], facts[:, place.RAW] = readings.number, readings.raw
        facts[:, place.TIME], facts[:, place.NOISE] = self.times(readings.X), readings.noise
        facts[:, place.VERDICT] = readings.verdict
        np.clip(readings.z, -_FARTHEST, _FARTHEST, out=facts[:, place.VALUE])
        return facts

    def _take(self, facts: Array, h: Array) -> tuple[Array, Array]:
        """Readings in order of time, none before the last of the window."""
        which, gaps = self._moves(facts[:, place.TIME])
        out = np.empty((2, len(facts), core.N_COLUMNS))
        done = core.advance(
            core._Coming(facts, h, which, gaps), self.window, self.settled, self.counts, self._given, (out[0], out[1])
        )
        return out[0], out[1, :done]

    def _moves(self, times: Array) -> tuple[NDArray[np.intp], Array]:
        """Which gap is before each reading, and A and Q of every different one."""
        last = self.last_time
        if len(times) == 1:
            gap = float(times[0] - last) if last == last else 0.0
            if gap not in self._gaps:
                if len(self._gaps) >= _MOST_GAPS:
                    self._gaps.clear()
                self._gaps[gap] = np.stack(self._form.move(np.array([gap])), axis=1)
            return _ONLY, self._gaps[gap]
        gaps = np.diff(times, prepend=last if last == last else times[:1])
        lengths, which = np.unique(gaps, return_inverse=True)
        return which, np.stack(self._form.move(lengths), axis=1)


_ONLY = np.zeros(1, dtype=np.intp)
"""The place of the only gap."""


def _fill(arrays: Any, saved: dict[str, Any]) -> None:
    """Copy saved arrays in, which must have the shapes and types that there is room for."""
    for name, part in arrays._asdict().items():
        value = saved[name]
        if not isinstance(value, np.ndarray) or value.shape != part.shape or value.dtype != part.dtype:
            raise ValueError(f"{name} is not as the kernel's state needs it")
        part[...] = value


class Pushed(NamedTuple):
    """Readings as they came: their numbers, rows of X, values, known variances, and verdicts."""

    number: NDArray[np.int64]
    X: Array
    y: Array
    known: Array
    verdict: Array

    def rows(self, rows: Any) -> Pushed:
        return Pushed(*(part[rows] for part in self))


def _pushed(rows: Array) -> Pushed:
    """From the rows of a memory: number, value, known variance, verdict, X."""
    return Pushed(rows[:, 0].astype(np.int64), rows[:, 4:], *rows[:, 1:4].T)


class Memory:
    """The last readings, at most so many, as they came."""

    def __init__(self, most: int, width: int) -> None:
        self.most, self.width, self.count = most, width, 0
        self._rows = np.empty((2 * most, 4 + width))
        self._first = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"most": self.most, "width": self.width, "rows": self._last.copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["most"], state["width"])  # type: ignore[misc]
        self.add(_pushed(state["rows"]))

    @property
    def _last(self) -> Array:
        return self._rows[self._first : self._first + self.count]

    def readings(self) -> Pushed:
        """A copy."""
        return _pushed(self._last.copy())

    def add(self, readings: Pushed) -> None:
        """Readings join; the oldest leave."""
        n = min(len(readings.y), self.most)
        if self._first + self.count + n > len(self._rows):
            kept = self._last[max(self.count + n - self.most, 0) :].copy()
            self._first, self.count = 0, len(kept)
            self._rows[: len(kept)] = kept
        new = self._rows[self._first + self.count : self._first + self.count + n]
        if n:
            new[:, 0], new[:, 1], new[:, 2] = readings.number[-n:], readings.y[-n:], readings.known[-n:]
            new[:, 3], new[:, 4:] = readings.verdict[-n:], readings.X[-n:]
        over = max(self.count + n - self.most, 0)
        self._first, self.count = self._first + over, self.count + n - over

    def judge(self, numbers: NDArray[np.int64], verdict: Array) -> None:
        """Keep verdicts on readings."""
        for number, said in zip(numbers, verdict, strict=True):
            self._last[self._last[:, 0] == number, 3] = said
