"""Which kernel of time: Matérn 3/2 alone, or with cycles of known periods and a trend, by evidence on some readings.

Outliers must not decide, so the rough sparse-bias fit of the plain kernel says first which readings to leave out. On
those that are left, parts are added to the kernel one at a time, the best first, as long as the log marginal likelihood
rises by more than the BIC penalty of their parameters, ½ log n each (Schwarz 1978): Laplace's approximation to what
their priors cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.covariance.dense_engine import DenseEngine
from biasgp.kernels import Kernel, Linear, Periodic
from biasgp.models.gaussian import Likelihood
from biasgp.models.problem import Problem
from biasgp.models.strategy import covariance_bounds, covariance_starts, search
from biasgp.models.transform_choice import rough_fit
from biasgp.response import ScaledResponse

TREND = "trend"


@dataclass(frozen=True)
class _ChoicePolicy:
    """On which readings, and from when on a cycle can be told from anything else."""

    most_rows: int = 300  # as for transforms: the choice takes a few seconds of a fit
    fewest_rows: int = 40  # good ones; with fewer nothing is added
    fewest_cycles: float = 4.0  # that the readings must span: of fewer, a smooth function is as likely
    per_cycle: float = 4.0  # gaps between readings, at least: a cycle has a rise and a fall
    most_cycles: float = 60.0
    """Of the shortest period, in the window whose readings are taken: over more, they would be too far apart to show
    what varies within a cycle."""
    max_iter: int = 40
    least_length: float = 0.5
    """Length-scale of a cycle at least, in radii: of a day, about two hours. A narrower peak at the same time of each
    day is a regular check rather than the truth."""
    start: float = 0.3  # variance of a part to start from, in units of the (scaled) response's
    same: float = 0.1  # log evidence that two searches may differ by
    points: int = 97  # of a cycle at which its size is measured: every quarter of an hour of a day


POLICY = _ChoicePolicy()


@dataclass(frozen=True)
class Part:
    """A part that was added: its name, its period (0 for a trend), its size, and the log evidence that it gained.

    The size is from the lowest to the highest value of a cycle, and the change from the first to the last reading of a
    trend, in the response's unit at its centre. `highest` is the time of the highest value.
    """

    name: str
    period: float
    size: float
    gain: float
    highest: float


@dataclass(frozen=True)
class Choice:
    """A kernel, the parts that it was given, and those that could have been.

    A cycle's length-scale is kept at what the good readings say: by one that is free, a check at the same time of each
    day would become part of the cycle.
    """

    kernel: Kernel
    parts: tuple[Part, ...] = ()
    tried: tuple[str, ...] = ()


def choose_parts(
    kernel: Kernel, X: Array, response: ScaledResponse, names: list[str], time: int, periods: Mapping[str, float]
) -> Choice:
    """The kernel of all columns with those cycles and the trend of column `time` that the readings bear out."""
    window = _window(X[:, time], min(periods.values()))
    possible = _possible(X[window, time], periods)
    rows = _some_of(window)
    if len(rows) < POLICY.fewest_rows or response.scaling.constant or not possible:
        return Choice(kernel)
    part = ScaledResponse(response.y[rows], response.scaling)
    good = rough_fit(X[rows], part, kernel, names).labels == 0
    if good.sum() < POLICY.fewest_rows:
        return Choice(kernel, (), tuple(possible))
    search_on = _Search(X[rows][good], part.z[good], names, time)
    return search_on.forward(kernel, possible, response)


def _window(time: Array, shortest: float) -> NDArray[np.intp]:
    """Readings in the middle of the record, in their order."""
    order = np.argsort(time, kind="stable")
    span, middle = POLICY.most_cycles * shortest, float(np.median(time))
    return np.asarray(order[np.abs(time[order] - middle) <= 0.5 * span])


def _some_of(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """As many of them as are compared, at random: even steps might be those of a cycle."""
    if len(rows) <= POLICY.most_rows:
        return rows
    chosen = np.random.default_rng(0).choice(len(rows), POLICY.most_rows, replace=False)
    return np.asarray(rows[np.sort(chosen)])


def _possible(time: Array, periods: Mapping[str, float]) -> dict[str, float]:
    """Parts that these readings could show: cycles that they span and resolve, and a trend."""
    span = float(np.ptp(time)) if len(time) else 0.0
    gaps = np.diff(np.unique(time))
    if not len(gaps):
        return {}
    near = float(np.median(gaps))
    shown = {
        name: period
        for name, period in periods.items()
        if span >= POLICY.fewest_cycles * period and near <= period / POLICY.per_cycle
    }
    return {**shown, TREND: 0.0}


@dataclass(frozen=True)
class _Fit:
    """The kernel of some parts at its best parameters."""

    kernel: Kernel
    x: Array
    score: float


class _Search:
    """Good readings, and the evidence of kernels on them."""

    def __init__(self, X: Array, z: Array, names: list[str], time: int) -> None:
        self.X, self.z, self.names, self.time = X, z, names, time

    def forward(self, kernel: Kernel, possible: Mapping[str, float], response: ScaledResponse) -> Choice:
        """Add the part that raises the evidence most, as long as one does."""
        plain, best = kernel, self._fitted(kernel)
        chosen: list[str] = []
        gains: list[float] = []
        while len(chosen) < len(possible):
            rest = {name: self._part(name, possible[name]) for name in possible if name not in chosen}
            rising = {name: part for name, part in rest.items() if self._rises(best, part)}
            fits = {name: self._fitted(kernel + part, self._with(best, part)) for name, part in rising.items()}
            name = max(fits, key=lambda each: fits[each].score, default="")
            if not fits or fits[name].score <= best.score:
                break
            # A part may have led to parameters of the others that are better without it as well.
            without = self._fitted(kernel, self._without(fits[name], best))
            if without.score > best.score + POLICY.same and without.score >= fits[name].score:
                best = without
                continue
            gains.append(fits[name].score - max(best.score, without.score))
            kernel, best = kernel + rest[name], fits[name]
            chosen.append(name)
        parts = [
            self._measured(name, possible[name], gain, best, response) for name, gain in zip(chosen, gains, strict=True)
        ]
        for name in chosen:
            plain = plain + self._part(name, possible[name], self._length(best, name, possible[name]))
        return Choice(plain, tuple(parts), tuple(possible))

    def _length(self, best: _Fit, name: str, period: float) -> float | None:
        """The length-scale of a cycle, at least the least; None for a trend."""
        if name == TREND:
            return None
        own = self._leaf(best.kernel.with_theta(best.x[:-1]), name, period)
        return max(POLICY.least_length, float(np.exp(own.theta[1])))

    def _part(self, name: str, period: float, length: float | None = None) -> Kernel:
        """A cycle whose period, and length-scale if one is given, are fixed; or a trend."""
        column = self.names[self.time]
        if name == TREND:
            return Linear().on(column)
        cycle = Periodic(period=period, length_scale=length).on(column)
        return cycle.fix("period") if length is None else cycle.fix("period", "length_scale")

    def _rises(self, best: _Fit, part: Kernel) -> bool:
        """Whether a little of a part would raise the likelihood at all; else there is no need to look for how much."""
        kernel = best.kernel.with_theta(best.x[:-1])
        K = DenseEngine(self.X).covariance(kernel, np.full(len(self.z), np.exp(best.x[-1])))
        alpha, C = K.solve(self.z), part.bind(self.X, self.names)(self.X)
        return float(alpha @ C @ alpha) > float(np.vdot(K.inverse(), C))

    def _with(self, best: _Fit, part: Kernel) -> Array:
        """Parameters to start from with one more part, of which the variance is the first."""
        own = part.bind(self.X, self.names).theta
        own = own + np.log(POLICY.start) * (np.arange(len(own)) == 0)
        return np.concatenate([best.x[:-1], own, best.x[-1:]])

    @staticmethod
    def _without(fit: _Fit, best: _Fit) -> Array:
        """The parameters of a fit without those of its last part, which `best` does not have."""
        return np.append(fit.x[: len(best.x) - 1], fit.x[-1])

    def _fitted(self, kernel: Kernel, start: Array | None = None) -> _Fit:
        """At the parameters that are most likely, from where they are told or from the usual starts."""
        bound = kernel.bind(self.X, self.names)
        problem = Problem(self.X, self.z, bound, np.zeros(len(self.z)))
        bounds = covariance_bounds(problem)
        starts = covariance_starts(bound) if start is None else [start]
        report = search(Likelihood, problem, starts, bounds, POLICY.max_iter)
        free = int((bounds[:, 0] < bounds[:, 1]).sum())
        return _Fit(bound, report.x, -report.value - 0.5 * free * float(np.log(len(self.z))))

    def _measured(self, name: str, period: float, gain: float, best: _Fit, response: ScaledResponse) -> Part:
        """The size of a part in the response's unit."""
        kernel = best.kernel.with_theta(best.x[:-1])
        K = DenseEngine(self.X).covariance(kernel, np.full(len(self.z), np.exp(best.x[-1])))
        alpha = K.solve(self.z)
        time = self.X[:, self.time]
        first, last = float(time.min()), float(time.max())
        grid = np.linspace(first, last if name == TREND else first + period, POLICY.points)
        points = np.repeat(self.X[:1], len(grid), axis=0)
        points[:, self.time] = grid
        own = self._leaf(kernel, name, period)
        mean = response.scaling.backward(own(points, self.X) @ alpha)
        if name == TREND:
            return Part(name, 0.0, float(mean[-1] - mean[0]), gain, float(grid[mean.argmax()]))
        return Part(name, period, float(np.ptp(mean)), gain, float(grid[mean.argmax()]))

    @staticmethod
    def _leaf(kernel: Kernel, name: str, period: float) -> Kernel:
        """The part of a fitted kernel."""
        for each in kernel.leaves:
            if name == TREND and isinstance(each, Linear):
                return each
            if isinstance(each, Periodic) and np.isclose(float(np.exp(each.theta[-1])), period):
                return each
        raise LookupError(name)
