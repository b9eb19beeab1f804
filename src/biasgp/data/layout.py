"""Where a table begins in a file: lines before the header, comments, the header itself, and units below it.

The header is the first line from which all rows have the same shape: the same number of cells, with values (numbers,
times) where the rows below have values.
"""

from __future__ import annotations

import contextlib
import csv
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from biasgp.data.numbers import MISSING, MOSTLY, OTHER, read_number, tidy
from biasgp.data.times import like_time
from biasgp.messages import TableError, clip

SEPARATORS = (",", ";", "\t", "|")
HEAD = 20
"""Lines that the separator of a stream is found from, and cells of each row that are looked at."""
LOOKED_AT = 200
"""Lines from the beginning of a file among which its header must be."""
COMMENT = "#"
_SAME_WIDTH = 0.9
"""Of the rows below a header that is not in the first line; the others will be refused with their line."""
_FEWEST_BELOW = 2
"""Rows that must be below such a header."""
_MOST_LEADING = 8
"""Rows as wide as the table that may come before its first reading: titles, names, units."""
MOST_UNITS = 2
"""Lines under the header: units, and what kind of average each column is."""
CENSORED = re.compile(r"\s*(?P<sign>[<>≤≥])\s*=?\s*(?P<rest>.+)", re.DOTALL)
"""A detection limit: <0.5."""
_SYMBOLS = (
    "m g s A K V W Wh J N Pa bar Hz mol l L lx lux S C F T Ohm Ω M Bq Sv eq rad sr hr ppb ppm ppt ppbv ppmv min h d "
    "day days hour hours sec seconds minutes % ‰ ° °C °F °K ℃ deg degree degrees degC degF Celsius celsius Kelvin "
    "kelvin volt volts Volt Volts atm psi mb kn knots rpm cfm count counts cts pH NTU FNU PSU psu unitless Unitless "
    "RFU AU dB dBm kph mph inHg in inch ft mi ratio index code"
)
_SYMBOL = rf"(?:[munpfkMGhcµμ]?(?:{'|'.join(map(re.escape, _SYMBOLS.split()))})|[Dd]eg(?:rees)? [CFK])"
_POWER = r"(?:\s?(?:\^|\*\*)?-?[0-9²³⁻¹]{1,3})?"
_UNIT = re.compile(rf"{_SYMBOL}{_POWER}(?:[\s./·*]{{1,3}}{_SYMBOL}{_POWER})*")
_DATE_FORM = re.compile(r"(?=.*[ymdhs])[ymdhs:/\-. t'+z]{4,30}", re.IGNORECASE)
_CAMPBELL = frozenset({"ts", "rn", "avg", "smp", "tot", "std", "min", "max", "med", "mean", "sum", "count"})
"""Words for the kind of a column, and of an average."""
_ZONES = frozenset({"utc", "gmt", "utc+0", "local", "local time", "datetime"})
_BRACKETS = re.compile(r"\[.*\]|\(.*\)")
_LONGEST_UNIT = 30


def is_value(cell: str) -> bool:
    """Whether a cell is a number or looks like a time, as those below a header do."""
    cell = tidy(cell)
    return like_time(cell) or not all(math.isnan(read_number(cell, mark)) for mark in OTHER)


def _is_unit(cell: str) -> bool:
    """Whether a cell reads like a unit, a kind of average, or the form of a date, as those under a header may."""
    cell = " ".join(cell.split())
    if len(cell) > _LONGEST_UNIT:
        return False
    return bool(
        _BRACKETS.fullmatch(cell)
        or _UNIT.fullmatch(cell)
        or _DATE_FORM.fullmatch(cell)
        or cell.lower() in _CAMPBELL | _ZONES
    )


@dataclass(frozen=True)
class Said:
    """What the user said of where the table begins: lines to pass over, and whether there is a line of units."""

    skip: int | None = None
    units: bool | None = None
    header: bool | None = None


@dataclass(frozen=True)
class TextLayout:
    """Where the header and its units are, by line from 0; `before` counts the lines that are passed over."""

    sep: str
    header: int = 0
    units: tuple[int, ...] = ()
    comments: bool = False
    """Whether lines that begin with # are passed over, those that are not rows."""
    width: int = 0
    found: bool = False
    """Whether it was looked for, so that it must be said."""
    text_first: bool = True
    """Whether the first column may hold text, so that a # may begin a cell."""

    def notes(self, name: str) -> list[str]:
        """What was passed over, and how to change that."""
        told = []
        if self.header and self.found:
            lines = "line" if self.header == 1 else f"{self.header} lines"
            told.append(f"Passed over: the first {lines} of {name}, before the header (--skip says how many).")
        if self.units and self.found:
            what = (
                f"Line {self.units[0] + 1}"
                if len(self.units) == 1
                else f"Lines {self.units[0] + 1} and {self.units[-1] + 1}"
            )
            told.append(f"{what} of {name}, under the header: read as units (--no-units if not).")
        return told


Records = Sequence[tuple[int, list[str]]]
"""Rows, each with its line from 0."""


def separator(lines: Sequence[str], sep: str | None) -> str:
    """The one given; or the one that cuts the first lines evenly, into the most cells that hold a value."""
    if sep is not None:
        mark = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "space": " "}.get(sep.lower(), sep)
        if len(mark) != 1 or mark in '"\r\n\x00' or "\ud800" <= mark <= "\udfff":
            raise TableError(f"--sep must be one character (or tab) and no quote, got {sep!r}.")
        return mark
    head = [line for line in lines[: 2 * HEAD] if line.strip()][:HEAD]
    return max(SEPARATORS, key=lambda mark: _score([row for _, row in _records(head, mark)]))


def _score(rows: Sequence[list[str]]) -> tuple[bool, float, int]:
    widths = [len(row) for row in rows] or [0]
    # A cut within a quoted cell may end the last line early, so one row may differ.
    even = sum(width == widths[0] for width in widths) >= max(len(widths) - 1, 1) and widths[0] > 1
    return even, _share_of_values(rows) if even else 0.0, widths[0]


def _share_of_values(rows: Sequence[list[str]]) -> float:
    cells = [cell for row in rows[-HEAD:] for cell in row[:HEAD] if cell.strip()]
    # A value has no separator in it, but for the comma of decimals and of July 30, 2005.
    values = sum(is_value(cell) for cell in cells if not set(cell) & set(";\t|"))
    return values / max(len(cells), 1)


def _records(head: Sequence[str], mark: str) -> list[tuple[int, list[str]]]:
    """Rows of the first lines that are not blank; those after a malformed one are not there."""
    found, reader = [], csv.reader((line + "\n" for line in head), delimiter=mark)
    with contextlib.suppress(csv.Error, StopIteration):
        while True:
            start = reader.line_num
            row = next(reader)
            if len(row) > 1 or (row and row[0].strip()):
                found.append((start, row))
    return found


def find(lines: Sequence[str], sep: str | None, said: Said, name: str) -> TextLayout:
    """The layout of a file from its first lines."""
    mark = separator(lines, sep)
    if said.skip is not None or said.header is False:
        return _as_said(lines, mark, said, name)
    head = lines[:LOOKED_AT]
    marks = SEPARATORS if sep is None else (mark,)
    found = [
        (place, _records(head, each)) for each in marks if (place := _place(_records(head, each), each, said, name))
    ]
    if not found:
        return TextLayout(mark, next((i for i, line in enumerate(lines) if line.strip()), 0))
    return max(
        found, key=lambda each: (_share_of_values([r for i, r in each[1] if i >= each[0].header]), each[0].width)
    )[0]


def find_in_rows(records: Records, said: Said, name: str) -> TextLayout:
    """The same for rows that came as such, all of one width."""
    if said.skip is not None or said.header is False:
        rows = [record for record in records if record[0] >= (said.skip or 0)]
        if not rows:
            raise TableError(f"--skip {said.skip}: {name} has no row after these. Say less.")
        units = () if said.header is False else _units_below(rows, 0, _value_columns(rows[1:]), said.units)
        return TextLayout("", rows[0][0], units, width=len(rows[0][1]))
    width = max(len(row) for _, row in records)
    # A title, or a remark, fills the first cells only; such rows are shorter than the table.
    trimmed = [(i, _without_end(row)) for i, row in records]
    lengths = Counter(len(row) for _, row in trimmed[len(trimmed) // 2 :])
    least = lengths.most_common(1)[0][0]
    padded = [(i, row + [""] * (width - len(row)) if 2 * len(row) > least else row) for i, row in trimmed]
    return _place(padded, "", said, name) or TextLayout("", records[0][0], width=width)


def _without_end(row: list[str]) -> list[str]:
    """A row without the empty cells at its end."""
    last = max((j for j, cell in enumerate(row) if cell.strip()), default=0)
    return row[: last + 1]


def _as_said(lines: Sequence[str], mark: str, said: Said, name: str) -> TextLayout:
    """The layout where the user says how many lines come before the header."""
    skip = said.skip or 0
    records = [(i + skip, row) for i, row in _records(lines[skip : skip + LOOKED_AT], mark)]
    if not records:
        raise TableError(f"--skip {skip}: {name} has no row after its first {skip} lines. Say less.")
    if said.header is False:
        return TextLayout(mark, records[0][0], width=len(records[0][1]))
    units = _units_below(records, 0, _value_columns(records[1:]), said.units)
    columns = _value_columns(records[1 + len(units) :])
    return TextLayout(mark, records[0][0], units, True, len(records[0][1]), text_first=0 not in columns)


def _place(records: list[tuple[int, list[str]]], mark: str, said: Said, name: str) -> TextLayout | None:
    """The layout with one separator; None where this one gives no table that begins anywhere but in the first line."""
    records = [(i, row) for i, row in records if any(map(str.strip, row))]
    rows = [(i, row) for i, row in records if not row[0].lstrip().startswith(COMMENT)]
    hashed = _hashed_header(records, rows)
    rows = [*hashed, *rows]
    if len(rows) < 1 + _FEWEST_BELOW:
        return None
    start = _start([row for _, row in rows])
    if start is None:
        return None
    rows = rows[start:]
    columns = _value_columns(rows[len(rows) // 2 :])
    leading = _leading(rows, columns)
    h = _header_among(leading, columns, name, said)
    beside = bool(records[0][0] != rows[h][0] or len(records) > len(rows))
    if beside and any(map(is_value, rows[h][1])):
        return None  # what follows is no header, but rows after a line that is not even
    units = _units_below(rows[: max(len(leading), h + 2)], h, columns, said.units)
    return TextLayout(
        mark, rows[h][0], units, beside or bool(units), len(rows[h][1]), True, text_first=0 not in columns
    )


def _hashed_header(records: Records, rows: Records) -> list[tuple[int, list[str]]]:
    """The last comment before the first row, where that is the header: as wide as the rows, and they are values."""
    if not rows:
        return []
    before = [record for record in records if record[0] < rows[0][0]]
    if not before or len(before[-1][1]) != len(rows[0][1]) or len(rows[0][1]) < 2:
        return []
    if not any(map(is_value, rows[0][1])) or any(map(is_value, before[-1][1])):
        return []
    return [before[-1]]


def _start(rows: Sequence[list[str]]) -> int | None:
    """The first row that all below are as wide as, but for a few, and that may be a header."""
    half = [len(row) for row in rows[len(rows) // 2 :]]
    width = Counter(half).most_common(1)[0][0]
    if width < 2:
        return None
    if len(rows[0]) == width and sum(len(row) == width for row in rows) >= len(rows) - 1:
        return 0
    alike, below = 0, 0
    best = None
    for i in range(len(rows) - 1, -1, -1):
        if len(rows[i]) == width and below >= _FEWEST_BELOW and alike >= _SAME_WIDTH * below:
            best = i if not any(map(is_value, rows[i])) else best
        alike, below = alike + (len(rows[i]) == width), below + 1
    return best


def _value_columns(rows: Records) -> frozenset[int]:
    """Columns that hold values in most rows."""
    width = max((len(row) for _, row in rows), default=0)
    found = []
    for j in range(min(width, HEAD)):
        cells = [row[j] for _, row in rows if j < len(row) and tidy(row[j]).lower() not in MISSING]
        if cells and sum(map(_is_reading, cells)) >= MOSTLY * len(cells):
            found.append(j)
    return frozenset(found)


def _is_reading(cell: str) -> bool:
    limit = CENSORED.fullmatch(cell)
    return is_value(limit["rest"] if limit else cell)


def _leading(rows: Records, columns: frozenset[int]) -> Records:
    """Rows before the first that has values, or nothing, where those below have values."""
    for k, (_, row) in enumerate(rows):
        cells = [row[j] for j in columns if j < len(row)]
        if columns and all(tidy(cell).lower() in MISSING or _is_reading(cell) for cell in cells):
            return rows[:k]
    return rows[:1]


def _header_among(leading: Records, columns: frozenset[int], name: str, said: Said) -> int:
    """Which of the rows before the first reading has the names."""
    kinds = [_kind_of(row, columns) for _, row in leading]
    if "names" not in kinds:
        return 0
    h = max(k for k, kind in enumerate(kinds) if kind == "names")
    filled = [{j for j in columns if j < len(row) and row[j].strip()} for _, row in leading]
    # What leaves cells empty that the header fills is a title, or a remark.
    doubtful = [k for k in range(h) if kinds[k] == "names" and filled[k] >= filled[h]]
    if len(leading) > _MOST_LEADING:
        return 0  # rows of text, of which the first is the header as ever
    if doubtful and said.units is True:
        return doubtful[0]
    if doubtful:
        first, second = leading[doubtful[0]], leading[h]
        shown = " and ".join(repr(clip(", ".join(row[:3]), 40)) for _, row in (first, second))
        raise TableError(
            f"Lines {first[0] + 1} and {second[0] + 1} of {name} both read like names of columns ({shown}). "
            f"Say --skip {second[0]} if the header is line {second[0] + 1}, --units if that line holds units, or "
            f"--skip {first[0]} --no-units if it is a reading."
        )
    return h


def _kind_of(row: list[str], columns: frozenset[int]) -> str:
    """What a row before the first reading is: "names", "units", a "title" in some of the cells, or "mixed"."""
    cells = [cell for cell in row if cell.strip()]
    if any(map(is_value, cells)):
        return "mixed"
    if reads_as_units(row, columns):
        return "units"
    return "title" if 2 * len(cells) <= len(row) else "names"


def reads_as_units(row: list[str], columns: frozenset[int]) -> bool:
    """Whether all cells over values that hold something read like units, and some do."""
    cells = [row[j].strip() for j in columns if j < len(row) and row[j].strip() not in ("", "-", "--")]
    return bool(cells) and not any(map(is_value, row)) and all(map(_is_unit, cells))


def _units_below(rows: Records, h: int, columns: frozenset[int], said: bool | None) -> tuple[int, ...]:
    """Lines of units directly under the header."""
    if said is False:
        return ()
    found: list[int] = []
    for line, row in rows[h + 1 : h + 1 + MOST_UNITS]:
        if not reads_as_units(row, columns) and not (said and not found):
            break
        found.append(line)
    return tuple(found)
