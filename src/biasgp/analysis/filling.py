"""The truth where nothing was read: at regular times (`--fill 1h`), and over gaps, for the figures."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from biasgp._typing import Array
from biasgp.analysis.judging import Analysis, Judge
from biasgp.analysis.places import Axis
from biasgp.data.columns import HOUR_MS, Feature, Readings
from biasgp.inputs import places_in_gaps, rows_between
from biasgp.kernels.durations import to_seconds
from biasgp.messages import WrongUseError

MAX_ROWS = 1_000_000
"""Of a filled series: more is a slip of the unit."""
SECONDS = 3600.0
"""In an hour, which times are counted in."""


def fill_step(text: str) -> float:
    """Hours of `--fill`."""
    try:
        seconds = float(to_seconds(text))
    except ValueError as error:
        raise WrongUseError(f"--fill: {error}") from error
    if seconds <= 0.0:
        raise WrongUseError(f"--fill {text!r}: the step must be longer than nothing.")
    return seconds / SECONDS


def needed_time(features: tuple[Feature, ...]) -> int:
    """The input that a series is filled along."""
    times = [j for j, feature in enumerate(features) if feature.is_time]
    if not times:
        raise WrongUseError(
            "--fill makes a series that is regular in time, but none of the features is a time "
            f"({', '.join(feature.name for feature in features)}). Name a column of times in --features."
        )
    return times[0]


def check_fill(readings: Readings, step: float) -> Array:
    """The times that a series is to be filled at, in hours as the feature has them; refused where that is too many."""
    along = needed_time(readings.features)
    times = readings.X[readings.kept, along]
    return _regular(readings.features[along], float(times.min()), float(times.max()), step)


@dataclass(frozen=True)
class Between:
    """Mean, standard deviation and 95 % interval of f at places between readings."""

    inputs: Array
    mean: Array
    std: Array
    low: Array
    high: Array

    @classmethod
    def at(cls, outcome: Analysis, along: int, values: Array) -> Between:
        """At values of one input; the others are interpolated between the rows on both sides."""
        readings = outcome.readings
        X = rows_between(readings.X[readings.kept], along, values)
        found = Judge(outcome.fitted.estimator, _without_readings(readings, X)).prediction
        return cls(X, found.mean, found.std, found.low, found.high)


def _without_readings(readings: Readings, X: Array) -> Readings:
    """Rows that have inputs only; of no sensor, where several share the truth."""
    sensors = readings.sensors
    if sensors is not None:
        sensors = replace(sensors, labels=np.full(len(X), None, dtype=object))
    none = np.full(len(X), np.nan)
    every = np.ones(len(X), dtype=bool)
    return Readings(readings.target, readings.features, X, none, every, (), None, (), sensors=sensors)


def filled(outcome: Analysis, step: float) -> pd.DataFrame:
    """The truth at regular times from the first reading to the last, with its uncertainty; `step` in hours.

    Times are whole multiples of the step on the clock of the table. `gap` says how far, in hours, the nearest reading
    that is not flagged is away.
    """
    readings = outcome.readings
    along = needed_time(readings.features)
    feature = readings.features[along]
    grid = check_fill(readings, step)
    found = Between.at(outcome, along, grid)
    good = np.sort(readings.X[readings.kept & ~outcome.flagged, along])
    stamps = pd.Series(feature.instants(grid)).dt.strftime("%Y-%m-%dT%H:%M:%S").str.removesuffix(":00")
    others = {
        each.name: found.inputs[:, j] for j, each in enumerate(readings.features) if j != along and not each.is_time
    }
    columns = {"mean": found.mean, "std": found.std, "low": found.low, "high": found.high}
    return pd.DataFrame({feature.name: stamps, **others, **columns, "gap": _distance(grid, good)})


def _regular(feature: Feature, first: float, last: float, step: float) -> Array:
    """Hours since the feature's origin, from whole steps of its clock."""
    if (last - first) / step > MAX_ROWS:
        raise WrongUseError(
            f"--fill: {(last - first) / step:,.0f} rows of {step:g} h are too many; take a longer step."
        )
    since = feature.instants(np.zeros(1)).astype("datetime64[ms]").astype(np.int64)[0] / HOUR_MS  # on the clock, in h
    begin, end = np.ceil((first + since) / step - 1e-9), np.floor((last + since) / step + 1e-9)
    return np.asarray(np.arange(begin, end + 1.0) * step - since)


def _distance(values: Array, places: Array) -> Array:
    """From each value to the nearest of some sorted places."""
    if not len(places):
        return np.full(len(values), np.nan)
    after = np.clip(np.searchsorted(places, values), 1, max(1, len(places) - 1))
    both = places[np.minimum(np.stack([after - 1, after]), len(places) - 1)]
    return np.asarray(np.abs(values - both).min(axis=0))


@dataclass(frozen=True)
class GapCurve:
    """The truth between readings that are far apart, on the axis of the figures."""

    x: Array
    mean: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, outcome: Analysis) -> GapCurve | None:
        """Over the longest gaps of the first time, else of the only input; None where there are none."""
        readings = outcome.readings
        along = next((j for j, feature in enumerate(readings.features) if feature.is_time), 0)
        if not readings.features[along].is_time and len(readings.features) > 1:
            return None  # neighbours along one of several inputs are no neighbours
        values = places_in_gaps(np.unique(readings.X[readings.kept, along]))
        if not len(values):
            return None
        found = Between.at(outcome, along, values)
        return cls(Axis.of(readings.features[along], values).values, found.mean, found.low, found.high)
