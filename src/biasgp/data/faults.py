"""Simulated sensors whose faults last: shifts, steps, ramps, stuck and erratic values, with the truth known."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_uppercase

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array, Mask
from biasgp.kernels import Exponential, Matern32, SquaredExponential

_SIGNALS = {"matern32": Matern32, "squared exponential": SquaredExponential, "exponential": Exponential}
TIMES = ("even", "uneven", "gaps")
_SPIKE_SIZE = 10.0
"""Bias of an isolated outlier, in standard deviations of the noise."""
_PEAKS, _PEAK_HEIGHT, _PEAK_WIDTH = 4, 3.0, 4.5
"""Sharp true peaks of a signal that has them: how many, how high in its standard deviations, how wide in readings."""
_MOST_AT_ONCE = 2000
"""Readings of a signal that are drawn at once, by the eigenvectors of their covariance."""
MARGIN = 5
"""Readings between faults, and between a fault and the ends of the record, at least."""
_GAPS, _GAP_LENGTH = 3, 40.0
"""Gaps in the record, and how long each is in readings."""


@dataclass(frozen=True)
class FaultScenario:
    """A record of readings of a random signal, and the faults in it.

    `size` is that of a bias (of a ramp, at its end) in standard deviations of the noise; its sign is random. `kind` is
    "shift", "step" (the last fault lasts to the end of the record), "ramp", "stuck", "erratic" (`size` is the standard
    deviation of each reading's own bias), or "none". `outliers` is the share of the other readings that are single
    outliers. `resolution`, in the same unit, quantises the readings.
    """

    kind: str = "shift"
    size: float = 5.0
    lengths: tuple[int, int] = (15, 40)
    count: int = 2
    outliers: float = 0.0
    n: int = 400
    noise: float = 0.3
    signal: str = "matern32"
    length_scale: float = 30.0
    peaks: bool = False
    resolution: float = 0.0
    times: str = "even"

    def draw(self, *, random_state: int | np.random.Generator = 0) -> FaultySeries:
        """One record."""
        rng, n = np.random.default_rng(random_state), self.n
        t = _times(self.times, n, rng)
        f = _signal(self, t, rng)
        y = f + self.noise * rng.standard_normal(n)
        faults = tuple(_places(self, rng))
        bias = np.zeros(n)
        for first, stop in faults:
            if self.kind == "stuck":
                bias[first:stop], y[first:stop] = y[first] - y[first:stop], y[first]
                continue
            shape = _shape(self.kind, stop - first, rng)
            bias[first:stop] = rng.choice([-1.0, 1.0]) * self.size * self.noise * shape
        is_outlier = np.zeros(n, dtype=bool)
        single = np.flatnonzero(bias == 0.0)
        is_outlier[rng.choice(single, round(self.outliers * len(single)), replace=False)] = True
        bias[is_outlier] = _SPIKE_SIZE * self.noise
        y = y + (bias if self.kind != "stuck" else np.where(is_outlier, bias, 0.0))
        if self.resolution:
            step = self.resolution * self.noise
            y = step * np.round(y / step)
        return FaultySeries(t, y, f, bias, faults, is_outlier)


def _shape(kind: str, length: int, rng: np.random.Generator) -> Array:
    """The bias of each reading of a fault, in units of its size."""
    if kind == "erratic":
        return rng.standard_normal(length)
    return np.arange(1, length + 1) / length if kind == "ramp" else np.ones(length)


@dataclass(frozen=True)
class FaultySeries:
    """Readings y at times t, the truth f, the bias of each reading, and first row and end (exclusive) of each fault."""

    t: Array
    y: Array
    f: Array
    bias: Array
    faults: tuple[tuple[int, int], ...]
    is_outlier: Mask

    @property
    def is_clean(self) -> Mask:
        """Readings without a fault, single outliers not counted."""
        clean = np.ones(len(self.t), dtype=bool)
        for first, stop in self.faults:
            clean[first:stop] = False
        return clean & ~self.is_outlier


@dataclass(frozen=True)
class TogetherScenario:
    """Co-located sensors that share a signal, one of which drifts by as smooth a path as the signal's.

    `record` is what each of them would read. The drift takes a share of it, at a random place, and reaches `size`
    standard deviations of the noise; it returns to zero, or (`stays`) grows steadily and stays where it got to.
    """

    record: FaultScenario = FaultScenario(kind="none", n=130)
    sensors: int = 3
    size: float = 5.0
    share: float = 0.5
    stays: bool = False

    def draw(self, *, random_state: int | np.random.Generator = 0) -> _TogetherSeries:
        """One record of each sensor; they are called A, B, C …"""
        rng, record, k = np.random.default_rng(random_state), self.record, self.sensors
        if not 1 <= k <= len(ascii_uppercase) or not 0.0 < self.share <= 1.0:
            raise ValueError(f"A scenario has 1 to 26 sensors and a share of 0 to 1, got {k} and {self.share}.")
        t = _times(record.times, record.n, rng)
        f = _signal(record, t, rng)
        length = max(2, round(self.share * record.n))
        first = int(rng.integers(record.n - length + 1))
        phase = (np.arange(length) + 0.5) / length
        drift = np.zeros(record.n)
        if self.stays:
            drift[first:] = rng.choice([-1.0, 1.0])
            drift[first : first + length] *= phase**2 * (3.0 - 2.0 * phase)
        else:
            drift[first : first + length] = _signal(record, t, rng)[:length] * np.sin(np.pi * phase) ** 2
        which = int(rng.integers(k))
        bias = np.zeros((k, record.n))
        bias[which] = self.size * record.noise * drift / np.abs(drift).max()
        y = f + bias + record.noise * rng.standard_normal(bias.shape)
        names = np.array(list(ascii_uppercase[:k]))
        return _TogetherSeries(
            np.tile(t, k), np.repeat(names, record.n), y.ravel(), np.tile(f, k), bias.ravel(), str(names[which])
        )


@dataclass(frozen=True)
class _TogetherSeries:
    """Readings y of all sensors at times t, sensor after sensor; the truth f, each bias, and the one that drifts."""

    t: Array
    sensor: NDArray[np.str_]
    y: Array
    f: Array
    bias: Array
    drifting: str


def _times(kind: str, n: int, rng: np.random.Generator) -> Array:
    """Times of about one reading per unit."""
    if kind not in TIMES:
        raise ValueError(f"times must be one of {', '.join(TIMES)}, got {kind!r}.")
    steps = rng.exponential(size=n) if kind == "uneven" else np.ones(n)
    if kind == "gaps":
        steps[rng.choice(n, _GAPS, replace=False)] += _GAP_LENGTH
    return np.asarray(np.cumsum(steps))


def _signal(scenario: FaultScenario, t: Array, rng: np.random.Generator) -> Array:
    """A draw of unit variance, perhaps with sharp peaks."""
    if len(t) > _MOST_AT_ONCE:
        f = _long_signal(scenario, t, rng)
    else:
        kernel = _SIGNALS[scenario.signal](variance=1.0, length_scale=scenario.length_scale).bind(t[:, None])
        values, vectors = np.linalg.eigh(kernel(t[:, None]))
        f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(len(t)))
    for place in rng.choice(t, _PEAKS, replace=False) if scenario.peaks else ():
        f += _PEAK_HEIGHT * np.exp(-0.5 * ((t - place) / _PEAK_WIDTH) ** 2)
    return np.asarray(f)


def _long_signal(scenario: FaultScenario, t: Array, rng: np.random.Generator) -> Array:
    """A draw from the Matérn 3/2 kernel, reading by reading: value and slope are a Markov process."""
    if scenario.signal != "matern32":
        raise ValueError(f"More than {_MOST_AT_ONCE} readings are drawn of matern32 only, got {scenario.signal!r}.")
    rate = np.sqrt(3.0) / scenario.length_scale
    stationary = np.diag([1.0, rate**2])
    state, f = np.sqrt(stationary.diagonal()) * rng.standard_normal(2), np.empty(len(t))
    for i, step in enumerate(np.diff(t, prepend=t[0])):
        move = np.exp(-rate * step) * np.array([[1.0 + rate * step, step], [-(rate**2) * step, 1.0 - rate * step]])
        values, vectors = np.linalg.eigh(stationary - move @ stationary @ move.T)
        state = move @ state + vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(2))
        f[i] = state[0]
    return f


def _places(scenario: FaultScenario, rng: np.random.Generator) -> list[tuple[int, int]]:
    """First and last-plus-one reading of each fault; they do not touch."""
    places: list[tuple[int, int]] = []
    while len(places) < (0 if scenario.kind == "none" else scenario.count):
        length = int(rng.integers(scenario.lengths[0], scenario.lengths[1] + 1))
        to_the_end = scenario.kind == "step" and not places
        first = scenario.n - length if to_the_end else int(rng.integers(MARGIN, scenario.n - length - MARGIN))
        stop = first + length
        if all(stop + MARGIN <= other or last + MARGIN <= first for other, last in places):
            places.append((first, stop))
    return places
