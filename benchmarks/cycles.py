"""`--kernel auto`: whether it finds a daily cycle, adds none where there is none, and what that is worth over a gap.

    python benchmarks/cycles.py [--series 50] [--gaps 10] [--timed 4]

Series: 14 to 60 days of hourly readings, a tenth of them missing, of a Matérn 3/2 function (length-scale 6 to 72 h,
standard deviation 1), with a daily cycle of any shape (standard deviation 0.5 to 1) or without, noise of 0.3, and 3 %
of outliers of 3 to 8 on either side. Found: the share of series with a cycle in which a daily one is chosen, and of
those without in which nothing is (no cycle, no trend); and the seconds of the choice.

Gap: a week in the middle of a record with a cycle is left out. Root mean square error of the truth there, of the fit
by --kernel auto over that by --kernel matern32, over all records, with the median and the worst. The rest of the signal
cannot be known over a week, so the ratio depends on how much of the signal that is: here the standard deviation of the
cycle is 0.5 to 1, and that of the rest 0.2 or 1. Beside it, the ratio of somebody who knows the cycle, the other kernel
and the outliers.

Time: seconds of a whole fit by auto over those by matern32, the transform chosen too, of the series without and with a
cycle.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biasgp.analysis.choosing import choose_kernel
from biasgp.analysis.fitting import Fitted, Settings, fit
from biasgp.data.columns import Feature, Readings
from biasgp.kernels import Matern32, Periodic

Floats = NDArray[np.float64]
DAY, WEEK = 24.0, 168.0
NOISE, OUTLIERS, MISSING = 0.3, 0.03, 0.1
RESTS = (0.2, 1.0)
"""Standard deviations of what is not the cycle, where there is a gap."""


@dataclass(frozen=True)
class Series:
    """Hours, truth and readings."""

    hours: Floats
    f: Floats
    y: Floats
    cycle: Floats
    out: NDArray[np.bool_]
    kernel: Matern32

    @classmethod
    def draw(cls, seed: int, *, cycle: bool, rest: float = 1.0) -> Series:
        """One, with a daily cycle or without; `rest` is the standard deviation of what is not the cycle."""
        rng = np.random.default_rng(seed)
        hours = np.arange(0.0, DAY * rng.integers(14, 61))
        hours = hours[rng.random(len(hours)) > MISSING]
        kernel = Matern32(length_scale=rng.uniform(6.0, 72.0), variance=rest**2)
        f, daily = _function(kernel, hours, rng), np.zeros(len(hours))
        if cycle:
            day = np.arange(DAY)
            shape = _function(Periodic(period=DAY, length_scale=rng.uniform(0.7, 1.5), variance=1.0), day, rng)
            shape = (shape - shape.mean()) * rng.uniform(0.5, 1.0) / shape.std()
            daily = np.interp(hours % DAY, np.append(day, DAY), np.append(shape, shape[0]))
        f = f + daily
        y = f + NOISE * rng.standard_normal(len(f))
        out = rng.random(len(f)) < OUTLIERS
        y[out] += rng.choice([-1.0, 1.0], out.sum()) * rng.uniform(3.0, 8.0, out.sum())
        return cls(hours, f, y, daily, out, kernel)

    def told(self, inside: NDArray[np.bool_]) -> Floats:
        """The truth inside a gap, of somebody who knows all but the function that is added to the cycle."""
        known = ~inside & ~self.out
        X, Z = self.hours[known, None], self.hours[inside, None]
        kernel = self.kernel.bind(X)
        alpha = np.linalg.solve(kernel(X) + NOISE**2 * np.eye(len(X)), (self.y - self.cycle)[known])
        return np.asarray(self.cycle[inside] + kernel(Z, X) @ alpha)

    def readings(self, kept: NDArray[np.bool_] | None = None) -> Readings:
        """As those of a table, of which some rows are used."""
        feature = Feature("time", ("time",), True, "2026-03-02T00:00:00")
        used = np.ones(len(self.y), dtype=bool) if kept is None else kept
        return Readings("y", (feature,), self.hours[:, None], self.y, used, (), None, ())


def _function(kernel: Matern32 | Periodic, x: Floats, rng: np.random.Generator) -> Floats:
    C = kernel.bind(x[:, None])(x[:, None])
    return np.asarray(np.linalg.cholesky(C + 1e-8 * np.eye(len(x))) @ rng.standard_normal(len(x)))


def found(n: int) -> None:
    """How often cycles are found, and invented."""
    for cycle in (True, False):
        right, seconds, seen = 0, [], []
        for seed in range(n):
            readings, began = Series.draw(seed, cycle=cycle).readings(), time.perf_counter()
            choice, _ = choose_kernel(readings, Matern32(ard=True), "identity", np.arange(len(readings.y)))
            seconds.append(time.perf_counter() - began)
            names = [part.name for part in choice.parts]
            right += ("daily" in names) if cycle else (not names)
            seen += [name for name in names if not (cycle and name == "daily")]
        what = "with a daily cycle, found" if cycle else "without, none added"
        print(f"{n} series {what}: {right / n:.0%}; else added: {seen}; {np.median(seconds):.1f} s each", flush=True)


def fitted(readings: Readings, kernel: str) -> Fitted:
    """The command's fit."""
    settings = Settings(kernel=kernel, episodes=None).settled(readings.features)
    return fit(readings, settings, settings.split(readings))


def gaps(n: int, rest: float) -> None:
    """Errors over a week without readings."""
    squares = []
    for seed in range(1000, 1000 + n):
        series = Series.draw(seed, cycle=True, rest=rest)
        middle = 0.5 * series.hours[-1]
        inside = np.abs(series.hours - middle) <= 0.5 * WEEK
        readings = series.readings(~inside)
        models = [fitted(readings, kernel).estimator for kernel in ("auto", "matern32")]
        found = [*(model.predict(readings.frame(inside)) for model in models), series.told(inside)]
        squares.append([float(np.mean((each - series.f[inside]) ** 2)) for each in found])
    auto, plain, told = np.array(squares).T
    ratio = np.sqrt(auto / plain)
    print(
        f"{n} gaps of a week, the rest {rest:g}: RMSE by auto over matern32 {np.sqrt(auto.sum() / plain.sum()):.3f} "
        f"(median {np.median(ratio):.3f}, worst {ratio.max():.3f}); at best {np.sqrt(told.sum() / plain.sum()):.3f}",
        flush=True,
    )


def timed(n: int) -> None:
    """Seconds of whole fits."""
    for cycle in (False, True):
        seconds = []
        for seed in range(n):
            readings = Series.draw(seed, cycle=cycle).readings()
            seconds.append([fitted(readings, kernel).seconds for kernel in ("auto", "matern32")])
        auto, plain = np.array(seconds).T
        print(
            f"{n} fits {'with' if cycle else 'without'} a cycle: auto {auto.sum():.1f} s, matern32 {plain.sum():.1f}: "
            f"{auto.sum() / plain.sum():.2f} times (median {np.median(auto / plain):.2f})",
            flush=True,
        )


def main() -> None:
    """Print all three."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--series", type=int, default=50)
    parser.add_argument("--gaps", type=int, default=10)
    parser.add_argument("--timed", type=int, default=4)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found(options.series)
    for rest in RESTS:
        gaps(options.gaps, rest)
    timed(options.timed)


if __name__ == "__main__":
    main()
