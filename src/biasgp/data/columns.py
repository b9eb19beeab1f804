"""Which columns of a table are what: the user's choice, or a guess that is told; and the numbers in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biasgp._typing import Array, Mask
from biasgp.data.clock import NO_CLOCK, Clock, read_clock
from biasgp.data.marks import find_resolution, is_coarse, limits_said
from biasgp.data.table import Table, TableError
from biasgp.data.times import Times

MIN_READINGS = 5
"""Rows that a fit needs."""
_MOST_GUESSED = 50
"""Inputs that a guess may take: each has a length-scale of its own to be found."""
_VALID_FLAGS = frozenset({"", "0", "0.0", "false", "no", "n", "ok", "valid", "good", "na", "nan", "none"})
_CONSECUTIVE = 20_000
"""Readings in which a step is looked for, before all are."""
_COUNTERS = frozenset({"record", "recnum", "record no", "row", "row no", "index", "id", "no", "no.", "nr", "nr.", "#"})
"""Names of columns that number the rows."""
_FLAG_NAMES = tuple(
    form.format(word) for word in ("qc", "qartod", "flag", "flags", "quality", "qf") for form in ("{{}}_{}", "{}_{{}}")
)
"""How a column of flags is named after the one that they are about: no_ppb_qc, flag_no_ppb."""
_QARTOD_CODES, _QARTOD_BAD = frozenset({"1", "2", "3", "4", "9"}), frozenset({"3", "4"})
"""Flags of QARTOD, and those that say suspect or fail."""
HOUR_NS = 3_600_000_000_000
HOUR_MS = 3_600_000.0
UNITS = {"c": "°C", "degc": "°C", "pct": "%", "percent": "%", "ugm3": "µg/m³", "f": "°F", "k": "K"}
_KNOWN_UNITS = frozenset(
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
    unit: str = ""
    """As the table says, beside what the name says."""

    def values(self, table: Table) -> Array:
        """This input for every row; NaN where missing."""
        if not self.is_time:
            return table.column(self.columns[0]).numbers()
        times = _read_times(table, self.columns)
        if times.zoned != self.zoned:
            here, there = ("have", "had none") if times.zoned else ("have no", "had one")
            raise TableError(
                f"The times in column {self.columns[0]!r} {here} a time zone, but those of the fit {there}. "
                "Write them alike."
            )
        # In microseconds, since nanoseconds overflow where two times are more than 292 years apart.
        elapsed = times.values.astype("datetime64[us]", copy=False) - np.datetime64(pd.Timestamp(self.origin), "us")
        return np.asarray(elapsed / np.timedelta64(1, "h"))

    def instants(self, hours: Array) -> np.ndarray:
        """The times of values of this input, on the clock of the table."""
        elapsed = np.round((hours + self.offset_hours) * HOUR_MS).astype("timedelta64[ms]")
        return np.asarray(np.datetime64(pd.Timestamp(self.origin), "ms") + elapsed)


@dataclass(frozen=True)
class Sensors:
    """A column that names sensors, and its label in each row; None where that is missing."""

    column: str
    labels: NDArray[np.object_]

    @property
    def known(self) -> Mask:
        """Rows that have a label."""
        return np.array([label is not None for label in self.labels], dtype=bool)

    @classmethod
    def of(cls, table: Table, name: str) -> Sensors:
        """Those of a table."""
        column = table.column(name)
        texts = np.array(column.cells.astype(str).str.strip(), dtype=object)
        texts[column.missing | (texts == "")] = None
        return cls(name, texts)


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
    events: Array | None = None
    """Values of the feature that orders the readings at which the sensor was serviced, where they are known."""
    sensors: Sensors | None = None
    """Which sensor each row is of, where several share the truth."""
    censored: Array | None = None
    """Of each row: −1 where y is a limit that the truth lies below, 1 where above, else 0; None where none is."""
    resolution: float | None = None
    """The step of which all readings are multiples, where rounding to it counts beside their noise."""
    clock: Clock = NO_CLOCK
    """Of the first time among the features: its step, gaps and repeats."""
    unit: str = ""
    """Of the target, as the table says or as its name does."""
    judged: pd.DataFrame | None = None
    """What somebody said of some of the rows: `row`, from 1, `verdict` (good or bad), and by whom, when and why."""
    noise_variance: Array | None = None
    """Of each row: what somebody stated of the reading's noise; None where nothing was."""

    @property
    def measured(self) -> Mask:
        """Rows whose reading is no limit."""
        return np.ones(len(self.y), dtype=bool) if self.censored is None else np.asarray(self.censored == 0.0)

    @property
    def verdict(self) -> Array | None:
        """Of each row: 0 where it was judged good, 1 where bad, else NaN; None where none was."""
        if self.judged is None or not len(self.judged):
            return None
        said = np.full(len(self.y), np.nan)
        said[self.judged["row"].to_numpy() - 1] = (self.judged["verdict"] == "bad").to_numpy(dtype=float)
        return said

    @property
    def rounding_variance(self) -> float:
        """Of the error of rounding to the resolution, r²/12; 0 where that does not count."""
        return 0.0 if self.resolution is None else self.resolution**2 / 12.0

    @property
    def known_variance(self) -> Array:
        """Of each row: the noise that was stated, and that of rounding."""
        stated = np.zeros(len(self.y)) if self.noise_variance is None else self.noise_variance
        return np.asarray(stated + self.rounding_variance)

    @property
    def names(self) -> list[str]:
        return [feature.name for feature in self.features]

    @property
    def complete(self) -> Mask:
        """Rows at which a prediction can be made."""
        return np.asarray(np.isfinite(self.X).all(axis=1))

    def frame(self, rows: NDArray[np.intp] | Mask | slice = slice(None)) -> pd.DataFrame:
        """Inputs of some rows, with their names; and their sensors, where there are several."""
        inputs = pd.DataFrame(self.X[rows], columns=self.names)
        sensors = self.sensors
        return inputs if sensors is None else inputs.assign(**{sensors.column: sensors.labels[rows]})


def _read_times(table: Table, columns: Sequence[str]) -> Times:
    """Times of one column, or of a date and a time of day."""
    times = table.column(columns[0]).times()
    if len(columns) == 1:
        return times
    clock = table.column(columns[1]).times_of_day().values
    return replace(times, values=times.values + (clock - np.datetime64(0, "ns")))


def unit_of(name: str) -> str:
    """The unit that a column's name ends in, as in no_ppb, T (°C) or rh [%]; empty where there is none."""
    bracketed = re.search(r"[(\[]([^)\]]{1,12})[)\]]\s*$", name)
    if bracketed:
        return bracketed[1]
    last = name.rsplit("_", 1)[-1].lower() if "_" in name else ""
    return UNITS.get(last, last if last in _KNOWN_UNITS else "")


def choose(
    table: Table, target: str | None, features: Sequence[str] | None, *others: str | None
) -> tuple[str, tuple[Feature, ...], tuple[str, ...]]:
    """Target and inputs, and remarks on what was guessed; `others` are columns that are neither."""
    notes: list[str] = list(table.notes)
    given = [name for name in features or () if name]
    for name in filter(None, [*given, target, *others]):
        table.column(name)
    if len(set(given)) < len(given):
        raise TableError(f"--features names {next(n for n in given if given.count(n) > 1)!r} twice.")
    others = (*others, *(set(_flag_columns(table).values()) - {target, *given}))
    kinds = {name: table.column(name).kind for name in (given or table.columns) if name not in others}
    if target is None:
        target = _guess_target(table, {*given, *others})
        notes.append(f"Target: {target!r}, the last numeric column (choose with --target).")
    if target in given:
        raise TableError(f"{target!r} is the target: leave it out of --features.")
    kinds.pop(target, None)
    if given:
        found = _chosen_features(table, kinds)
    else:
        found = _guess_features(table, kinds)
        troubles = [table.column(name).trouble for name, kind in kinds.items() if kind in ("number?", "time?")]
        _refuse_guess(table, target, found, troubles)
        shown = ", ".join(repr(feature.name) for feature in found)
        notes.append(f"Features: {shown} (choose with --features).")
        notes += [f"Not used: {trouble}" for trouble in troubles]
    for name in (target, *(name for feature in found for name in feature.columns)):
        table.column(name).refuse_open()
        notes.append(table.column(name).note)
    return target, tuple(found), tuple(filter(None, notes))


def _guess_target(table: Table, taken: set[str | None]) -> str:
    for name in reversed(table.columns):
        kind = "" if name in taken or name in table.nameless else table.column(name).kind
        if kind == "number?":
            raise TableError(
                f"{table.column(name).trouble} As the last column of numbers it would be the target; --target "
                "chooses another."
            )
        if kind == "number":
            return name
    raise TableError(f"{table.name} has no numeric column to take for the target. Name one with --target.")


def _refuse_guess(table: Table, target: str, found: Sequence[Feature], troubles: Sequence[str]) -> None:
    """Refuse a guess of no inputs, or of too many."""
    if not found:
        advice = "a time or a number. Name them with --features."
        raise TableError(" ".join([f"{table.name} has no column to explain {target!r} by: {advice}", *troubles[:1]]))
    most = min(_MOST_GUESSED, len(table))
    if len(found) > most:
        raise TableError(
            f"{table.name} has {len(found):,} columns to explain {target!r} by, and {len(table):,} rows: too many to "
            f"guess from (more than {most}). Name those that matter with --features."
        )


def _guess_features(table: Table, kinds: Mapping[str, str]) -> list[Feature]:
    """The first time, and every number that says something."""
    dates = [name for name, kind in kinds.items() if kind == "time"]
    times = [_time_feature(table, name, kinds) for name in dates[:1]]
    numbers = [name for name, kind in kinds.items() if kind == "number" and not _useless(table, name)]
    return [*times, *(Feature(name, (name,), unit=table.units.get(name, "")) for name in numbers)]


def _chosen_features(table: Table, kinds: Mapping[str, str]) -> list[Feature]:
    """The inputs that were named, each of which must be usable as it is."""
    found: list[Feature] = []
    for name, kind in kinds.items():
        if kind == "time":
            found.append(_time_feature(table, name, kinds))
        elif kind == "number":
            found.append(Feature(name, (name,), unit=table.units.get(name, "")))
        elif kind == "clock" and any(feature.is_time for feature in found):
            continue  # joined to its date
        elif kind == "empty":
            raise TableError(f"Column {name!r} holds nothing but missing values. Leave it out of --features.")
        elif kind == "time?":
            raise TableError(table.column(name).trouble)
        else:
            table.column(name).numbers()  # names the row and the value
    return found


def _useless(table: Table, name: str) -> bool:
    """Whether a guess should pass over a column: no name, one value, mostly missing, or the number of the row."""
    values = table.column(name).numbers()
    there = np.isfinite(values)
    values = values if there.all() else values[there]
    if name.lower() in _COUNTERS and len(values) > 1 and bool((np.diff(values) == 1.0).all()):
        return True  # it says what the time says
    return name in table.nameless or len(values) < len(table) / 2 or np.ptp(values) == 0.0


def _time_feature(table: Table, name: str, kinds: Mapping[str, str]) -> Feature:
    """The times of a column, with the first column of times of day where it holds dates alone."""
    columns: tuple[str, ...] = (name, *[other for other, kind in kinds.items() if kind == "clock"][:1])
    if len(columns) > 1:
        dates = _read_times(table, columns[:1]).values
        if not (dates[~np.isnat(dates)] == dates[~np.isnat(dates)].astype("datetime64[D]")).all():
            columns = (name,)
    times = _read_times(table, columns)
    first = np.fmin.reduce(times.values) if len(times.values) else np.datetime64("NaT", "ns")  # passes over NaT
    if np.isnat(first):
        raise TableError(f"Column {name!r} holds no time. Leave it out of --features.")
    return Feature(" ".join(columns), columns, True, pd.Timestamp(first).isoformat(), times.zoned, times.offset_hours)


@dataclass(frozen=True)
class Beside:
    """Columns that say something of the readings and are neither target nor feature."""

    flags: str | None = None
    together: str | None = None
    """Names the sensor, where several are in the table."""
    limits: str | None = None
    """Says which readings are detection limits."""


_NOTHING_BESIDE = Beside()


def read_readings(
    table: Table,
    target: str | None,
    features: Sequence[str] | None,
    *,
    where: str | None = None,
    beside: Beside = _NOTHING_BESIDE,
) -> Readings:
    """Everything a fit needs from a table."""
    flag_column, together, limits = beside.flags, beside.together, beside.limits
    if together is not None and together in (target, flag_column, *(features or ())):
        raise TableError(
            f"{together!r} names the sensors (--together): it cannot be the target, a feature or a flag too."
        )
    target, chosen, notes = choose(table, target, features, flag_column, together, limits)
    sensors = None if together is None else Sensors.of(table, together)
    columns = [(target, table.column(target).limits()), *((feature.name, feature.values(table)) for feature in chosen)]
    finite = [np.isfinite(values) for _, values in columns]
    for j, (name, _) in enumerate(columns):
        if not finite[j].any():
            advice = "Leave it out of --features." if j else "Choose another --target, or check --na."
            raise TableError(f"Column {name!r} holds nothing but missing values. {advice}")
    kept = table.rows_where(where) if where else np.ones(len(table), dtype=bool)
    left_out = [(f"--where {where!r} does not hold", int((~kept).sum()))]
    for (name, _), there in zip(columns, finite, strict=True):
        if not there.all():
            left_out.append((f"{name!r} is missing", int((kept & ~there).sum())))
            kept = kept & there
    censored = _censored(table, target, limits)
    if sensors is not None:
        left_out.append((f"{together!r} is missing", int((kept & ~sensors.known).sum())))
        kept = kept & sensors.known
        _refuse_sensors(sensors, kept)
    y, *inputs = (values for _, values in columns)
    flags = None
    if flag_column is None and (own := _flag_columns(table).get(target)) not in (features or ()):
        flag_column = own
    if flag_column is not None:
        flags, remark = _flags(table, flag_column)
        notes = (*notes, *remark)
    measured = kept if censored is None else kept & (censored == 0.0)
    known, along = (y, inputs[0]) if measured.all() else (y[measured], inputs[0][measured])  # without a copy
    _refuse_unusable(table, target, known)
    step = _coarse_step(known, along)
    if step is not None:
        notes = (
            *notes,
            f"Column {target!r}: readings come in steps of {step:g}; the error of rounding counts as noise.",
        )
    clock = NO_CLOCK if sensors is not None else _clock(chosen, inputs, kept)  # sensors read at the same times
    notes = (*notes, *clock.notes)
    return Readings(
        target,
        chosen,
        np.array(inputs).T,
        y,
        kept,
        tuple((reason, count) for reason, count in left_out if count),
        flags,
        notes,
        sensors=sensors,
        censored=censored,
        resolution=step,
        clock=clock,
        unit=table.units.get(target, "") or unit_of(target),
    )


def _clock(features: Sequence[Feature], inputs: Sequence[Array], kept: Mask) -> Clock:
    """What the first time among the features says of its clock."""
    for feature, hours in zip(features, inputs, strict=True):
        if feature.is_time:
            known = hours if kept.all() else hours[kept]
            return read_clock(known, np.flatnonzero(kept), feature.instants, zoned=feature.zoned)
    return Clock()


def _flag_columns(table: Table) -> dict[str, str]:
    """Columns that are named as the flags of others, by those."""
    lowered = {name.lower(): name for name in table.columns}
    named = ((name, form.format(name.lower())) for name in table.columns for form in _FLAG_NAMES)
    return {name: lowered[flags] for name, flags in reversed(list(named)) if flags in lowered}


def _flags(table: Table, name: str) -> tuple[Mask, tuple[str, ...]]:
    """Which rows somebody has flagged, and what was assumed in reading that."""
    column = table.column(name)
    words = column.cells.astype(str).str.strip().str.lower().str.removesuffix(".0")
    known = words[~column.missing]
    said = set(known.unique())
    if said <= _QARTOD_CODES and "1" in said and (len(said) > 1 or len(known) == len(words)):
        note = f"Column {name!r} was read as QARTOD flags: 3 (suspect) and 4 (fail) are flagged."
        return np.asarray(words.isin(_QARTOD_BAD).to_numpy(dtype=bool) & ~column.missing), (note,)
    # Any cell that does not say no.
    return np.asarray(~(words.isin(_VALID_FLAGS).to_numpy(dtype=bool) | column.missing)), ()


def _censored(table: Table, target: str, limits: str | None) -> Array | None:
    """The codes of the target's limits: those of its own cells, or of the column that says so."""
    own = table.column(target).censored
    if limits is None:
        return None if own is None else own.astype(np.float64)
    column = table.column(limits)
    codes = limits_said(column.cells.astype(str).tolist(), column.missing, limits)
    if own is not None:
        at = np.flatnonzero((own != 0) & (codes != 0) & (own != codes))
        if len(at):
            raise TableError(
                f"Row {at[0] + 1}: column {target!r} and --censored-column {limits!r} disagree on which side of the "
                "limit the truth lies. Correct one."
            )
        codes = np.where(codes == 0, own, codes)
    return codes if codes.any() else None


def _coarse_step(y: Array, along: Array) -> float | None:
    """The step of the readings, where rounding to it counts beside their scatter."""
    some = slice(len(y) // 2, len(y) // 2 + _CONSECUTIVE) if len(y) > _CONSECUTIVE else slice(None)
    few, order = y[some], np.argsort(along[some], kind="stable")
    step = find_resolution(few)
    if step is None or not is_coarse(step, few[order]):
        return None
    return step if len(few) == len(y) else find_resolution(y)


def _refuse_sensors(sensors: Sensors, kept: Mask) -> None:
    """Refuse fewer than two sensors, and one with too few readings."""
    found, counts = np.unique(sensors.labels[kept].astype(str), return_counts=True)
    labels = found.tolist()
    if len(labels) < 2:
        only = f"only one label, {labels[0]!r}" if len(labels) else "no label"
        raise TableError(
            f"Column {sensors.column!r} has {only}, in the rows used: --together needs two sensors or more."
        )
    few = int(counts.argmin())
    if counts[few] < MIN_READINGS:
        raise TableError(
            f"Column {sensors.column!r}: {labels[few]!r} has {counts[few]} usable rows, and each sensor needs at least "
            f"{MIN_READINGS}. Leave it out with --where."
        )


def _refuse_unusable(table: Table, target: str, y: Array) -> None:
    n = len(y)
    if n < MIN_READINGS:
        raise TableError(
            f"{table.name} has {n} usable rows of {len(table)}; a fit needs at least {MIN_READINGS}. "
            "Check --where, --na and the missing values."
        )
    if np.ptp(y) == 0.0:
        raise TableError(
            f"Column {target!r} is {y[0]:g} in all {n} rows: there is nothing to learn. Choose another --target."
        )
