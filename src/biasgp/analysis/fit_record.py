"""What a page about a fit shows, as plain arrays and words: the readings, and what each feature does to the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from biasgp._typing import Array, Mask
from biasgp.analysis.fitting import Fitted, Rows, frame, spread
from biasgp.analysis.judging import LEVELS, NORMAL_95
from biasgp.data.columns import HOUR_NS, Feature, Readings
from biasgp.response import Identity

GRID, TIME_GRID = 25, 60
"""Points at which an effect is drawn, of a number and of a time."""
INNER = (0.01, 0.99)
"""Quantiles of a feature between which its effect is drawn; that of time is drawn over all of it."""
QUERIES = 600
"""Predictions for each feature: grid points times the rows that are averaged over."""
HOUR_MS = 3_600_000.0


@dataclass(frozen=True)
class Axis:
    """What readings are drawn against: milliseconds since 1970 (is_time), or the numbers of a column, or of rows."""

    label: str
    is_time: bool
    values: Array

    def places(self, rows: Rows) -> list[str]:
        """Where some rows are on the axis, to be read."""
        if not self.is_time:
            return [f"{value:.6g}" for value in self.values[rows]]
        stamps = pd.to_datetime(pd.Series(self.values[rows]).round(), unit="ms")
        whole = bool((stamps.dropna().dt.second == 0).all())
        return list(stamps.dt.strftime("%Y-%m-%d %H:%M" if whole else "%Y-%m-%d %H:%M:%S").fillna(""))


@dataclass(frozen=True)
class Effect:
    """Mean of f over the readings' other inputs as one input goes over a grid, with its 95 % band."""

    axis: Axis
    words: str
    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Points:
    """The readings, and what was found about each; NaN where a method does not say."""

    row: Rows
    when: Sequence[str]
    y: Array
    mean: Array
    low: Array
    high: Array
    bias: Array
    bias_std: Array
    probability: Array
    flagged: Mask
    held_out: Mask
    residual: Array
    """Distance from the prediction without the reading, in its standard deviations; NaN for the flagged."""

    def take(self, rows: Rows) -> Points:
        """Some of them."""
        picked = {name: getattr(self, name)[rows] for name in vars(self) if name != "when"}
        return replace(self, when=[self.when[i] for i in rows.tolist()], **picked)


@dataclass(frozen=True)
class FitRecord:
    """A fit, as a page and a summary tell it."""

    title: str
    target: str
    unit: str
    source: str
    axis: Axis
    points: Points
    effects: tuple[Effect, ...]
    figures: tuple[tuple[str, str], ...]
    """The few numbers to read first: what, and how much."""
    sentences: tuple[str, ...]
    doubts: tuple[str, ...]
    """Reasons not to trust the fit, in plain words; empty when there is none."""
    remarks: tuple[str, ...]
    """What else the reader should know, such as readings left out."""
    residuals_of: str
    made: tuple[tuple[str, str], ...]
    """How it was made: what, and how."""

    @property
    def in_unit(self) -> str:
        """What follows the name of a quantity that has the target's unit."""
        return f" ({self.unit})" if self.unit else ""


def main_axis(readings: Readings) -> Axis:
    """The first time, else the first feature, for every row."""
    j = next((j for j, feature in enumerate(readings.features) if feature.is_time), 0)
    return _axis(readings.features[j], readings.X[:, j])


def _axis(feature: Feature, values: Array) -> Axis:
    """Values of a feature as they are drawn: times on the clock of the table, with its zone."""
    if not feature.is_time:
        return Axis(feature.name, False, values)
    start = pd.Timestamp(feature.origin).value / HOUR_NS
    hours, minutes = divmod(round(abs(feature.offset_hours) * 60.0), 60)
    zone = f" (UTC{'-' if feature.offset_hours < 0 else '+'}{hours:02d}:{minutes:02d})" if feature.zoned else ""
    return Axis(f"{feature.name}{zone}", True, (values + start + feature.offset_hours) * HOUR_MS)


def effect_of(fitted: Fitted, readings: Readings, j: int, words: str) -> Effect:
    """The average of f over rows at each grid point of the j-th feature, with its 95 % band."""
    feature, estimator = readings.features[j], fitted.estimator
    low, high = np.quantile(readings.X[fitted.fit_rows, j], (0.0, 1.0) if feature.is_time else INNER).tolist()
    n = TIME_GRID if feature.is_time else GRID
    grid = np.linspace(low, high, n)
    rows = spread(fitted.fit_rows, readings.X[fitted.fit_rows, 0], max(1, QUERIES // n))
    others, k = frame(readings, rows), len(rows)
    queries = pd.concat([others.assign(**{feature.name: value}) for value in grid], ignore_index=True)
    if isinstance(estimator.response_, Identity):
        means, covariance = estimator.predict(queries, return_cov=True)
        mean = means.reshape(n, k).mean(axis=1)
        variance = covariance.reshape(n, k, n, k).mean(axis=(1, 3)).diagonal()
        margin = NORMAL_95 * np.sqrt(np.maximum(variance, 0.0))
        ends = mean - margin, mean + margin
    else:
        # Under a transform the average of intervals, which is somewhat wider, stands in for that of the average.
        lower, mean, upper = estimator.predict_quantiles(queries, LEVELS).reshape(n, k, 3).mean(axis=1).T
        ends = lower, upper
    return Effect(_axis(feature, grid), words, mean, *ends)
