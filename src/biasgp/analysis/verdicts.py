"""What somebody said of readings: tables of verdicts, one after the other, and what they come to for each row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from biasgp._typing import Array
from biasgp.analysis.order import EventTable, order_column
from biasgp.data.columns import Readings
from biasgp.data.table import Table, TableError

KEPT = "verdicts.csv"
"""Beside the results of a fit."""
WORDS = {"good": "good", "0": "good", "0.0": "good", "bad": "bad", "1": "bad", "1.0": "bad", "open": "", "": ""}
"""What may stand in the column of verdicts, and what it means; nothing, that the reading is open again."""
ROW, VERDICT, UNTIL, ABOUT = "row", "verdict", "until", ("who", "when", "why")
SHOWN_CONFLICTS = 5
"""Verdicts that were given up for others, named one by one."""


def _kept_in(folder: Path) -> Table | None:
    """Those of an earlier fit into a folder."""
    path = folder / KEPT
    # A file with a header alone holds none.
    if not path.is_file() or len(path.read_bytes().splitlines()) < 2:
        return None
    return replace(Table.read(path), name=str(path))


def with_verdicts(readings: Readings, table: Table, folder: Path, said: Table | None) -> Readings:
    """Readings of a table with what was said of them, in a table or before, for an earlier fit into a folder.

    The later the truer; what was given up for that is noted.
    """
    tables = [each for each in (_kept_in(folder), said) if each is not None]
    if not tables:
        return readings
    known: dict[int, dict[str, str]] = {}
    conflicts = []
    for each in tables:
        for row, judgement in _VerdictTable(each, table, readings).judgements():
            before = known.get(row, {}).get(VERDICT, "")
            if before and before != judgement[VERDICT]:
                now = judgement[VERDICT] or "open again"
                conflicts.append(f"row {row + 1} was {before}{_by(known[row])} and is {now}{_by(judgement)}")
            known[row] = judgement
    held = {row: judgement for row, judgement in sorted(known.items()) if judgement[VERDICT]}
    notes = (*readings.notes, *_notes(held, conflicts, readings))
    return replace(readings, judged=_frame(held, table, readings), notes=notes)


def _notes(held: dict[int, dict[str, str]], conflicts: list[str], readings: Readings) -> list[str]:
    """Remarks on what was read."""
    bad = sum(judgement[VERDICT] == "bad" for judgement in held.values())
    notes = [f"{len(held):,} readings are held as judged: {len(held) - bad:,} good, {bad:,} bad."]
    unused = [row + 1 for row in held if not readings.kept[row]]
    if unused:
        notes.append(f"{len(unused):,} of them are not used, the first in row {unused[0]}.")
    if conflicts:
        more = f"; and {len(conflicts) - SHOWN_CONFLICTS:,} more" if len(conflicts) > SHOWN_CONFLICTS else ""
        notes.append(f"Verdicts that differ, of which the later holds: {'; '.join(conflicts[:SHOWN_CONFLICTS])}{more}.")
    return notes


def _by(judgement: dict[str, str]) -> str:
    about = ", ".join(filter(None, (judgement["who"], judgement["when"])))
    return f" ({about})" if about else ""


def _frame(held: dict[int, dict[str, str]], table: Table, readings: Readings) -> pd.DataFrame:
    """For a file: with the cells of the column that orders the readings, so that it is seen if the table changes."""
    rows, column = list(held), order_column(readings.features)
    places = () if column is None else readings.features[column].columns
    own = [name for name in places if name not in (ROW, VERDICT, UNTIL, *ABOUT)]
    cells = {name: table.cells[name].iloc[rows].tolist() for name in own}
    about = {name: [held[row][name] for row in rows] for name in (VERDICT, *ABOUT)}
    return pd.DataFrame({ROW: [row + 1 for row in rows], **cells, **about})


@dataclass(frozen=True)
class _VerdictTable:
    """A table of verdicts on the readings of another."""

    said: Table
    table: Table
    readings: Readings
    _read: dict[str, list[str]] = field(default_factory=dict)

    def judgements(self) -> list[tuple[int, dict[str, str]]]:
        """The row of each reading of which something is said, and what: in the order of the lines."""
        verdicts = [self._word(i, text) for i, text in enumerate(self._texts(VERDICT, needed=True))]
        about = {name: self._texts(name) for name in ABOUT}
        found = []
        for i, verdict in enumerate(verdicts):
            judgement = {VERDICT: verdict, **{name: texts[i] for name, texts in about.items()}}
            found += [(int(row), judgement) for row in self._rows(i)]
        return found

    def _texts(self, name: str, needed: bool = False) -> list[str]:
        """The cells of a column, stripped; empty where they are missing or there is no such column."""
        if name not in self.said.columns and not needed:
            return [""] * len(self.said)
        if name in self._read:
            return self._read[name]
        try:
            column = self.said.column(name)
        except TableError as error:
            raise TableError(f"{error} It should hold verdicts: good, bad or open.") from error
        pairs = zip(column.cells, column.missing, strict=True)
        self._read[name] = ["" if missing else str(cell).strip() for cell, missing in pairs]
        return self._read[name]

    def _word(self, i: int, text: str) -> str:
        if text.lower() not in WORDS:
            raise self._error(i, VERDICT, f"{text!r} is no verdict. Write good, bad or open.")
        return WORDS[text.lower()]

    def _error(self, i: int, column: str, text: str) -> TableError:
        return TableError(f"{self.said.name}: Column {column!r}, row {i + 1}: {text}")

    @cached_property
    def _places(self) -> tuple[str, Array, Array, Array] | None:
        """The name of the ordering feature, its values at the readings, and where each line begins and ends."""
        column = order_column(self.readings.features)
        if column is None or not set(self.readings.features[column].columns) <= set(self.said.columns):
            return None
        feature = self.readings.features[column]
        starts = EventTable(self.said, self.table, self.readings.features).every_value()
        ends = np.full(len(starts), np.nan)
        if UNTIL in self.said.columns and ROW not in self.said.columns:
            if len(feature.columns) > 1:
                raise TableError(f"{self.said.name}: until needs rows, or a time in one column.")
            cells = self.said.cells.assign(**{feature.columns[0]: self.said.cells[UNTIL]})
            ends = EventTable(replace(self.said, cells=cells), self.table, self.readings.features).every_value()
        return feature.name, self.readings.X[:, column], starts, ends

    @cached_property
    def _of_sensor(self) -> list[str]:
        """The label that each line names, where several sensors share the truth; empty where it names none."""
        sensors = self.readings.sensors
        return [""] * len(self.said) if sensors is None else self._texts(sensors.column)

    def _rows(self, i: int) -> list[int]:
        """Rows of the readings that a line is about."""
        if ROW in self.said.columns:
            rows = self._by_number(i)
            self._refuse_other_place(i, rows)
            return rows
        if self._places is None:
            names = [repr(name) for feature in self.readings.features for name in feature.columns if feature.is_time]
            raise TableError(
                f"{self.said.name} does not say which readings it is about: it needs a column 'row', from 1"
                + (f", or {' and '.join(names)}." if names else ".")
            )
        name, values, starts, ends = self._places
        if np.isnan(starts[i]):
            raise self._error(i, name, "is empty. It should say which reading is meant.")
        stop = starts[i] if np.isnan(ends[i]) else ends[i]
        inside = (values >= starts[i]) & (values <= stop) & np.isfinite(self.readings.y)
        if self._of_sensor[i]:
            assert self.readings.sensors is not None
            inside &= self.readings.sensors.labels == self._of_sensor[i]
        if not inside.any():
            raise self._error(i, name, "there is no reading then. Take the time from the table, or give the row.")
        return np.flatnonzero(inside).tolist()

    def _by_number(self, i: int) -> list[int]:
        first = self._number(i, ROW)
        last = self._number(i, UNTIL) if UNTIL in self.said.columns and self._texts(UNTIL)[i] else first
        if last < first:
            raise self._error(i, UNTIL, f"{last} is before row {first}.")
        rows = range(first - 1, last)
        return [row for row in rows if np.isfinite(self.readings.y[row])] or list(rows)

    def _number(self, i: int, name: str) -> int:
        text, n = self._texts(name)[i], len(self.readings.y)
        try:
            number = float(text)
        except ValueError:
            number = np.nan
        if not (number.is_integer() and 1 <= number <= n):
            raise self._error(i, name, f"{text!r} is no row of {self.table.name}, which has {n:,}, from 1.")
        return int(number)

    def _refuse_other_place(self, i: int, rows: list[int]) -> None:
        """Refuse a row that is not where the line says: the table has changed since."""
        if self._places is None or np.isnan(self._places[2][i]):
            return
        name, values, starts, _ = self._places
        if values[rows[0]] != starts[i]:
            text = f"row {rows[0] + 1} of {self.table.name} is at another place: has the table changed? Correct it, or "
            raise self._error(i, name, f"{text}leave out the column 'row', so that {name} says which reading is meant.")
