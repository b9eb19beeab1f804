"""What each feature does to the truth: the mean of f over the other features' values, with its band."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from biasgp._typing import Array
from biasgp.analysis.fit_record import Effect
from biasgp.analysis.fitting import LEVELS, NORMAL_95, Fitted, Rows, frame, spread
from biasgp.data.columns import HOUR_NS, Readings
from biasgp.response import Identity

GRID, TIME_GRID = 25, 60
QUERIES = 600
"""Predictions for each feature: grid points times the rows that are averaged over."""
MAX_EFFECTS = 12
UNIX_MS = 3_600_000.0


def effects(fitted: Fitted, readings: Readings, words: Sequence[str]) -> tuple[Effect, ...]:
    """For each feature, or the first dozen."""
    features = list(enumerate(readings.features))[:MAX_EFFECTS]
    return tuple(_effect(fitted, readings, j, words[j]) for j, _ in features)


def _effect(fitted: Fitted, readings: Readings, j: int, words: str) -> Effect:
    feature = readings.features[j]
    column = readings.X[fitted.fit_rows, j]
    size = TIME_GRID if feature.is_time else GRID
    low, high = np.quantile(column, [0.0, 1.0] if feature.is_time else [0.01, 0.99]).tolist()
    grid = np.linspace(low, high, size)
    mean, low_end, high_end = _average(fitted, readings, j, grid)
    label = time_label(feature.name, feature.zoned, feature.offset_hours) if feature.is_time else feature.name
    x = to_milliseconds(grid, feature.origin, feature.offset_hours) if feature.is_time else grid
    return Effect(label, feature.is_time, words, x, mean, low_end, high_end)


def _average(fitted: Fitted, readings: Readings, j: int, grid: Array) -> tuple[Array, Array, Array]:
    """The average of f over rows at each grid point, with its 95 % band."""
    rows: Rows = spread(fitted.fit_rows, readings.X[fitted.fit_rows, 0], max(1, QUERIES // len(grid)))
    others = frame(readings, rows)
    queries = pd.concat([others.assign(**{readings.names[j]: value}) for value in grid], ignore_index=True)
    k = len(rows)
    if not isinstance(fitted.estimator.response_, Identity):
        # Under a transform the average of intervals, which is somewhat wider, stands in for that of the average.
        quantiles = fitted.estimator.predict_quantiles(queries, LEVELS).reshape(len(grid), k, 3).mean(axis=1)
        return quantiles[:, 1], quantiles[:, 0], quantiles[:, 2]
    mean, covariance = fitted.estimator.predict(queries, return_cov=True)
    blocks = covariance.reshape(len(grid), k, len(grid), k).mean(axis=(1, 3))
    average, std = mean.reshape(len(grid), k).mean(axis=1), np.sqrt(np.maximum(blocks.diagonal(), 0.0))
    return average, average - NORMAL_95 * std, average + NORMAL_95 * std


def to_milliseconds(hours: Array, origin: str, offset_hours: float) -> Array:
    """Hours since the origin as milliseconds since 1970 on the clock of the table."""
    start = pd.Timestamp(origin).value / HOUR_NS
    return np.asarray((hours + start + offset_hours) * UNIX_MS)


def time_label(name: str, zoned: bool, offset_hours: float) -> str:
    """The name of a time axis, with its zone."""
    if not zoned:
        return name
    hours, minutes = divmod(round(abs(offset_hours) * 60.0), 60)
    return f"{name} (UTC{'-' if offset_hours < 0 else '+'}{hours:02d}:{minutes:02d})"
