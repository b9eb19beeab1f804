"""Where readings, and biases that lasted, are on the axis that they are drawn against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from biasgp._typing import Array
from biasgp.analysis.fitting import Rows
from biasgp.analysis.judging import Analysis
from biasgp.data.columns import HOUR_MS, HOUR_NS, Feature, Readings
from biasgp.models.episodes import Episode


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
class EpisodeRecord:
    """A bias that lasted: rows of the table, the first of which is 0, its ends on the axis, and what is told of it."""

    kind: str
    rows: Rows
    span: tuple[float, float]
    start: str
    stop: str
    bias: float
    bias_std: float
    log_odds: float
    words: str
    sensor: str = ""
    """Its label, where several share the truth."""

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        numbers = {name: getattr(self, name) for name in ("bias", "bias_std", "log_odds")}
        return {
            "kind": self.kind,
            "start": self.start,
            "stop": self.stop,
            "readings": len(self.rows),
            **{name: value if np.isfinite(value) else None for name, value in numbers.items()},
            "words": self.words,
            **({"sensor": self.sensor} if self.sensor else {}),
            "rows": (self.rows + 1).tolist(),
        }


def main_axis(readings: Readings) -> Axis:
    """The first time, else the first feature, for every row."""
    j = next((j for j, feature in enumerate(readings.features) if feature.is_time), 0)
    return axis_of(readings.features[j], readings.X[:, j])


def axis_of(feature: Feature, values: Array) -> Axis:
    """Values of a feature as they are drawn: times on the clock of the table, with its zone."""
    if not feature.is_time:
        return Axis(feature.name, False, values)
    start = pd.Timestamp(feature.origin).value / HOUR_NS
    hours, minutes = divmod(round(abs(feature.offset_hours) * 60.0), 60)
    zone = f" (UTC{'-' if feature.offset_hours < 0 else '+'}{hours:02d}:{minutes:02d})" if feature.zoned else ""
    return Axis(f"{feature.name}{zone}", True, (values + start + feature.offset_hours) * HOUR_MS)


def episodes(outcome: Analysis) -> tuple[EpisodeRecord, ...]:
    """Biases that lasted, in the order of time."""
    axis = main_axis(outcome.readings)
    return tuple(_episode_record(outcome, axis, each) for each in outcome.episodes)


def _episode_record(outcome: Analysis, axis: Axis, episode: Episode) -> EpisodeRecord:
    rows = outcome.fitted.fit_rows[list(episode.rows)]
    ends = rows[[0, -1]]
    start, stop = axis.places(ends)
    first, last = axis.values[ends].tolist()
    return EpisodeRecord(
        kind=episode.kind,
        rows=rows,
        span=(first, last),
        start=start,
        stop=stop,
        bias=episode.bias,
        bias_std=episode.bias_std,
        log_odds=episode.log_odds,
        words=outcome.in_words(episode),
        sensor=episode.sensor,
    )


def episode_columns(outcome: Analysis) -> dict[str, Any]:
    """For a file: number and kind of each row's episode. Rows that were not in the fit have that around them."""
    values = main_axis(outcome.readings).values
    number, kind = np.full((2, len(values)), "", dtype=object)
    others = outcome.readings.kept.copy()
    others[outcome.fitted.fit_rows] = False
    for i, episode in enumerate(episodes(outcome), start=1):
        inside = others & (values >= episode.span[0]) & (values <= episode.span[1])
        if outcome.readings.sensors is not None:
            inside &= outcome.readings.sensors.labels == episode.sensor
        inside[episode.rows] = True
        number[inside], kind[inside] = i, episode.kind
    return {"episode": number, "kind": kind}
