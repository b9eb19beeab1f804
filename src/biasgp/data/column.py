"""One column of a table: what is missing in it, its numbers, its times and its kind, each found once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from biasgp._typing import Array, Mask
from biasgp.data.marks import find_marks, split_limits
from biasgp.data.numbers import MISSING, MOSTLY, OTHER, POINT, WORDS, Decision, Written, read_number, tidy
from biasgp.data.quick import arrow_of, quick_numbers, quick_times
from biasgp.data.times import Times, like_time, parse_times, parse_times_of_day, plain_times, typed_times
from biasgp.messages import TableError, clip

LARGEST = 1e100
"""Squares of larger numbers overflow."""
EXACT = 2.0**53
"""Beyond this, floating-point numbers leave integers out."""
LONGEST_INTEGER = 110
"""Characters; longer ones are refused as too large."""
SAMPLE = 200
"""Cells that tell whether a column holds times."""
_DIGITS = re.compile(r"[+-]?[0-9]+")
_NAMED_LIKE_TIME = re.compile(r"(?:^|[^a-z])(?:date|time|datetime|timestamp|epoch|unix)", re.IGNORECASE)


@dataclass(frozen=True)
class Format:
    """How the cells of a column are written: the decimal mark, and whether the day comes before the month.

    Examples
    --------
    >>> from biasgp.data.table import Format
    >>> Format(decimal=",", day_first=True).noted()
    {'decimal': ',', 'day_first': True}
    """

    decimal: str = ""
    day_first: bool | None = None
    marks: tuple[float, ...] = ()
    """Numbers that stood for missing readings there."""

    def noted(self) -> dict[str, Any]:
        """The same for a file; without marks where there are none, as before they were known."""
        return {"decimal": self.decimal, "day_first": self.day_first} | ({"marks": self.marks} if self.marks else {})


UNKNOWN = Format()


@dataclass(frozen=True, eq=False)
class Column:
    """The cells of a column as they came, and what they hold.

    `na` stands for missing values and `given` is what the user said, both of the whole table; `usual` is how a column
    of this name was read before; `elsewhere` gives the decimal mark that the other columns agree on.
    """

    name: str
    cells: pd.Series
    na: tuple[str, ...] = ()
    given: Format = UNKNOWN
    usual: Format = UNKNOWN
    elsewhere: Callable[[], str] = str
    find_marks: bool = True
    """Whether numbers that stand for missing readings beyond doubt are found."""

    @cached_property
    def _is_text(self) -> bool:
        return bool(pd.api.types.is_object_dtype(self.cells) or pd.api.types.is_string_dtype(self.cells))

    @cached_property
    def _is_numeric(self) -> bool:
        """Whether the cells came as numbers; True and False are none."""
        return bool(pd.api.types.is_numeric_dtype(self.cells) and not pd.api.types.is_bool_dtype(self.cells))

    @cached_property
    def _arrow(self) -> Any:
        """The cells as Arrow holds them, where it does, and all that was said to be missing is a number."""
        return arrow_of(self.cells) if len(self._na_values(POINT)) == len(self.na) else None

    @cached_property
    def _quick(self) -> tuple[Array, str] | None:
        """The numbers at once, and their decimal mark, where all are plain; NaN where nothing is."""
        found = None if self._arrow is None else quick_numbers(self._arrow)
        if found is None or (found[1] and self.given.decimal not in ("", POINT)):
            return None
        return found[0], self.given.decimal or (POINT if found[1] else "")

    @cached_property
    def _quick_times(self) -> Times | None:
        """The times at once, where all are of ISO 8601 and alike."""
        found = None if self._arrow is None or self._quick is not None or self.na else quick_times(self._arrow)
        return None if found is None else plain_times(*found)

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
    def _rows(self) -> np.ndarray:
        """Rows of the cells of text that hold something, and no word that stands for nothing."""
        absent = MISSING | {tidy(mark).lower() for mark in self.na}
        return np.flatnonzero([cell.lower() not in absent for cell in self._tidied])

    @cached_property
    def _written(self) -> Written:
        return Written(self._limits[0], {mark: self._na_values(mark) for mark in OTHER})

    @cached_property
    def _limits(self) -> tuple[list[str], np.ndarray | None]:
        """The cells that hold something, without the sign of a detection limit, and the codes of these signs."""
        tidied = self._tidied
        return split_limits([tidied[i] for i in self._rows.tolist()])

    @cached_property
    def censored(self) -> np.ndarray | None:
        """Of each cell: −1 where it is a limit that the truth lies below (<0.5), 1 where above, else 0.

        None where the column has no such cell.
        """
        if not self._is_text or self._quick is not None or self._quick_times is not None or self._limits[1] is None:
            return None
        codes = np.zeros(len(self.cells), dtype=np.int8)
        codes[self._rows] = self._limits[1]
        codes[np.isnan(self._read)] = 0
        return codes if codes.any() else None

    def _na_values(self, decimal: str) -> list[float]:
        """Numbers that stand for missing: with this decimal mark, or with the other where they are none with this."""
        found = []
        for mark in map(tidy, self.na):
            value = read_number(mark, decimal)
            found.append(read_number(mark, OTHER[decimal]) if np.isnan(value) else value)
        return [value for value in found if np.isfinite(value)]

    @property
    def _holds_numbers(self) -> bool:
        """Whether the cells are numbers, most of them at least."""
        if self._quick is not None:
            return True
        if self._quick_times is not None:
            return False
        return self._written.share >= MOSTLY if self._is_text else self._is_numeric

    @cached_property
    def evidence(self) -> str:
        """The decimal mark that the column proves by itself; "" where it holds no numbers, or none that tell."""
        if self._quick is not None:
            return self._quick[1]
        mark, strong = self._written.evidence if self._is_text and self._holds_numbers else ("", False)
        return mark if strong else ""

    @cached_property
    def _decision(self) -> Decision:
        if not self._is_text or self._quick_times is not None:
            return Decision()
        if self._quick is not None:
            return Decision(self._quick[1])
        return self._written.decide(self.given.decimal, self.usual.decimal, self.elsewhere)

    @property
    def _decimal(self) -> str:
        return self._decision.decimal or POINT

    @cached_property
    def missing(self) -> Mask:
        """Which cells hold nothing, or a number or word that stands for nothing."""
        missing = self._empty
        return missing | np.isin(self._read, self.marks) if self.marks else missing

    @cached_property
    def marks(self) -> tuple[float, ...]:
        """Numbers that stand for missing readings and were not said to."""
        if not self.find_marks or not self._holds_numbers or self._decision.is_open:
            return ()
        there = self._read if not self.na else np.where(self._empty, np.nan, self._read)
        usual = tuple(mark for mark in self.usual.marks if mark in there)
        return tuple(dict.fromkeys((*usual, *find_marks(there))))

    @cached_property
    def _empty(self) -> Mask:
        """The same but for the marks that are found."""
        if self._quick is not None:
            absent = np.isnan(self._read)
            return absent | np.isin(self._read, self._na_values(POINT)) if self.na else absent
        if self._quick_times is not None:
            return np.asarray(np.isnat(self._quick_times.values))
        if self._is_text:
            missing = np.ones(len(self.cells), dtype=bool)
            missing[self._rows] = self._written.is_na(self._decimal) if self.na else False
            return missing
        if self._is_numeric:
            return np.isnan(self._read) | np.isin(self._read, self._na_values(POINT))
        return np.array(self.cells.isna().to_numpy(dtype=bool))

    @cached_property
    def _read(self) -> Array:
        """The cells as numbers, those that stand for nothing too; NaN where they are none."""
        if self._is_numeric:
            return np.array(self.cells.to_numpy(dtype=float, na_value=np.nan))
        if self._quick is not None:
            return self._quick[0]
        values = np.full(len(self.cells), np.nan)
        if self._is_text and self._quick_times is None:
            values[self._rows] = self._written.values(self._decimal)
        return values

    @cached_property
    def _numbers(self) -> Array:
        """The cells as numbers; NaN where missing or unreadable."""
        if self._quick is not None and not self.na and not self.marks:
            return self._quick[0]
        values = np.where(self.missing, np.nan, self._read)
        return values if self.censored is None else np.where(self.censored == 0, values, np.nan)

    @cached_property
    def _size(self) -> float:
        """The largest number, without its sign."""
        low, high = (float(end.reduce(self._numbers, initial=0.0)) for end in (np.fmin, np.fmax))  # pass over NaN
        return max(-low, high)

    def limits(self) -> Array:
        """The numbers, with the limit itself where a cell is one; a refusal like that of `numbers`."""
        numbers = self.numbers()
        return numbers if self.censored is None else np.where(self.censored != 0, self._read, numbers)

    @property
    def _not_numbers(self) -> Mask:
        unread = np.isnan(self._numbers) & ~self.missing
        return unread if self.censored is None else unread & (self.censored == 0)

    def refuse_open(self) -> None:
        """Refuse a column whose decimal mark nothing tells."""
        if not self._decision.is_open:
            return
        written = self._written
        i = int(np.argmax(written.either))
        raise TableError(
            f"Column {self.name!r}, row {self._rows[i] + 1}: {written.cells[i]!r} could be {written.point[i]:.15g} or "
            f"{written.comma[i]:.15g}. Say which mark comes before decimals: --decimal point or --decimal comma."
        )

    def numbers(self) -> Array:
        """The cells as numbers, NaN where missing; a refusal that names the first cell that is none."""
        self.refuse_open()
        self._refuse_odd()
        return self._numbers

    def _refuse_odd(self) -> None:
        """Refuse cells that are no numbers, or too large to compute with."""
        if "_sound" in vars(self):
            return
        if self._not_numbers.any():
            raise TableError(self._not_a_number())
        if self._size > LARGEST:
            rows = np.flatnonzero(np.abs(self._numbers) > LARGEST)
            value = clip(str(self.cells.iloc[rows[0]]))
            raise TableError(
                f"Column {self.name!r}, row {rows[0] + 1}: {value} is too large to be a reading. "
                f"Correct it, or treat it as missing with --na {value}."
            )
        vars(self)["_sound"] = True  # looked at once

    def _not_a_number(self) -> str:
        """What to say of the first cell that is no number."""
        rows = np.flatnonzero(self._not_numbers)
        value = str(self.cells.iloc[rows[0]])
        count, known = len(rows), int((~self.missing).sum())
        if 2 * count > known:
            return (
                f"Column {self.name!r} is mostly not numbers: {count:,} of {known:,} cells; the first, in row "
                f"{rows[0] + 1}, is {clip(value)!r}. Write plain numbers, or choose another column."
            )
        mark, reason = self._decision.decimal, "is not a number"
        if mark and not np.isnan(read_number(tidy(value), OTHER[mark])):
            reason += f" with a decimal {WORDS[mark]}, as the others have"
        more = f" (and {count - 1:,} more such cells)" if count > 1 else ""
        return (
            f"Column {self.name!r}, row {rows[0] + 1}: {clip(value)!r} {reason}{more}. "
            f"Correct it, or treat it as missing with --na {clip(value)!r}."
        )

    @cached_property
    def _times(self) -> Times:
        """The cells as times; those that are none are marked."""
        if self._quick_times is not None:
            return self._quick_times
        if self._is_text and not self._holds_numbers:
            return parse_times(self._tidied, self.missing, self.given.day_first, self.usual.day_first)
        if not self._holds_numbers:
            found = typed_times(self.cells)
        elif found := typed_times(pd.Series(self._numbers)):
            found = replace(found, unreadable=self._not_numbers)
        return found or Times(np.full(len(self.cells), np.datetime64("NaT", "ns")), ~self.missing)

    def times(self) -> Times:
        """The cells as times, or a refusal that names the first cell that is none."""
        if self._times.unreadable.any():
            raise TableError(self._not_a_time())
        row = self._times.without_zone
        if row is not None:
            raise TableError(
                f"{self._place(row)} has no time zone, but other rows have one. Give all of them a zone, or none."
            )
        return self._times

    def times_of_day(self) -> Times:
        """The cells as times of day, or a refusal that names the first cell that is none."""
        found = parse_times_of_day(self._tidied, self.missing)
        if found.unreadable.any():
            raise TableError(
                f"{self._place(int(np.argmax(found.unreadable)))} is not a time of day. Write it as 13:00."
            )
        return found

    def _not_a_time(self) -> str:
        """What to say of the first cell that is no time."""
        reason = f" ({self._times.why})" if self._times.why else ""
        return (
            f"{self._place(int(np.argmax(self._times.unreadable)))} is not a time that can be read{reason}. "
            "Write times as 2005-03-24T13:00, or treat it as missing with --na."
        )

    def _place(self, row: int) -> str:
        return f"Column {self.name!r}, row {row + 1}: {clip(str(self.cells.iloc[row]))!r}"

    @cached_property
    def kind(self) -> str:
        """ "time", "clock" (of day), "number", "text" or "empty"; "number?" and "time?" look like it but are not."""
        if self.missing.all():
            return "empty"
        if self._holds_numbers:
            # Numbers under a name like time may be Unix times or dates, not hours or days.
            named = _NAMED_LIKE_TIME.search(self.name)
            return "time" if named and typed_times(pd.Series(self._numbers)) else "number"
        if self._quick_times is not None:
            return "time"
        if self._is_text:
            return self._kind_of_words()
        return "time" if pd.api.types.is_datetime64_any_dtype(self.cells) else "text"

    def _kind_of_words(self) -> str:
        cells = self._written.cells
        head = cells[:SAMPLE]
        nothing = np.zeros(len(head), dtype=bool)
        if not parse_times_of_day(head, nothing).unreadable.any():
            return "clock"
        if np.mean(list(map(like_time, head))) < MOSTLY:
            return "number?" if (self._written.readable | self._written.dressed).mean() >= MOSTLY else "text"
        if len(head) < len(cells) and np.mean(~parse_times(head, nothing, self.given.day_first).unreadable) >= MOSTLY:
            return "time"
        # A zone may be clear by what comes after the first cells.
        return "time" if np.mean(~self._times.unreadable[self._rows]) >= MOSTLY else "time?"

    @property
    def trouble(self) -> str:
        """Why a column that looks like numbers or times cannot be used."""
        if self.kind == "time?":
            return self._not_a_time()
        return self._not_a_number() if self.kind == "number?" else ""

    @property
    def format(self) -> Format:
        """How it was read, for another table of the same origin."""
        if self.kind == "time":
            return Format(day_first=self._times.day_first)
        return Format(self._decision.decimal, marks=self.marks) if self.kind == "number" else UNKNOWN

    @property
    def note(self) -> str:
        """What was assumed in reading it."""
        about, rounded, marks = "", "", ""
        if self.kind == "time":
            about = self._times.note
        elif self.kind == "number":
            rounded, marks = self._rounded_note(), self._marks_note()
            if self._is_text and self._quick is None and not self._decision.is_open and not self.given.decimal:
                about = self._written.note(self._decision)
        return " ".join(filter(None, [about and f"Column {self.name!r}: {about}", rounded, marks]))

    def _marks_note(self) -> str:
        """Which numbers were taken for missing readings."""
        if not self.marks:
            return ""
        counts = [f"{mark:.15g} ({int((self._read == mark).sum()):,} cells)" for mark in self.marks]
        verb = "stands" if len(counts) == 1 else "stand"
        return (
            f"Column {self.name!r}: {' and '.join(counts)} {verb} for missing readings; --no-marks reads numbers as "
            "they are."
        )

    def _rounded_note(self) -> str:
        """The first integer that a floating-point number does not hold, and what became of it."""
        for row in np.flatnonzero(np.abs(self._numbers) >= EXACT).tolist() if self._size >= EXACT else ():
            written = self._integer(row)
            if written is not None and written != int(self._numbers[row]):
                return (
                    f"Column {self.name!r}, row {row + 1}: {written} was rounded to {int(self._numbers[row])}; "
                    "integers beyond 2^53 are not kept exactly."
                )
        return ""

    def _integer(self, row: int) -> int | None:
        """The integer that a cell holds: typed, or as digits that may be grouped; None where it is something else."""
        if not self._is_text:
            cell = self.cells.iloc[row]
            return int(cell) if isinstance(cell, int | np.integer) else None
        digits = re.sub(f"[ '{OTHER[self._decimal]}]", "", self._tidied[row])
        return int(digits) if _DIGITS.fullmatch(digits) and len(digits) < LONGEST_INTEGER else None
