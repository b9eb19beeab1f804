"""Columns of times, in the forms that instruments and spreadsheets write, as one clock without a zone."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from biasgp._typing import Mask
from biasgp.data import zones
from biasgp.data.numbers import is_strong
from biasgp.messages import clip

_CLOCK = r"(?P<h>\d{1,2})[:.](?P<mi>\d{2})(?:[:.](?P<s>\d{2}(?:[.,]\d+)?))?\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
_TAIL = rf"(?:(?:[ T,]+){_CLOCK}\s*(?P<zone>{zones.PATTERN})?)?"
_NUMERIC = re.compile(rf"(?P<a>\d{{1,4}})[./-](?P<b>\d{{1,2}})[./-](?P<c>\d{{1,4}}){_TAIL}", re.ASCII)
_DAY_MONTH = re.compile(
    rf"(?P<d>\d{{1,2}})[ .-]+(?P<mon>[A-Za-z]{{3,9}})[ .,-]+(?P<y>\d{{2}}|\d{{4}}){_TAIL}", re.ASCII
)
_MONTH_DAY = re.compile(
    rf"(?P<mon>[A-Za-z]{{3,9}})[ .]+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?[ ,]+(?P<y>\d{{4}}){_TAIL}", re.ASCII
)
_WEEKDAY = re.compile(r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*[., ]+", re.IGNORECASE)
_OF_DAY = re.compile(_CLOCK, re.ASCII)
_DOTTED_DATE = re.compile(r"(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.\d{2}", re.ASCII)
"""24.03.05 may be meant as a date: no part is ever 0, and the second is never above 12."""
_ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}(?::?\d{2}(?::?\d{2}(?:[.,]\d{1,9})?)?)?(?P<zone> ?Z|[+-]\d{2}(?::?\d{2})?)?)?"
    r"|\d{8}T\d{4}(?:\d{2})?(?P<short>Z|[+-]\d{2}(?::?\d{2})?)?",
    re.ASCII,
)
_ISO_MONTH = re.compile(r"\d{4}-\d{2}", re.ASCII)
_TO_BASIC = str.maketrans({":": None, ",": "."})
"""Clocks with some colons missing, or a comma, in the one form of ISO 8601 that pandas reads always."""
_MONTH = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_HAS_MONTH = re.compile(_MONTH, re.IGNORECASE)
_LIKE = re.compile(
    r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?![\d./-])|\d{8}T\d{4}|\d{4}-\d{2}$|\d{1,2}:\d{2}(?::\d{2})?(?![\w:])"
    r"|.*\b\d{4}\b.*\b\d{1,2}:\d{2}"
    rf"|.*\b\d{{1,2}}\b.*\b(?:{_MONTH})[a-z]*\b.*\b\d{{2,4}}|.*\b(?:{_MONTH})[a-z]*\b.*\b\d{{1,2}}\b.*\b\d{{2,4}}",
    re.IGNORECASE,
)
_MONTHS = {
    name[:length].lower(): str(number)
    for number, name in enumerate(calendar.month_name)
    for length in range(3, len(name) + 1)
}
"""Numbers of the English months, whole or shortened to at least three letters."""
_UNIX_RANGES = {"s": (3e8, 5e9), "ms": (3e11, 5e12), "us": (3e14, 5e15), "ns": (3e17, 5e18)}
"""Unix times from 1979 to 2128, by their unit."""
_YEAR_MONTH_DAY = (19000101, 21001231)
_FIRST_YEAR, _LAST_YEAR = 1678, 2261
"""Whole years that 64 bits of nanoseconds hold. What lies outside stands for no time: 9999-12-31, 0001-01-01."""
_FIRST_SHORT_YEAR = 70
"""Years of two digits are of 1970 to 2069."""
_LONGEST_TIME = 80
"""Characters; nothing longer is a time, and no pattern is tried on it."""


@dataclass(frozen=True)
class Times:
    """Times as datetime64 (of UTC where the cells had zones), which cells could not be read, and what was assumed."""

    values: np.ndarray
    unreadable: Mask
    zoned: bool = False
    offset_hours: float = 0.0
    without_zone: int | None = None
    """First row without a zone where others have one."""
    note: str = ""
    why: str = ""
    """What is wrong with the first unreadable cell, where more can be said than that it is no time."""
    day_first: bool | None = None
    """The order of day and month, where the cells have one."""


def like_time(cell: str) -> bool:
    """Whether a cell looks like a time, even one that cannot be read."""
    if not cell[:1].isdigit() and ":" not in cell and not _HAS_MONTH.search(cell):
        return False  # as the pattern would say, at length
    return len(cell) <= _LONGEST_TIME and bool(_LIKE.match(cell))


def parse_times(
    cells: Sequence[str], missing: Mask, day_first: bool | None = None, usual_day_first: bool | None = None
) -> Times:
    """Read a column of tidy text; cells in `missing` are not looked at.

    `day_first` is the order of day and month where it was given, `usual_day_first` the one to take where both would do.
    """
    rows = np.flatnonzero(~missing)
    text = [cells[i] for i in rows.tolist()]
    found = _iso(text) or _by_parts(text, day_first, usual_day_first)
    values = np.full(len(cells), np.datetime64("NaT", "ns"))
    values[rows] = found.stamps
    unreadable = np.zeros(len(cells), dtype=bool)
    unreadable[rows] = np.isnat(found.stamps) & ~found.out_of_range
    has_zone = np.array(list(map(bool, found.zones)), dtype=bool)
    without = rows[~has_zone & ~np.isnat(found.stamps)] if has_zone.any() else []
    return Times(
        values,
        unreadable,
        bool(has_zone.any()),
        found.offset,
        int(without[0]) if len(without) else None,
        " ".join(filter(None, [found.note, _range_note(text, rows, found.out_of_range)])),
        found.why,
        found.day_first,
    )


@dataclass(frozen=True)
class _Stamps:
    """Readings of the cells that hold something: UTC where there is a zone."""

    stamps: np.ndarray
    out_of_range: Mask
    zones: Sequence[str]
    offset: float
    note: str = ""
    why: str = ""
    day_first: bool | None = None


def _range_note(text: Sequence[str], rows: np.ndarray, out_of_range: Mask) -> str:
    at = np.flatnonzero(out_of_range)
    if len(at) == 0:
        return ""
    more = f" ({len(at)} such cells)" if len(at) > 1 else ""
    return (
        f"Row {rows[at[0]] + 1}: {clip(text[at[0]])!r} lies outside {_FIRST_YEAR}–{_LAST_YEAR} and counts as a missing "
        f"time{more}."
    )


def _in_nanoseconds(stamps: np.ndarray) -> tuple[np.ndarray, Mask]:
    """Times of any precision in nanoseconds, and which of them are out of their range (NaT then)."""
    within, outside = _in_range(stamps)
    return within.astype("datetime64[ns]"), outside


def _in_range(stamps: np.ndarray) -> tuple[np.ndarray, Mask]:
    """Times that nanoseconds hold, in their own precision, NaT for the others; and which these are."""
    # Compared in their own precision: the year of each one takes ten times as long. NaT compares as False.
    first, end = (np.datetime64(str(year)).astype(stamps.dtype) for year in (_FIRST_YEAR, _LAST_YEAR + 1))
    outside = (stamps < first) | (stamps >= end)
    return np.where(outside, np.array("NaT", stamps.dtype), stamps) if outside.any() else stamps, outside


def _iso(text: Sequence[str]) -> _Stamps | None:
    """All cells as ISO 8601 at once, None where one is not."""
    matches = list(map(_ISO.fullmatch, text))
    if None in matches and not all(map(_ISO_MONTH.fullmatch, text)):
        return None
    tails = [(match["zone"] or match["short"] or "") if match else "" for match in matches]
    outside = np.array([not str(_FIRST_YEAR) <= cell[:4] <= str(_LAST_YEAR) for cell in text], dtype=bool)
    # A year out of range is replaced by one within, so that the rest of the cell is checked.
    near = ["2000" + cell[4:] if out else cell for cell, out in zip(text, outside.tolist(), strict=True)]
    bare = [cell.removesuffix(tail).translate(_TO_BASIC) for cell, tail in zip(near, tails, strict=True)]
    local = pd.to_datetime(pd.Series(bare, dtype=object), format="ISO8601", errors="coerce").to_numpy("datetime64[ns]")
    names = [tail.strip() for tail in tails]
    stamps, offset, remark, _ = zones.to_utc(local, names)
    if np.isnat(stamps).any():
        return None
    return _Stamps(np.where(outside, np.datetime64("NaT", "ns"), stamps), outside, names, offset, remark)


def _by_parts(text: Sequence[str], given: bool | None, usual: bool | None) -> _Stamps:
    """Times from their parts, all in the form that most cells have."""
    short = [_WEEKDAY.sub("", cell, count=1) if len(cell) <= _LONGEST_TIME else "" for cell in text]
    found = max(
        (list(map(pattern.fullmatch, short)) for pattern in (_NUMERIC, _DAY_MONTH, _MONTH_DAY)),
        key=lambda matches: len(matches) - matches.count(None),
    )
    form = next((match.re for match in found if match), _NUMERIC)

    def part(name: str) -> list[str]:
        return [(match[name] or "") if match else "" for match in found]

    day_first, note = None, ""
    if form is not _NUMERIC:
        dates = _dates(part("y"), [_MONTHS.get(word.lower(), "") for word in part("mon")], part("d"))
    elif 2 * sum(len(year) == 4 for year in part("a")) >= len(found) - found.count(None):
        dates = _dates([year if len(year) == 4 else "" for year in part("a")], part("b"), part("c"))
    else:
        dates, day_first, note = _day_or_month_first(part("a"), part("b"), part("c"), given, usual)
    days, outside = _in_nanoseconds(dates)
    clock = zip(part("h"), part("mi"), part("s"), part("half"), strict=True)
    local = days + _nanoseconds([_second(*parts) if parts[0] else 0.0 for parts in clock])
    names = part("zone")
    stamps, offset, remark, why = zones.to_utc(local, names)
    if given is not None and day_first is not None:
        why = why or f"with the {'day' if given else 'month'} first"
    return _Stamps(stamps, outside, names, offset, " ".join(filter(None, [note, remark])), why, day_first)


def _dates(years: Sequence[str], months: Sequence[str], days: Sequence[str]) -> np.ndarray:
    """Days from their parts; NaT where a part is missing or there is no such day."""
    year, month, day = (np.array([int(part) if part else -1 for part in parts]) for parts in (years, months, days))
    brief = np.array([len(part) <= 2 for part in years], dtype=bool) & (year >= 0)
    year = year + brief * np.where(year < _FIRST_SHORT_YEAR, 2000, 1900)
    valid = np.array([len(part) != 3 for part in years], dtype=bool) & (year >= 1) & (month >= 1) & (month <= 12)
    first = (np.where(valid, (year - 1970) * 12 + month - 1, 0)).astype("datetime64[M]")
    length = ((first + np.timedelta64(1, "M")).astype("datetime64[D]") - first.astype("datetime64[D]")).astype(np.int64)
    valid &= (day >= 1) & (day <= length) & np.array([len(m) <= 2 >= len(d) for m, d in zip(months, days, strict=True)])
    return np.where(
        valid, first.astype("datetime64[D]") + (day - 1).astype("timedelta64[D]"), np.datetime64("NaT", "D")
    )


def _day_or_month_first(
    a: Sequence[str], b: Sequence[str], years: Sequence[str], given: bool | None, usual: bool | None
) -> tuple[np.ndarray, bool | None, str]:
    """24/3/2005 or 3/24/2005; where both would do, the order that spans less time: the other one jumps by months."""
    day_first, month_first = _dates(years, b, a), _dates(years, a, b)
    if given is not None:
        return (day_first if given else month_first), given, ""
    if np.array_equal(day_first, month_first, equal_nan=True):
        return day_first, usual, ""
    proofs = int(np.isnat(month_first).sum()) - int(np.isnat(day_first).sum())
    likely = usual if usual is not None else not _span(month_first) < _span(day_first)
    first = proofs > 0 if proofs else likely
    word, other = ("day", "--month-first") if first else ("month", "--day-first")
    note = f"Dates could be read with the day or the month first; the {word} was taken to come first ({other} if not)."
    return (day_first if first else month_first), first, "" if is_strong(abs(proofs), len(a)) else note


def _span(dates: np.ndarray) -> float:
    known = dates[~np.isnat(dates)].astype(np.int64)
    return float(np.ptp(known)) if len(known) else 0.0


def _second(h: str, mi: str, s: str, half: str) -> float:
    """Seconds since midnight; NaN where the clock is not one."""
    hours, minutes, seconds = int(h), int(mi), float(s.replace(",", ".") or 0.0)
    if half:
        if not 1 <= hours <= 12:
            return float("nan")
        hours = hours % 12 + 12 * (half[0] in "pP")
    total = 3600.0 * hours + 60.0 * minutes + seconds
    return total if minutes < 60 and seconds < 61.0 and total <= 86400.0 else float("nan")


def _nanoseconds(seconds: Sequence[float]) -> np.ndarray:
    return np.round(1e9 * np.array(seconds, dtype=np.float64)).astype("timedelta64[ns]")


def parse_times_of_day(cells: Sequence[str], missing: Mask) -> Times:
    """Read a column such as 18:00 or 6.30.00 PM as times on the first of January 1970."""
    rows = np.flatnonzero(~missing)
    text = [cells[i] if len(cells[i]) <= _LONGEST_TIME else "" for i in rows.tolist()]
    stamps = np.full(len(cells), np.datetime64("NaT", "ns"))
    if not all(map(_DOTTED_DATE.fullmatch, text)):
        found = [_OF_DAY.fullmatch(cell) for cell in text]
        seconds = [_second(m["h"], m["mi"], m["s"] or "", m["half"] or "") if m else float("nan") for m in found]
        stamps[rows] = np.datetime64(0, "ns") + _nanoseconds(seconds)
    return Times(stamps, np.isnat(stamps) & ~missing)


def plain_times(stamps: np.ndarray, zone: str) -> Times:
    """Times of one form that were read at once: of UTC where the zone is "Z"."""
    values, outside = _in_range(stamps)
    note = f"{int(outside.sum()):,} times outside {_FIRST_YEAR}–{_LAST_YEAR} count as missing." if outside.any() else ""
    return Times(values, np.zeros(len(values), dtype=bool), bool(zone), note=note)


def typed_times(cells: pd.Series) -> Times | None:
    """Times that came as such, or as numbers: Unix times (seconds to nanoseconds) or dates like 20050324; else None."""
    nothing = np.zeros(len(cells), dtype=bool)
    if pd.api.types.is_datetime64_any_dtype(cells):
        zoned, known = cells.dt.tz is not None, cells.dropna()
        offset = known.iloc[0].utcoffset() / pd.Timedelta(1, "h") if zoned and len(known) else 0.0
        naive = cells.dt.tz_convert("UTC").dt.tz_localize(None) if zoned else cells
        values, outside = _in_nanoseconds(naive.to_numpy())
        note = f"Times outside {_FIRST_YEAR}–{_LAST_YEAR} count as missing." if outside.any() else ""
        return Times(values, nothing, zoned, offset, note=note)
    stamps = _times_from_numbers(cells) if cells.dtype == np.float64 else None
    if stamps is None:
        return None
    return Times(stamps.to_numpy("datetime64[ns]"), nothing, note="Numbers were read as Unix time or date.")


def _times_from_numbers(numbers: pd.Series) -> pd.Series | None:
    low, high = numbers.min(), numbers.max()
    for unit, (lowest, highest) in _UNIX_RANGES.items():
        if lowest <= low and high <= highest:
            return pd.to_datetime(numbers, unit=unit)
    first, last = _YEAR_MONTH_DAY
    if first <= low and high <= last and (numbers.dropna() % 1 == 0).all():
        text = numbers.map(lambda v: "" if np.isnan(v) else f"{v:.0f}")
        stamps = pd.to_datetime(text, format="%Y%m%d", errors="coerce")
        return None if (stamps.isna() & numbers.notna()).any() else stamps
    return None
