"""A fitted sparse bias model that goes on, reading after reading: labels that are revised over a fixed lag.

In the model's units, and in order of time. `covariance/markov_live.py` has the compiled steps; here is what they are
given: the gaps of the readings, what an outlier and an episode are, and late readings in their place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.covariance import markov_live as core
from biasgp.covariance.markov import MarkovEngine, state_space_of
from biasgp.kernels import Kernel
from biasgp.models.episodes import EpisodePrior
from biasgp.models.sparse.kinds import Group

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

    Noise is infinite where a reading is missing.
    """

    number: NDArray[np.int64]
    raw: Array
    X: Array
    z: Array
    noise: Array

    def rows(self, rows: Any) -> LiveReadings:
        return LiveReadings(*(part[rows] for part in self))


def prices_of(prior: EpisodePrior) -> core.Prices:
    """What a shift costs by the prior of episodes, in nats: it begins at one given reading of a record that has any."""
    start = math.log(prior.rate) + math.log1p(-prior.faultless) + math.log(0.5) - prior.scale_price
    return core.Prices(start, prior.typical_length, prior.shortest)


@dataclass
class LiveFilter:
    """The state of a stream: what is settled, and a window of the last `lag` readings that are not.

    `groups` and `replaced` are what an outlier is; without groups no reading is one, and nothing is ever revised.
    `settled` (state, its covariance, facts) and `window` are arrays that the compiled steps change in place.
    """

    kernel: Kernel
    width: int
    groups: tuple[Group, ...]
    replaced: bool
    lag: int
    settled: core.Settled = field(init=False)
    window: core.Window = field(init=False)
    counts: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self._prepare()
        size, S = self._form.size, self._form.size + 1
        self.window = core.empty_window(size, _SPARE * (self.lag + 1))
        self.counts = np.zeros(2, dtype=np.int64)
        covariance = np.zeros((S, S))
        covariance[:size, :size] = self._form.prior
        self.settled = core.Settled(np.zeros(S), covariance, np.array([np.nan, 0.0, np.nan, 0.0]))

    def _prepare(self) -> None:
        """What follows from the parameters."""
        self._form = state_space_of(self.kernel, np.zeros((1, self.width)))
        if self._form.column is None and self.width > 1:
            raise ValueError(f"{self.kernel!r} has no column of time: a stream needs one, as in Matern32().on('time').")
        self.column = self._form.column or 0
        self._steps = core.steps(self._form.size)
        self._gaps: dict[float, tuple[Array, Array]] = {}
        shares = np.array([group.share for group in self.groups])
        odds = core.Odds(
            np.log(shares),
            np.array([group.mean for group in self.groups]),
            np.array([group.variance for group in self.groups]),
            self.replaced,
            math.log1p(-float(shares.sum())),
        )
        self._rules = (odds, prices_of(EpisodePrior()), self.lag)

    def __getstate__(self) -> dict[str, Any]:
        """Small: the readings of the window without room to grow, and nothing that can be made again."""
        first, count = self.counts
        names = ("kernel", "width", "groups", "replaced", "lag")
        state = {name: getattr(self, name) for name in names}
        state["settled"] = {name: part.copy() for name, part in self.settled._asdict().items()}
        state["window"] = {name: part[first : first + count].copy() for name, part in self.window._asdict().items()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not all(type(state[name]) is int and 1 <= state[name] <= _MOST for name in ("lag", "width")):
            raise ValueError("lag and width are not numbers that a stream has")
        for name in ("kernel", "width", "groups", "replaced", "lag"):
            setattr(self, name, state[name])
        self.__post_init__()
        _fill(self.settled, state["settled"])
        count = len(state["window"]["t"])
        if count > self.lag:
            raise ValueError("more readings are open than the lag allows")
        _fill(core.Window(*(part[:count] for part in self.window)), state["window"])
        self.counts[core.COUNT] = count

    def is_sound(self) -> bool:
        """Whether the numbers can be computed with: those of a file may be any."""
        W = core.Window(*(part[: self.n_open] for part in self.window))
        finite = (*self.settled[:2], W.y, W.t, W.h, W.A, W.Q, W.m, W.P, W.ma, W.Pa, W.v)
        fine = all(bool((np.abs(part) <= _LARGEST).all()) for part in finite)
        fine = fine and bool((W.R >= 0.0).all() and (W.V >= 0.0).all() and (np.diff(W.t) >= 0.0).all())
        shares = [group.share for group in self.groups]
        fine = fine and all(0.0 < share < 1.0 for share in shares) and sum(shares) < 1.0
        return fine and all(group.variance > 0.0 and abs(group.mean) <= _LARGEST for group in self.groups)

    @property
    def n_open(self) -> int:
        """Readings that are not settled."""
        return int(self.counts[core.COUNT])

    @property
    def last_time(self) -> float:
        """Of the last reading; NaN before the first."""
        first, count = self.counts
        return float(self.window.t[first + count - 1] if count else self.settled.facts[core.TIME])

    @property
    def settled_time(self) -> float:
        """Of the last settled reading: none before it can be taken in. NaN where none is settled."""
        return float(self.settled.facts[core.TIME])

    def times(self, X: Array) -> Array:
        return X[:, self.column]

    def begin_after(self, X: Array, y: Array, noise: Array) -> None:
        """Settle on the state after these readings, those with infinite noise left out."""
        if not len(X):
            return
        K = MarkovEngine(self.kernel, X).covariance(self.kernel, noise)
        mean, covariance = K.state_after(y)
        self.settled.mean[:-1], self.settled.covariance[:-1, :-1] = mean, covariance
        self.settled.facts[core.TIME] = self.times(X).max()

    def begin_episode(self, since: float, variance: float) -> None:
        """What follows what is settled is in an episode, whose amplitude has this prior variance."""
        self.settled.mean[-1] = 0.0
        self.settled.covariance[-1], self.settled.covariance[:, -1] = 0.0, 0.0
        self.settled.covariance[-1, -1] = variance
        self.settled.facts[core.IN_EPISODE], self.settled.facts[core.SINCE] = 1.0, since

    def push(self, readings: LiveReadings) -> tuple[Array, Array]:
        """Verdicts on each reading as it came (NaN where it was too late), and on those that are settled now."""
        times = self.times(readings.X)
        if len(times) == 1 and times[0] >= self.last_time:
            return self._advance(readings, times)
        order = np.argsort(times, kind="stable")
        verdicts, settled = np.full((len(times), core.N_COLUMNS), np.nan), []
        verdicts[:, [core.NUMBER, core.AT, core.RAW]] = np.column_stack([readings.number, times, readings.raw])
        too_late, late = times[order] < self.settled_time, times[order] < self.last_time
        for place in order[late & ~too_late]:
            verdicts[place], found = self._insert(readings.rows([place]))
            settled.append(found)
        rest = order[~late]
        verdicts[rest], found = self._advance(readings.rows(rest), times[rest])
        return verdicts, np.concatenate([*settled, found])

    def open_verdicts(self) -> Array:
        """On the readings of the window, as they stand."""
        out = np.empty((self.n_open, core.N_COLUMNS))
        self._steps.look(self.window, self.counts, self._rules[0], out)
        return out

    def _insert(self, late: LiveReadings) -> tuple[Array, Array]:
        """The window once more, with a late reading in its place."""
        first, count = self.counts
        W = self.window
        t = self.times(late.X)
        at = int(np.searchsorted(W.t[first : first + count], t[0], side="right"))

        def joined(name: str, value: Any) -> Any:
            return np.insert(getattr(W, name)[first : first + count], at, value, axis=0)

        own = {"number": late.number, "raw": late.raw, "t": t, "y": _limited(late.z), "R": late.noise}
        parts = [joined(name, value) for name, value in own.items()]
        h = joined("h", self._form.observe(late.X))
        self.counts[:] = 0
        which, A, Q = self._moves(parts[2])
        verdicts, settled = self._take(core.Coming(*parts, h, which, A, Q))
        return verdicts[at], settled

    def _advance(self, readings: LiveReadings, times: Array) -> tuple[Array, Array]:
        which, A, Q = self._moves(times)
        h = np.ascontiguousarray(self._form.observe(readings.X))
        y = _limited(readings.z)
        return self._take(core.Coming(readings.number, readings.raw, times, y, readings.noise, h, which, A, Q))

    def _take(self, coming: core.Coming) -> tuple[Array, Array]:
        n = len(coming.t)
        arrivals, settled = np.empty((n, core.N_COLUMNS)), np.empty((n, core.N_COLUMNS))
        out = (arrivals, settled)
        done = self._steps.advance(coming, self.window, self.settled, self.counts, self._rules, out)
        return arrivals, settled[:done]

    def _moves(self, times: Array) -> tuple[NDArray[np.intp], Array, Array]:
        """Which gap is before each reading, and A and Q of every different one."""
        last = self.last_time
        if len(times) == 1:
            gap = float(times[0] - last) if last == last else 0.0
            if gap not in self._gaps:
                if len(self._gaps) >= _MOST_GAPS:
                    self._gaps.clear()
                self._gaps[gap] = self._moved(np.array([gap]))
            return np.zeros(1, dtype=np.intp), *self._gaps[gap]
        gaps = np.diff(times, prepend=last if last == last else times[:1])
        lengths, which = np.unique(gaps, return_inverse=True)
        return which, *self._moved(lengths)

    def _moved(self, gaps: Array) -> tuple[Array, Array]:
        A, Q = self._form.move(gaps)
        return np.ascontiguousarray(A), np.ascontiguousarray(Q)


def _limited(z: Array) -> Array:
    return np.clip(z, -_FARTHEST, _FARTHEST)


def _fill(arrays: Any, saved: dict[str, Any]) -> None:
    """Copy saved arrays in, which must have the shapes and types that there is room for."""
    for name, part in arrays._asdict().items():
        value = saved[name]
        if not isinstance(value, np.ndarray) or value.shape != part.shape or value.dtype != part.dtype:
            raise ValueError(f"{name} is not as the kernel's state needs it")
        part[...] = value
