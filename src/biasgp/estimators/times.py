"""Columns of times in X, which are computed with as seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array

_SECOND = np.timedelta64(1, "s")
_MISSING = ("None", "NaT", "nan", "<NA>")
CLOCKS = {
    "zoned": "times with a time zone",
    "naive": "times without a time zone",
    "elapsed": "durations",
}
"""The kinds of times, in words."""


@dataclass(frozen=True)
class TimeColumn:
    """A column of X that holds times.

    Attributes
    ----------
    index : int
        Which column it is.
    clock : {"zoned", "naive", "elapsed"}
        Times with a time zone, times without one, or durations since some start.
    origin_seconds : int
        Where seconds are counted from, in whole seconds since 1970-01-01: the first reading of fit, rounded down, so
        that doubles hold microseconds. 0 for durations.
    """

    index: int
    clock: str
    origin_seconds: int

    @property
    def origin(self) -> np.datetime64:
        """Where seconds are counted from, in UTC where the times have a zone."""
        return np.datetime64(self.origin_seconds, "s")

    def instants(self, seconds: Array) -> NDArray[Any]:
        """The times of seconds since the origin, to the microsecond; durations where the column has those."""
        elapsed = np.round(seconds * 1e6).astype("m8[us]")
        return elapsed if self.clock == "elapsed" else self.origin.astype("M8[us]") + elapsed


def in_seconds(X: Any, fitted: Sequence[TimeColumn] = ()) -> tuple[Any, tuple[TimeColumn, ...]]:
    """X with times as seconds (since the origins of a fit, if there was one), and the columns that hold times."""
    table = as_table(X)
    if table is None:
        return X, ()
    origins = {column.index: column.origin_seconds for column in fitted}
    found = {}
    types = [table.dtype] * table.shape[1] if isinstance(table, np.ndarray) else table.dtypes
    for j in (j for j, kind in enumerate(types) if getattr(kind, "kind", "O") in "OMm"):  # polars' have no kind
        column = table.iloc[:, j] if hasattr(table, "iloc") else table[:, j]
        instants, clock = _instants(column, f"X, column {repr(str(X.columns[j])) if hasattr(X, 'columns') else j}")
        if clock == "elapsed":
            found[TimeColumn(j, clock, 0)] = instants / _SECOND
        elif clock is not None:
            whole = instants.astype("M8[s]")
            first = min(whole[~np.isnat(whole)].astype(np.int64).tolist(), default=0)
            origin = origins.get(j, first)
            # A part at a time: nanoseconds in 64 bits reach over 300 years only.
            seconds = (whole - np.datetime64(origin, "s")) / _SECOND + (instants - whole) / _SECOND
            found[TimeColumn(j, clock, origin)] = seconds
    return (replaced(table, {time.index: values for time, values in found.items()}) if found else X), tuple(found)


def as_table(X: Any) -> Any:
    """A frame as it is, other inputs that may hold times as a matrix; None for those that cannot."""
    if isinstance(X, list | tuple):
        try:
            X = np.asarray(X)
        except TypeError:  # NumPy's times and numbers have no common type
            X = np.asarray(X, dtype=object)
        except ValueError:  # rows of several lengths
            return None
    if isinstance(X, np.ndarray):
        return X if X.ndim == 2 and X.dtype.kind in "OMm" else None
    return X if hasattr(X, "isetitem") or hasattr(X, "replace_column") else None


def replaced(table: Any, columns: dict[int, Array]) -> Any:
    """The same table with other values in some columns."""
    if isinstance(table, np.ndarray):
        table = table.astype(np.float64 if table.dtype.kind == "f" else object)
        for j, values in columns.items():
            table[:, j] = values
    elif hasattr(table, "isetitem"):  # pandas
        table = table.copy(deep=False)
        for j, values in columns.items():
            table.isetitem(j, values)
    else:  # polars
        table = table.clone()
        for j, values in columns.items():
            table.replace_column(j, type(table[:, j])(table.columns[j], values))
    return table


def _instants(column: Any, what: str) -> tuple[Any, str | None]:
    """Times (of UTC, if they have a zone) or durations of NumPy and the kind of clock; None for other values."""
    zone = getattr(column.dtype, "tz", None) or getattr(column.dtype, "time_zone", None)
    if zone is not None and hasattr(column, "iloc"):  # polars and NumPy give UTC without being told
        column = column.dt.tz_convert(None)
    values = np.asarray(column)
    if values.dtype.kind == "O":
        return _instants_of_objects(values, what)
    clocks = {"m": "elapsed", "M": "naive" if zone is None else "zoned"}
    return values, clocks.get(values.dtype.kind)


def _instants_of_objects(values: Any, what: str) -> tuple[Any, str | None]:
    """The same of Python's dates and times, and of those of pandas and NumPy, if there are any."""
    is_time = [isinstance(value, date | np.datetime64) and bool(value == value) for value in values]
    if not any(is_time):
        return None, None
    instants = np.full(len(values), np.datetime64("NaT", "us"))
    clocks: dict[str, int] = {}
    for row, value in enumerate(values):
        if is_time[row]:
            zoned = getattr(value, "tzinfo", None) is not None
            clocks.setdefault("zoned" if zoned else "naive", row)
            instants[row] = value.astimezone(UTC).replace(tzinfo=None) if zoned else value
        elif str(value) not in _MISSING:
            raise ValueError(f"{what}, row {row}: {value!r} is not a time, as others in that column are. Correct it.")
    if len(clocks) > 1:
        raise ValueError(
            f"{what}, has a time with a time zone at row {clocks['zoned']} and one without at row {clocks['naive']}."
            " Give all of them a zone, or none."
        )
    return instants, next(iter(clocks))
