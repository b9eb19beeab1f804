"""Regular checks: readings at the same time of each day, or of each week, that are flagged again and again.

A zero check at 03:00 every night is one thing to tell, not ninety. A time of day is a schedule where most of its
readings are flagged, and so many by chance would be most unlikely.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from biasgp._typing import Array, Mask

DAY, WEEK = 24.0, 168.0
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FIRST_MONDAY = 4 * DAY
"""Hours from the beginning of 1970, a Thursday, to a Monday."""
MINUTE = 1.0 / 60.0


@dataclass(frozen=True)
class _SchedulePolicy:
    """When flags are a schedule."""

    fewest: int = 4  # flagged readings at that time, on different days
    share: float = 0.6  # of the readings at that time
    p_value: float = 1e-4  # of so many by chance, at the rate of all readings, times the number of times of the day
    finest: float = 5.0 * MINUTE  # hours; clocks drift, and checks last
    coarsest: float = 1.0  # hours; a time of day that is less definite than that is none


POLICY = _SchedulePolicy()


@dataclass(frozen=True)
class Schedule:
    """Rows, from 0, flagged at one time of each day or week; the time in hours, and their mean bias."""

    period: float
    at: float
    rows: tuple[int, ...]
    of: int
    bias: float
    width: float = 1.0
    """Hours that count as the same time."""

    def covers(self, hours: Array) -> Mask:
        """Which times are those of the schedule, flagged or not."""
        away = (hours - self._shift - self.at + 0.5 * self.period) % self.period - 0.5 * self.period
        return np.asarray(np.abs(away) <= 0.5 * self.width)

    @property
    def _shift(self) -> float:
        return _FIRST_MONDAY if self.period == WEEK else 0.0

    @property
    def when(self) -> str:
        """In words."""
        hours, minutes = divmod(round((self.at % DAY) * 60.0), 60)
        day = "every day" if self.period == DAY else f"every {WEEKDAYS[int(self.at // DAY) % 7]}"
        return f"{day} at {hours % 24:02d}:{minutes:02d}"

    def told(self, unit: str) -> str:
        """One sentence."""
        return (
            f"{self.when[0].upper()}{self.when[1:]}: {len(self.rows):,} of {self.of:,} readings are flagged, with a "
            f"mean bias of {self.bias:+.3g}{f' {unit}' if unit else ''}: a regular check?"
        )

    def plain(self) -> dict[str, object]:
        """For machines; rows from 1."""
        rows = [row + 1 for row in self.rows]
        return {"when": self.when, "flagged": len(rows), "readings": self.of, "bias": self.bias, "rows": rows}


def find_schedules(hours: Array, kept: Mask, flagged: Mask, bias: Array) -> tuple[Schedule, ...]:
    """Schedules among flags; hours are since 1970 on the clock of the table. Those of each day are found first."""
    if flagged.sum() < POLICY.fewest:
        return ()
    width = _width(hours[kept])
    left, found = flagged.copy(), []
    for period, shift in ((DAY, 0.0), (WEEK, _FIRST_MONDAY)):
        bins, number = _bins(hours, period, shift, width)
        for each in _regular(bins, number, kept & (left | ~flagged), left, int(np.floor(period / width))):
            rows = np.flatnonzero(left & (bins == each))
            at = float(np.median((hours[rows] - shift) % period))
            of = int((kept & (bins == each)).sum())
            found.append(Schedule(period, at, tuple(rows.tolist()), of, float(np.nanmean(bias[rows])), width))
        for schedule in found:
            left[list(schedule.rows)] = False
    return tuple(sorted(found, key=lambda each: (each.period, each.at)))


def _width(hours: Array) -> float:
    """How finely times of day are told apart: by the distance of the readings, within limits."""
    gaps = np.diff(np.unique(hours))
    gap = float(np.median(gaps)) if len(gaps) else POLICY.coarsest
    return min(max(gap, POLICY.finest), POLICY.coarsest)


def _bins(hours: Array, period: float, shift: float, width: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each reading: which part of the period it is in, and which period it is."""
    since = np.nan_to_num(hours) - shift + 0.5 * width
    return np.floor((since % period) / width).astype(np.int64), np.floor(since / period).astype(np.int64)


def _regular(bins: NDArray[np.int64], number: NDArray[np.int64], kept: Mask, flagged: Mask, n_bins: int) -> list[int]:
    """Parts of the period in which readings are flagged on most days."""
    found, rate = [], float(flagged.sum() / max(1, kept.sum()))
    for each in np.unique(bins[flagged]).tolist():
        here, out = kept & (bins == each), flagged & (bins == each)
        many = int(out.sum())
        if len(np.unique(number[out])) < POLICY.fewest or many < POLICY.share * here.sum():
            continue
        if binom.sf(many - 1, int(here.sum()), rate) * n_bins < POLICY.p_value:
            found.append(each)
    return found
