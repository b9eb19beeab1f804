"""Which columns of a table are what: the user's choice, or a guess that is told; and the numbers in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from biasgp._typing import Array, Mask
from biasgp.data.table import Table, TableError
from biasgp.data.times import Times, parse_times_of_day

MIN_READINGS = 5
VALID_FLAGS = frozenset({"", "0", "0.0", "false", "no", "n", "ok", "valid", "good", "na", "nan", "none"})
HOUR_NS = 3_600_000_000_000
UNITS = {"c": "°C", "degc": "°C", "pct": "%", "percent": "%", "ugm3": "µg/m³", "f": "°F", "k": "K"}
KNOWN_UNITS = frozenset(
    {"ppb", "ppm", "ppt", "h", "s", "min", "mm", "cm", "m", "km", "mv", "v", "ma", "hpa", "pa", "kpa"}
)


@dataclass(frozen=True)
class Feature:
    """An input of the model: a column of numbers, or one (or a date and a clock) of times as hours since `origin`."""

    name: str
    columns: tuple[str, ...]
    is_time: bool = False
    origin: str = ""
    zoned: bool = False
    offset_hours: float = 0.0

    def values(self, table: Table) -> Array:
        """This input for every row; NaN where missing."""
        if not self.is_time:
            return table.numbers(self.columns[0])
        times = read_times(table, self.columns)
        if times.zoned != self.zoned:
            here, there = ("have", "had none") if times.zoned else ("have no", "had one")
            raise TableError(
                f"The times in column {self.columns[0]!r} {here} a time zone, but those of the fit {there}. "
                "Write them alike."
            )
        return hours_since(times.values, pd.Timestamp(self.origin))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Feature:
        return cls(**{**fields, "columns": tuple(fields["columns"])})


@dataclass(frozen=True)
class Readings:
    """The table as numbers, a row for each of its rows; `kept` are those to use, `left_out` says why not the others."""

    target: str
    features: tuple[Feature, ...]
    X: Array
    y: Array
    kept: Mask
    left_out: tuple[tuple[str, int], ...]
    flags: Mask | None
    notes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return [feature.name for feature in self.features]

    @property
    def complete(self) -> Mask:
        """Rows at which a prediction can be made."""
        return np.asarray(np.isfinite(self.X).all(axis=1))


def read_times(table: Table, columns: Sequence[str]) -> Times:
    """Times of one column, or of a date and a time of day."""
    times = table.times(columns[0])
    if len(columns) == 1:
        return times
    missing = table.missing(columns[1])
    clock = parse_times_of_day(table.column(columns[1]), missing)
    rows = np.flatnonzero(clock.unreadable)
    if len(rows):
        value = table.column(columns[1]).iloc[rows[0]]
        raise TableError(
            f"Column {columns[1]!r}, row {rows[0] + 1}: {value!r} is not a time of day. Write it as 13:00."
        )
    joined = times.values + (clock.values - pd.Timestamp(0))
    return Times(joined, times.unreadable, times.zoned, times.offset_hours, note=times.note)


def hours_since(times: pd.Series, origin: pd.Timestamp) -> Array:
    """Hours from the origin; NaN where there is no time."""
    elapsed = (times - origin).to_numpy(dtype="timedelta64[ns]")
    hours = elapsed.astype(np.int64) / HOUR_NS
    return np.where(np.isnat(elapsed), np.nan, hours)


def unit_of(name: str) -> str:
    """The unit that a column's name ends in, as in no_ppb, T (°C) or rh [%]; empty where there is none."""
    bracketed = re.search(r"[(\[]([^)\]]{1,12})[)\]]\s*$", name)
    if bracketed:
        return bracketed[1]
    last = name.rsplit("_", 1)[-1].lower() if "_" in name else ""
    return UNITS.get(last, last if last in KNOWN_UNITS else "")


def choose(
    table: Table, target: str | None, features: Sequence[str] | None, flag_column: str | None = None
) -> tuple[str, tuple[Feature, ...], tuple[str, ...]]:
    """Target and inputs, and remarks on what was guessed."""
    notes: list[str] = []
    given = [name for name in features or () if name]
    for name in [*given, *([target] if target else []), *([flag_column] if flag_column else [])]:
        table.column(name)
    if len(set(given)) < len(given):
        raise TableError(f"--features names {next(n for n in given if given.count(n) > 1)!r} twice.")
    kinds = {name: table.kind(name) for name in (given or table.columns) if name != flag_column}
    if target is None:
        target = _guess_target(table, given, flag_column)
        notes.append(f"Target: {target!r}, the last numeric column (choose with --target).")
    if target in given:
        raise TableError(f"{target!r} is the target: leave it out of --features.")
    kinds.pop(target, None)
    found = _features(table, kinds, guess=not given)
    if not found:
        raise TableError(
            f"{table.name} has no column to explain {target!r} by: a time or a number. Name them with --features."
        )
    if not given:
        shown = ", ".join(repr(feature.name) for feature in found)
        notes.append(f"Features: {shown} (choose with --features).")
    return target, tuple(found), tuple(notes)


def _guess_target(table: Table, given: Sequence[str], flag_column: str | None) -> str:
    others = [name for name in table.columns if name not in given and name != flag_column]
    numeric = [name for name in others if table.kind(name) == "number" and not name.startswith("column ")]
    if not numeric:
        raise TableError(f"{table.name} has no numeric column to take for the target. Name one with --target.")
    return numeric[-1]


def _features(table: Table, kinds: Mapping[str, str], guess: bool) -> list[Feature]:
    """Inputs of the named kinds. A guess takes the first time and every number; a choice must be usable as it is."""
    found: list[Feature] = []
    clocks = [name for name, kind in kinds.items() if kind == "clock"]
    for name, kind in kinds.items():
        if kind == "time" and not (guess and any(feature.is_time for feature in found)):
            found.append(_time_feature(table, name, clocks[:1]))
        elif kind == "number" and not (guess and _useless(table, name)):
            found.append(Feature(name, (name,)))
        elif not guess and kind == "clock" and any(feature.is_time for feature in found):
            continue  # joined to its date
        elif not guess and kind == "empty":
            raise TableError(f"Column {name!r} holds nothing but missing values. Leave it out of --features.")
        elif not guess and kind in ("text", "clock"):
            table.numbers(name)  # names the row and the value
    return sorted(found, key=lambda feature: not feature.is_time) if guess else found


def _useless(table: Table, name: str) -> bool:
    """Whether a guess should pass over a column: no name, one value, or mostly missing."""
    values = table.numbers(name)
    values = values[np.isfinite(values)]
    return name.startswith("column ") or len(values) < len(table) / 2 or np.ptp(values) == 0.0


def _time_feature(table: Table, name: str, clocks: Sequence[str]) -> Feature:
    columns: tuple[str, ...] = (name,)
    times = read_times(table, columns)
    known = times.values.dropna()
    if clocks and len(known) and (known == known.dt.normalize()).all():
        columns = (name, clocks[0])
        times = read_times(table, columns)
        known = times.values.dropna()
    if len(known) == 0:
        raise TableError(f"Column {name!r} holds no time. Leave it out of --features.")
    return Feature(" ".join(columns), columns, True, known.min().isoformat(), times.zoned, times.offset_hours)


def read_readings(
    table: Table,
    target: str | None,
    features: Sequence[str] | None,
    *,
    where: str | None = None,
    flag_column: str | None = None,
) -> Readings:
    """Everything a fit needs from a table."""
    target, chosen, notes = choose(table, target, features, flag_column)
    y = table.numbers(target)
    if not np.isfinite(y).any():
        raise TableError(f"Column {target!r} holds nothing but missing values. Choose another --target, or check --na.")
    columns = [feature.values(table) for feature in chosen]
    for feature, values in zip(chosen, columns, strict=True):
        if not np.isfinite(values).any():
            raise TableError(f"Column {feature.name!r} holds nothing but missing values. Leave it out of --features.")
        if feature.is_time and read_times(table, feature.columns[:1]).note:
            notes += (read_times(table, feature.columns[:1]).note,)
    X = np.column_stack(columns)
    wanted = table.rows_where(where) if where else np.ones(len(y), dtype=bool)
    kept, left_out = _keep(target, chosen, X, y, wanted, where)
    _refuse_unusable(table, target, y, kept)
    flags = None if flag_column is None else read_flags(table, flag_column)
    return Readings(target, chosen, X, y, kept, left_out, flags, notes)


def _keep(
    target: str, features: Sequence[Feature], X: Array, y: Array, wanted: Mask, where: str | None
) -> tuple[Mask, tuple[tuple[str, int], ...]]:
    """Rows to use, and how many fall to each reason, the first that applies."""
    kept, left_out = wanted.copy(), []
    if where:
        left_out.append((f"--where {where!r} does not hold", int((~wanted).sum())))
    for name, values in [(target, y), *((f.name, X[:, j]) for j, f in enumerate(features))]:
        absent = kept & ~np.isfinite(values)
        left_out.append((f"{name!r} is missing", int(absent.sum())))
        kept &= ~absent
    return kept, tuple((reason, count) for reason, count in left_out if count)


def _refuse_unusable(table: Table, target: str, y: Array, kept: Mask) -> None:
    n = int(kept.sum())
    if n < MIN_READINGS:
        raise TableError(
            f"{table.name} has {n} usable rows of {len(table)}; a fit needs at least {MIN_READINGS}. "
            "Check --where, --na and the missing values."
        )
    if np.ptp(y[kept]) == 0.0:
        raise TableError(
            f"Column {target!r} is {y[kept][0]:g} in all {n} rows: there is nothing to learn. Choose another --target."
        )


def read_flags(table: Table, name: str) -> Mask:
    """Readings that someone has flagged: any cell that does not say no."""
    words = table.column(name).astype(str).str.strip().str.lower()
    return np.asarray(~(words.isin(VALID_FLAGS).to_numpy(dtype=bool) | table.missing(name)))
