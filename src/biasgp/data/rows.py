"""Rows of a table that come a few at a time: each is read as all of them would be, or refused with its line."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from biasgp._typing import Array
from biasgp.data.column import UNKNOWN, Format
from biasgp.data.columns import Feature
from biasgp.data.csv_text import refuse_duplicates
from biasgp.data.layout import COMMENT, LOOKED_AT, SEPARATORS, Said, find, reads_as_units, separator
from biasgp.data.numbers import OTHER, POINT, WORDS, read_number, tidy
from biasgp.data.table import Table
from biasgp.messages import TableError, clip

LONGEST_REASON = 300
"""Characters."""
NEW_HEADER = "another header, so that columns may have another meaning. Begin a new file, and watch that by itself"
Lines = Sequence[tuple[int, str]]
"""Lines with their numbers."""


@dataclass(frozen=True)
class BadRow:
    """A line that cannot be used, and why; whether what follows it cannot be either."""

    line: int
    reason: str
    fatal: bool = False


@dataclass(frozen=True)
class GoodRows:
    """Lines that were read: their numbers, the input and the target of each (NaN where that is missing)."""

    line: np.ndarray
    x: Array
    y: Array


@dataclass(frozen=True)
class Cut:
    """How lines are cut into cells: the separator, the header as it stands there ("" for none), and all names."""

    sep: str
    header: str
    names: list[str]

    @classmethod
    def of(cls, head: Sequence[str], sep: str | None, header: bool | None, name: str) -> Cut:
        """As the first lines of a table show it."""
        mark = separator(head, sep)
        first = _cells(head[0], mark)
        if header is False:
            return cls(mark, "", [f"column {j + 1}" for j in range(len(first))])
        names = [name or f"column {j + 1}" for j, name in enumerate(_names(head[0], mark))]
        refuse_duplicates(names, name)
        return cls(mark, head[0].strip(), names)

    @cached_property
    def begins(self) -> str:
        """The first cell of the header; "" for none."""
        return _cells(self.header, self.sep)[0] if self.header else ""

    @cached_property
    def needed(self) -> int:
        """Cells that a row must have: those under blank names at the end may be left out."""
        cells = _cells(self.header, self.sep)
        return max((j + 1 for j, cell in enumerate(cells) if cell.strip()), default=len(self.names))


class RowReader:
    """Reads the rows of a model with one input.

    `form` is an empty table: its `given` is what the user said of all columns, its `usual` how the fit read them. What
    the first cells prove of a column (its decimal mark, day or month first) holds for the rest: `found`. `notes` say
    what was assumed there. `limits` counts detection limits (<0.5), which a stream cannot use: they are read as
    missing. `comments` counts lines that begin with #, which are passed over.
    """

    def __init__(self, form: Table, cut: Cut, feature: Feature, target: str) -> None:
        self.feature, self.target, self.found = feature, target, dict[str, Format]()
        self.notes: list[str] = []
        self.limits = self.comments = 0
        self.cut = cut
        self.form = replace(form, cells=pd.DataFrame(columns=cut.names, dtype=object))
        self.columns = dict.fromkeys((*feature.columns, target), -1)
        for name in self.columns:
            self.form.column(name)  # refuses a name that is not there
            self.columns[name] = cut.names.index(name)

    def units_in(self, lines: Sequence[str], most: int, *, said: bool | None) -> int:
        """How many of the first lines, directly under the header, hold units; `said` is what the user said of that."""
        count = 0
        for line in lines[:most] if said is not False else ():
            if not reads_as_units(_cells(line, self.cut.sep), frozenset(self.columns.values())) and not (
                said and not count
            ):
                break
            count += 1
        return count

    def read(self, lines: Lines) -> Iterator[GoodRows | BadRow]:
        """What lines hold, in their order; blank ones and repetitions of the header hold nothing."""
        rows: list[tuple[int, list[str]]] = []
        for number, cells in self._cut(lines):
            if isinstance(cells, str):
                yield from self._values(rows)
                rows = []
                yield _bad(number, cells)
            else:
                rows.append((number, cells))
        yield from self._values(rows)

    def _cut(self, lines: Lines) -> Iterator[tuple[int, list[str] | str]]:
        """The cells of each line, or why it has none."""
        texts, width, begins = [text for _, text in lines], len(self.cut.names), self.cut.begins
        try:
            rows = list(csv.reader(texts, delimiter=self.cut.sep, strict=True))
        except csv.Error:
            rows = []
        if len(rows) != len(lines):  # a quote is open somewhere, and has swallowed what follows
            rows = [_cells(text, self.cut.sep) for text in texts]
        for (number, text), row in zip(lines, rows, strict=True):
            if len(row) == width and (row[0] != begins or not begins) and text:
                yield number, row
            elif text.lstrip().startswith(COMMENT) and len(row) != width:
                self.comments += 1
            elif text.strip() and text.strip() != self.cut.header:
                yield number, self._odd(row)

    def _odd(self, row: list[str]) -> list[str] | str:
        """Cells of a row that is not as wide as the header, or begins as that does; or what is wrong with it."""
        if self._is_header(row):
            return NEW_HEADER
        if not row:
            return "a quote is opened and not closed in its line"
        width = len(self.cut.names)
        if len(row) < self.cut.needed or any(map(str.strip, row[width:])):
            return f"it has {len(row)} cells, and the first line has {width}"
        return row[:width] + [""] * (width - len(row))

    def _is_header(self, row: list[str]) -> bool:
        """Whether a row has all the names that are needed."""
        return bool(self.cut.header) and set(self.columns) <= {" ".join(cell.split()) for cell in row}

    def _values(self, rows: list[tuple[int, list[str]]]) -> Iterator[GoodRows | BadRow]:
        """The numbers of rows. Where one is in the way, each half by itself."""
        if not rows:
            return
        of_input, of_target = self._tables([cells for _, cells in rows])
        try:
            x = self.feature.values(of_input)
            y = of_target.column(self.target).numbers()
        except TableError as error:
            if len(rows) > 1:
                half = len(rows) // 2
                yield from self._values(rows[:half])
                yield from self._values(rows[half:])
            else:
                line, cells = rows[0]
                trouble = NEW_HEADER if self._is_header(cells) else self._trouble(of_input, of_target, error)
                yield _bad(line, trouble)
            return
        self._note_limits(of_target, rows)
        self._learn(of_input, self.feature.columns[0])
        self._learn(of_target, self.target)
        good = GoodRows(np.array([number for number, _ in rows]), x, y)
        there = np.isfinite(x)
        start = 0
        for bad in np.flatnonzero(~there).tolist():
            yield from _some(good, start, bad)
            yield BadRow(rows[bad][0], f"column {self.feature.columns[0]!r} is empty")
            start = bad + 1
        yield from _some(good, start, len(x))

    def _note_limits(self, table: Table, rows: list[tuple[int, list[str]]]) -> None:
        """Count cells such as <0.5, and say what is done with them when the first one comes."""
        codes = table.column(self.target).censored
        if codes is None:
            return
        if not self.limits:
            i = int(np.flatnonzero(codes)[0])
            self.notes.append(
                f"Line {rows[i][0]}: {clip(rows[i][1][self.columns[self.target]])!r} is a detection limit. A stream "
                "cannot use these: they are left out (predicted, as missing readings are) and counted."
            )
        self.limits += int((codes != 0).sum())

    def _tables(self, rows: list[list[str]]) -> tuple[Table, Table]:
        """The columns of rows: to read the input from, and the target."""
        cells = {name: [row[j] for row in rows] for name, j in self.columns.items()}
        table = replace(self.form, cells=pd.DataFrame(cells, dtype=object))
        return self._knowing(table, self.feature.columns[0]), self._knowing(table, self.target)

    def _knowing(self, table: Table, name: str) -> Table:
        """The same, with what was found of a column as if it were given."""
        found, given = self.found.get(name, UNKNOWN), table.given
        first = found.day_first if given.day_first is None else given.day_first
        return replace(table, given=Format(given.decimal or found.decimal, first))

    def _learn(self, table: Table, name: str) -> None:
        """Keep what the cells prove, from the first that do."""
        if name not in self.found:
            form = table.column(name).format
            if form != UNKNOWN:
                self.found[name] = form
                self.notes += filter(None, [table.column(name).note])

    def _trouble(self, of_input: Table, of_target: Table, error: TableError) -> str:
        """What is wrong with a row, in words that name the column and the cell."""
        table, name = of_target, self.target
        try:
            self.feature.values(of_input)
        except TableError:
            table, name = of_input, self.feature.columns[0]
        if name == self.target or not self.feature.is_time:
            cell = tidy(str(table.cells[name].iloc[0]))
            decimal = table.given.decimal or POINT
            other = not np.isnan(read_number(cell, OTHER[decimal]))
            if np.isnan(read_number(cell, decimal)) and (table.given.decimal or not other):
                more = f" with a decimal {WORDS[decimal]}, as those before have" if other else ""
                return f"column {name!r}: {clip(cell)!r} is not a number{more}"
        return clip(str(error).replace(", row 1:", ":").removesuffix("."), LONGEST_REASON)


def lines_to_names(lines: Sequence[str], names: Sequence[str], sep: str | None) -> int | None:
    """How many first lines there are up to that which has all these names; None where none has."""
    wanted, marks = set(names), SEPARATORS if sep is None else (separator((), sep),)
    for i, line in enumerate(lines[:LOOKED_AT]):
        if any(wanted <= set(_names(line, mark)) for mark in marks):
            return i + 1
    return None


def lines_of_header(lines: Sequence[str], names: Sequence[str], sep: str | None, *, last: bool) -> int | None:
    """The same; None where more lines must tell, which with `last` do not come.

    Where none has the names, those up to the header that the rows show, which will be refused.
    """
    found = lines_to_names(lines, names, sep)
    if found is not None:
        return found
    with contextlib.suppress(TableError):
        layout = find(lines, sep, Said(), "")
        if layout.found:
            return layout.header + 1
    return 1 if last or len(lines) >= LOOKED_AT else None


def _names(line: str, sep: str) -> list[str]:
    """The cells of a header, which may be written as a comment."""
    names = [" ".join(cell.split()) for cell in _cells(line, sep)]
    return [names[0].removeprefix(COMMENT).lstrip() or names[0], *names[1:]] if names else []


def _bad(line: int, reason: str) -> BadRow:
    return BadRow(line, reason, reason == NEW_HEADER)


def _some(rows: GoodRows, start: int, stop: int) -> Iterator[GoodRows]:
    if start < stop:
        yield GoodRows(rows.line[start:stop], rows.x[start:stop], rows.y[start:stop])


def _cells(text: str, sep: str) -> list[str]:
    """The cells of one line; none where a quote is left open."""
    try:
        return next(csv.reader([text], delimiter=sep, strict=True), [])
    except csv.Error:
        return []
