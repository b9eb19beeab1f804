"""One column of a table: what is missing in it, its numbers, its times and its kind, each found once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np
import pandas as pd

from biasgp._typing import Array, Mask
from biasgp.data.numbers import COMMA, POINT, WORDS, Decision, Written, decide, like_numbers, read_number, tidy
from biasgp.data.refusal import TableError, clip, quoted
from biasgp.data.times import (
    NAMED_LIKE_TIME,
    Order,
    Times,
    in_nanoseconds,
    is_time_of_day,
    like_time,
    parse_times,
    parse_times_of_day,
    times_from_numbers,
)

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--", "—", "?", "nil"})
LARGEST = 1e100
"""Squares of larger numbers overflow."""
EXACT = 2.0**53
"""Beyond this, floating-point numbers leave integers out."""
LONGEST_INTEGER = 110
"""Characters; longer ones are refused as too large."""
_DIGITS = re.compile(r"[+-]?[0-9]+")
SAMPLE = 200
"""Cells that tell whether a column holds times."""
MOSTLY = 0.8
"""A column with at least this share of numbers was meant to be numeric."""


@dataclass(frozen=True)
class Format:
    """How the cells of a column are written: the decimal mark, and whether the day comes before the month."""

    decimal: str = ""
    day_first: bool | None = None


UNKNOWN, UNMARKED = Format(), Decision()


@dataclass(frozen=True)
class Manner:
    """How to read a column: what the user said of the table, what is usual for the column, what other columns show."""

    na: tuple[str, ...] = ()
    given: Format = UNKNOWN
    usual: Format = UNKNOWN
    elsewhere: Callable[[], str] = str

    @cached_property
    def absent(self) -> frozenset[str]:
        """Words that stand for a missing value, in small letters."""
        return MISSING | {tidy(mark).lower() for mark in self.na}


@dataclass(frozen=True)
class Numbers:
    """A column as numbers, NaN where missing or unreadable."""

    values: Array
    missing: Mask
    unreadable: Mask
    decision: Decision = UNMARKED


class Column:
    """The cells of a column as they came, and what they hold."""

    def __init__(self, name: str, cells: pd.Series, manner: Manner) -> None:
        self.name, self.cells, self.manner = name, cells, manner
        self.is_text = bool(pd.api.types.is_object_dtype(cells) or pd.api.types.is_string_dtype(cells))

    @cached_property
    def _tidied(self) -> list[str]:
        """All cells, tidy; empty where there is none."""
        cells = self.cells.tolist()
        try:
            stripped = list(map(str.strip, cells))
        except TypeError:  # of a Parquet file
            stripped = ["" if pd.isna(cell) else str(cell).strip() for cell in cells]
        return stripped if all(map(str.isascii, stripped)) else list(map(tidy, stripped))

    @cached_property
    def _text(self) -> tuple[list[str], np.ndarray]:
        """The tidy cells that hold something, and their rows."""
        tidied, absent = self._tidied, self.manner.absent
        if absent.isdisjoint(map(str.lower, tidied)):
            return tidied, np.arange(len(tidied))
        rows = [i for i, cell in enumerate(tidied) if cell.lower() not in absent]
        return [tidied[i] for i in rows], np.array(rows, dtype=np.intp)

    @cached_property
    def _wordless(self) -> Mask:
        """Cells of text that hold nothing, or a word for it."""
        wordless = np.ones(len(self.cells), dtype=bool)
        wordless[self._text[1]] = False
        return wordless

    @cached_property
    def written(self) -> Written:
        return Written(self._text[0])

    @cached_property
    def _ignored(self) -> Mask:
        """Written cells that are a number that stands for missing, with whatever decimal mark."""
        written, marks = self.written, self.manner.na
        if not marks:
            return np.zeros(len(written.cells), dtype=bool)
        return np.isin(written.point, _values(marks, POINT)) | np.isin(written.comma, _values(marks, COMMA))

    @cached_property
    def evidence(self) -> str:
        """The decimal mark that the column proves by itself; "" where it holds no numbers, or none that tell."""
        if not self.is_text or self.written.share < MOSTLY:
            return ""
        mark, strong = self.written.evidence(self._ignored)
        return mark if strong else ""

    @cached_property
    def numbers(self) -> Numbers:
        if self.is_text:
            return self._written_numbers()
        missing = np.array(self.cells.isna().to_numpy(dtype=bool))
        if not _is_numeric(self.cells):
            return Numbers(np.full(len(missing), np.nan), missing, ~missing)
        values = np.array(self.cells.to_numpy(dtype=float, na_value=np.nan))
        missing |= np.isnan(values) | np.isin(values, _values(self.manner.na, POINT))
        values[missing] = np.nan
        return Numbers(values, missing, np.zeros(len(values), dtype=bool))

    def _written_numbers(self) -> Numbers:
        written, (_, rows) = self.written, self._text
        given = self.manner.given.decimal
        usual, elsewhere = self.manner.usual.decimal, self.manner.elsewhere
        decision = Decision(given) if given else decide(written, self._ignored, usual, elsewhere)
        mark = decision.decimal or POINT
        found = written.comma if mark == COMMA else written.point
        missing, values = np.ones(len(self.cells), dtype=bool), np.full(len(self.cells), np.nan)
        stands = np.isin(found, _values(self.manner.na, mark)) if self.manner.na else np.zeros(len(rows), dtype=bool)
        values[rows] = np.where(stands, np.nan, found)
        missing[rows] = stands
        return Numbers(values, missing, np.isnan(values) & ~missing, decision)

    def _mark_note(self) -> str:
        """Which marks were read as what, where that can be doubted."""
        decision = self.numbers.decision
        if not self.is_text or decision.is_open or self.manner.given.decimal or self.written.plain:
            return ""
        mark = decision.decimal or POINT
        cells, found = self.written.cells, self.written.comma if mark == COMMA else self.written.point
        grouped = [i for i in np.flatnonzero(np.isfinite(found)).tolist() if _groups(cells[i], mark)]
        if grouped:
            return self._said(grouped[0], found, _groups(cells[grouped[0]], mark), "thousands marks", mark)
        doubtful = np.flatnonzero(self.written.either(self._ignored)).tolist()
        if decision.assumed and doubtful:
            return self._said(doubtful[0], found, WORDS[mark] + "s", "decimal marks", mark)
        return ""

    def _rounded_note(self) -> str:
        """The first integer that a floating-point number does not hold, and what became of it."""
        values = self.numbers.values
        for row in np.flatnonzero(np.abs(values) >= EXACT).tolist():
            cell = self._tidied[row] if self.is_text else self.cells.iloc[row]
            written = _integer(cell, self.numbers.decision.decimal or POINT)
            if written is not None and written != int(values[row]):
                return (
                    f"Column {self.name!r}, row {row + 1}: {written} was rounded to {int(values[row])}; integers "
                    "beyond 2^53 are not kept exactly."
                )
        return ""

    def _said(self, i: int, found: Array, marks: str, role: str, decimal: str) -> str:
        other = WORDS[COMMA if decimal == POINT else POINT]
        advice = f"; --decimal {other} reads them otherwise" if marks in ("commas", "points") else ""
        return (
            f"Column {self.name!r}: {marks} were read as {role} ({clip(self.written.cells[i])!r} is {found[i]:.15g})"
            f"{advice}."
        )

    @cached_property
    def missing(self) -> Mask:
        """Which cells hold nothing, or a number or word that stands for nothing."""
        return self._wordless if self.is_text and not self.manner.na else self.numbers.missing

    def refuse_open(self) -> None:
        """Refuse a column whose decimal mark nothing tells."""
        if not self.numbers.decision.is_open:
            return
        i = int(np.flatnonzero(self.written.either(self._ignored))[0])
        row, cell = self._text[1][i] + 1, self.written.cells[i]
        raise TableError(
            f"Column {self.name!r}, row {row}: {cell!r} could be {self.written.point[i]:.15g} or "
            f"{self.written.comma[i]:.15g}. Say which mark comes before decimals: --decimal point or --decimal comma."
        )

    def checked_numbers(self) -> Array:
        """The numbers, or a refusal that names the first cell that is none."""
        self.refuse_open()
        values, unreadable = self.numbers.values, self.numbers.unreadable
        if unreadable.any():
            raise TableError(self.not_a_number())
        rows = np.flatnonzero(np.abs(values) > LARGEST)
        if len(rows):
            value = str(self.cells.iloc[rows[0]])
            raise TableError(
                f"Column {self.name!r}, row {rows[0] + 1}: {clip(value)} is too large to be a reading. "
                f"Correct it, or treat it as missing with --na {clip(value)}."
            )
        return values

    def not_a_number(self) -> str:
        """What to say of the first cell that is no number."""
        rows = np.flatnonzero(self.numbers.unreadable)
        value = str(self.cells.iloc[rows[0]])
        count, known = len(rows), int((~self.missing).sum())
        mark = self.numbers.decision.decimal
        other = COMMA if mark == POINT else POINT
        reason = "is not a number"
        if mark and not np.isnan(read_number(tidy(value), other)):
            reason += f" with a decimal {WORDS[mark]}, as the others have"
        if 2 * count > known:
            return (
                f"Column {self.name!r} is mostly not numbers: {count:,} of {known:,} cells; the first, in row "
                f"{rows[0] + 1}, is {clip(value)!r}. Write plain numbers, or choose another column."
            )
        more = f" (and {count - 1:,} more such cells)" if count > 1 else ""
        return (
            f"Column {self.name!r}, row {rows[0] + 1}: {clip(value)!r} {reason}{more}. "
            f"Correct it, or treat it as missing with --na {quoted(clip(value))}."
        )

    @cached_property
    def times(self) -> Times:
        """The column as times; cells that are none are marked."""
        if not self.is_text:
            return self._typed_times(self.cells)
        if self.written.share >= MOSTLY:
            found = self._typed_times(pd.Series(self.numbers.values))
            return replace(found, unreadable=found.unreadable | self.numbers.unreadable)
        order = Order(self.manner.given.day_first, self.manner.usual.day_first)
        return parse_times(self._tidied, self._wordless, order)

    def _typed_times(self, cells: pd.Series) -> Times:
        nothing = np.zeros(len(cells), dtype=bool)
        if pd.api.types.is_datetime64_any_dtype(cells):
            zoned = cells.dt.tz is not None
            known = cells.dropna()
            offset = known.iloc[0].utcoffset().total_seconds() / 3600.0 if zoned and len(known) else 0.0
            naive = cells.dt.tz_convert("UTC").dt.tz_localize(None) if zoned else cells
            values, outside = in_nanoseconds(naive.to_numpy())
            note = "Times outside 1678–2261 count as missing." if outside.any() else ""
            return Times(values, nothing, zoned, offset, note=note)
        stamps = None
        if _is_numeric(cells):
            stamps = times_from_numbers(pd.Series(cells.to_numpy(dtype=float, na_value=np.nan)))
        if stamps is None:
            return Times(np.full(len(cells), np.datetime64("NaT", "ns")), ~self.missing)
        return Times(stamps.to_numpy(), nothing, note="Numbers were read as Unix time or date.")

    def checked_times(self) -> Times:
        """The times, or a refusal that names the first cell that is none."""
        found = self.times
        rows = np.flatnonzero(found.unreadable)
        if len(rows):
            raise TableError(self.not_a_time(int(rows[0]), found.why))
        if found.without_zone is not None:
            raise TableError(
                f"Column {self.name!r}, row {found.without_zone + 1}: {self._shown(found.without_zone)} has no time "
                "zone, but other rows have one. Give all of them a zone, or none."
            )
        return found

    def checked_clock(self) -> Times:
        """Times of day, or a refusal that names the first cell that is none."""
        found = parse_times_of_day(self._tidied, self.missing)
        rows = np.flatnonzero(found.unreadable)
        if len(rows):
            raise TableError(
                f"Column {self.name!r}, row {rows[0] + 1}: {self._shown(rows[0])} is not a time of day. "
                "Write it as 13:00."
            )
        return found

    def not_a_time(self, row: int, why: str) -> str:
        """What to say of a cell that is no time."""
        reason = f" ({why})" if why else ""
        return (
            f"Column {self.name!r}, row {row + 1}: {self._shown(row)} is not a time that can be read{reason}. "
            "Write times as 2005-03-24T13:00, or treat it as missing with --na."
        )

    def _shown(self, row: int) -> str:
        return repr(clip(str(self.cells.iloc[row])))

    @cached_property
    def kind(self) -> str:
        """ "time", "clock" (of day), "number", "text" or "empty"; "number?" and "time?" look like it but are not."""
        if self.missing.all():
            return "empty"
        if self.is_text:
            return self._kind_of_text()
        if pd.api.types.is_datetime64_any_dtype(self.cells):
            return "time"
        if not _is_numeric(self.cells):
            return "text"
        return "time" if self._stamped() else "number"

    def _kind_of_text(self) -> str:
        cells, rows = self._text
        if self.written.share >= MOSTLY:
            return "time" if self._stamped() else "number"
        head = cells[:SAMPLE]
        nothing = np.zeros(len(head), dtype=bool)
        if is_time_of_day(head[0]) and not parse_times_of_day(head, nothing).unreadable.any():
            return "clock"
        if _mostly(head, like_time):
            if len(head) < len(cells):
                unreadable = parse_times(head, nothing, Order(self.manner.given.day_first)).unreadable
                if np.mean(unreadable) <= 1.0 - MOSTLY:
                    return "time"
            # A zone may be clear by what comes after the first cells.
            return "time" if np.mean(~self.times.unreadable[rows]) >= MOSTLY else "time?"
        return "number?" if (self.written.readable | like_numbers(cells)).mean() >= MOSTLY else "text"

    def _stamped(self) -> bool:
        """Whether numbers under a name like time are Unix times or dates, not hours or days."""
        return (
            bool(NAMED_LIKE_TIME.search(self.name)) and times_from_numbers(pd.Series(self.numbers.values)) is not None
        )

    @property
    def trouble(self) -> str:
        """Why a column that looks like numbers or times cannot be used."""
        if self.kind == "time?":
            return self.not_a_time(int(np.flatnonzero(self.times.unreadable)[0]), self.times.why)
        return self.not_a_number() if self.kind == "number?" else ""

    @property
    def format(self) -> Format:
        """How it was read, for another table of the same origin."""
        if self.kind == "time":
            return Format(day_first=self.times.day_first)
        return Format(self.numbers.decision.decimal) if self.kind == "number" else Format()

    @property
    def note(self) -> str:
        """What was assumed in reading it."""
        if self.kind == "number":
            return " ".join(filter(None, [self._mark_note(), self._rounded_note()]))
        return f"Column {self.name!r}: {self.times.note}" if self.kind == "time" and self.times.note else ""


def _mostly(cells: Sequence[str], holds: Callable[[str], bool]) -> bool:
    """Whether it holds for at least `MOSTLY` of the cells; those that can no longer matter are not looked at."""
    spare = int(len(cells) * (1.0 - MOSTLY) + 1e-9)
    return next(islice((cell for cell in cells if not holds(cell)), spare, None), None) is None


def _is_numeric(cells: pd.Series) -> bool:
    """Whether cells came as numbers; True and False are none."""
    return bool(pd.api.types.is_numeric_dtype(cells) and not pd.api.types.is_bool_dtype(cells))


_WITHOUT_GROUPS = {POINT: str.maketrans("", "", ", '"), COMMA: str.maketrans("", "", ". '")}


def _integer(cell: object, decimal: str) -> int | None:
    """The integer that a cell holds: typed, or as digits that may be grouped; None where it is something else."""
    if isinstance(cell, int | np.integer):
        return int(cell)
    digits = cell.translate(_WITHOUT_GROUPS[decimal]) if isinstance(cell, str) else ""
    return int(digits) if _DIGITS.fullmatch(digits) and len(digits) < LONGEST_INTEGER else None


def _values(marks: tuple[str, ...], decimal: str) -> list[float]:
    """Marks for missing values as numbers: with this decimal mark, or with the other where it is none with this."""
    other = COMMA if decimal == POINT else POINT
    found = []
    for mark in map(tidy, marks):
        value = read_number(mark, decimal)
        found.append(read_number(mark, other) if np.isnan(value) else value)
    return [value for value in found if np.isfinite(value)]


def _groups(cell: str, decimal: str) -> str:
    """The marks of thousands in a number, in words; "" where it has none."""
    marks = {" ": "spaces", "'": "apostrophes", **({",": "commas"} if decimal == POINT else {".": "points"})}
    return next((word for mark, word in marks.items() if mark in cell), "")
