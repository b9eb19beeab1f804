"""Where readings, and biases that lasted, are on the axis that they are drawn against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from biasgp._typing import Array
from biasgp.analysis.fitting import Rows
from biasgp.data.columns import HOUR_MS, HOUR_NS, Feature


@dataclass(frozen=True)
class Axis:
    """What readings are drawn against: milliseconds since 1970 (is_time), or the numbers of a column, or of rows."""

    label: str
    is_time: bool
    values: Array

    @classmethod
    def of(cls, feature: Feature, values: Array) -> Axis:
        """Values of a feature as they are drawn: times on the clock of the table, with its zone."""
        if not feature.is_time:
            return cls(feature.name, False, values)
        start = pd.Timestamp(feature.origin).value / HOUR_NS
        hours, minutes = divmod(round(abs(feature.offset_hours) * 60.0), 60)
        zone = f" (UTC{'-' if feature.offset_hours < 0 else '+'}{hours:02d}:{minutes:02d})" if feature.zoned else ""
        return cls(f"{feature.name}{zone}", True, (values + start + feature.offset_hours) * HOUR_MS)

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
