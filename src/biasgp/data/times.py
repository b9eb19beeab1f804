"""Columns of times, in the forms that instruments and spreadsheets write, as one clock without a zone."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from biasgp._typing import Array, Mask
from biasgp.data import zones
from biasgp.data.refusal import clip

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
_ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}(?::?\d{2}(?::?\d{2}(?:[.,]\d{1,9})?)?)?(?P<zone> ?Z|[+-]\d{2}(?::?\d{2})?)?)?"
    r"|\d{8}T\d{4}(?:\d{2})?(?P<short>Z|[+-]\d{2}(?::?\d{2})?)?",
    re.ASCII,
)
_NO_TIME = "NaT"
# NumPy takes the last two digits of 1908 for a zone, and no comma.
_NOT_EXTENDED = re.compile(r"[T :]\d{3}|,")
_NOT_DIGITS = re.compile(r"[-:T ]")
_MONTH = re.compile("jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec", re.IGNORECASE)
_MONTH_ONLY = re.compile(r"\d{4}-\d{2}", re.ASCII)
_LIKE = re.compile(
    r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?![\d./-])|\d{8}T\d{4}|\d{4}-\d{2}$|\d{1,2}:\d{2}(?::\d{2})?(?![\w:])"
    r"|.*\b\d{4}\b.*\b\d{1,2}:\d{2}"
    r"|.*\b\d{1,2}\b.*\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b.*\b\d{2,4}"
    r"|.*\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b.*\b\d{1,2}\b.*\b\d{2,4}",
    re.IGNORECASE,
)
_MONTHS = [name.lower() for name in calendar.month_name]
NAMED_LIKE_TIME = re.compile(r"(?:^|[^a-z])(?:date|time|datetime|timestamp|epoch|unix)", re.IGNORECASE)
UNIX_RANGES = {"s": (3e8, 5e9), "ms": (3e11, 5e12), "us": (3e14, 5e15), "ns": (3e17, 5e18)}
YEAR_MONTH_DAY = (19000101, 21001231)
FIRST_YEAR, LAST_YEAR = 1678, 2261
"""Whole years that 64 bits of nanoseconds hold. What lies outside stands for no time: 9999-12-31, 0001-01-01."""
FEW = 2
"""Cells that may be slips, where many others leave the order of day and month open."""
LONGEST_TIME = 80
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


@dataclass(frozen=True)
class Order:
    """What is known of the order of day and month before a look at the cells: given, or usual where both would do."""

    given: bool | None = None
    usual: bool | None = None


def like_time(cell: str) -> bool:
    """Whether a cell looks like a time, even one that cannot be read."""
    if not cell[:1].isdigit() and ":" not in cell and not _MONTH.search(cell):
        return False  # as the pattern would say, at length
    return len(cell) <= LONGEST_TIME and bool(_LIKE.match(cell))


def parse_times(cells: Sequence[str], missing: Mask, order: Order | None = None) -> Times:
    """Read a column of tidy text; cells in `missing` are not looked at."""
    rows = np.flatnonzero(~missing)
    text = [cells[i] for i in rows.tolist()]
    found = _iso(text) or _by_parts(text, order or Order())
    values = np.full(len(cells), np.datetime64("NaT", "ns"))
    values[rows] = found.stamps
    unreadable = np.zeros(len(cells), dtype=bool)
    unreadable[rows] = np.isnat(found.stamps) & ~found.out_of_range
    notes = [found.note, _range_note(text, rows, found.out_of_range)]
    zoned = bool(found.has_zone.any())
    without = rows[~found.has_zone & ~np.isnat(found.stamps)] if zoned else []
    return Times(
        values,
        unreadable,
        zoned,
        found.offset if zoned else 0.0,
        int(without[0]) if len(without) else None,
        " ".join(filter(None, notes)),
        found.why,
        found.day_first,
    )


@dataclass(frozen=True)
class _Stamps:
    """Readings of the cells that hold something: UTC where there is a zone."""

    stamps: np.ndarray
    out_of_range: Mask
    has_zone: Mask
    offset: float = 0.0
    note: str = ""
    why: str = ""
    day_first: bool | None = None


def _range_note(text: Sequence[str], rows: np.ndarray, out_of_range: Mask) -> str:
    at = np.flatnonzero(out_of_range)
    if len(at) == 0:
        return ""
    more = f" ({len(at)} such cells)" if len(at) > 1 else ""
    return (
        f"Row {rows[at[0]] + 1}: {clip(text[at[0]])!r} lies outside {FIRST_YEAR}–{LAST_YEAR} and counts as a missing "
        f"time{more}."
    )


def in_nanoseconds(stamps: np.ndarray) -> tuple[np.ndarray, Mask]:
    """Times of any precision in nanoseconds, and which of them are out of their range (NaT then)."""
    years = stamps.astype("datetime64[Y]").astype(np.int64) + 1970
    outside = ~np.isnat(stamps) & ((years < FIRST_YEAR) | (years > LAST_YEAR))
    return np.where(outside, np.datetime64("NaT"), stamps).astype("datetime64[ns]"), outside


def _iso(text: Sequence[str]) -> _Stamps | None:
    """All cells as ISO 8601 at once, None where one is not."""
    matches = list(map(_ISO.fullmatch, text))
    if None in matches and not all(map(_MONTH_ONLY.fullmatch, text)):
        return None
    tails = [(match["zone"] or match["short"] or "") if match else "" for match in matches]
    hours = {tail: zones.offset_hours(tail.strip()) if tail else 0.0 for tail in dict.fromkeys(tails)}
    bare = [cell.removesuffix(tail) for cell, tail in zip(text, tails, strict=True)] if any(hours) else text
    local = _iso_stamps(bare)
    if local is None or None in hours.values():
        return None
    stamps, outside = local
    if any(hours.values()):
        stamps = stamps - np.array([round(3600 * (hours[tail] or 0.0)) for tail in tails]).astype("timedelta64[s]")
    has_zone = np.array([bool(tail) for tail in tails], dtype=bool)
    return _Stamps(stamps, outside, has_zone, next((hours[tail] or 0.0 for tail in tails if tail), 0.0))


def _iso_stamps(text: Sequence[str]) -> tuple[np.ndarray, Mask] | None:
    """ISO 8601 without zones in nanoseconds, and which are out of their range; None where one is no date."""
    outside = np.array([not str(FIRST_YEAR) <= cell[:4] <= str(LAST_YEAR) for cell in text], dtype=bool)
    near = [_NO_TIME if out else cell for cell, out in zip(text, outside.tolist(), strict=True)]
    try:
        np.array([cell[:10] for cell, out in zip(text, outside.tolist(), strict=True) if out], dtype="datetime64[D]")
        near = list(map(_extended, near)) if _NOT_EXTENDED.search("\n".join(near)) else near
        return np.array(near, dtype="datetime64[ns]"), outside
    except ValueError:
        return None


def _extended(cell: str) -> str:
    """20050324T1300 and 2005-03-24T1300,5 in the one form of ISO 8601 that NumPy reads."""
    if cell == _NO_TIME or _MONTH_ONLY.fullmatch(cell):
        return cell
    digits = _NOT_DIGITS.sub("", cell).replace(",", ".")
    clock = f"{digits[8:10] or '00'}:{digits[10:12] or '00'}:{digits[12:] or '00'}"
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}T{clock}"


def _by_parts(text: Sequence[str], order: Order) -> _Stamps:
    """Times from their parts, all in the form that most cells have."""
    short = [_WEEKDAY.sub("", cell, count=1) if len(cell) <= LONGEST_TIME else "" for cell in text]
    parts = _in_one_form(short)
    day_first, note = None, ""
    if "a" not in parts.dates:
        dates = _dates(parts.dates["y"], [_month(word) for word in parts.dates["mon"]], parts.dates["d"])
    elif sum(len(part) == 4 for part in parts.dates["a"]) >= 0.5 * _matched(parts):
        dates = _dates(
            [part if len(part) == 4 else "" for part in parts.dates["a"]], parts.dates["b"], parts.dates["c"]
        )
    else:
        dates, day_first, note = _day_or_month_first(parts.dates, order)
    days, outside = in_nanoseconds(dates)
    seconds = _seconds(parts.clock)
    local = days + np.round(1e9 * seconds).astype("timedelta64[ns]")
    local[seconds < 0.0] = np.datetime64("NaT")
    stamps, offset, remarks, why = _to_utc(local, parts.zones)
    if order.given is not None and day_first is not None:
        why = why or f"with the {'day' if order.given else 'month'} first"
    has_zone = np.array([bool(zone) for zone in parts.zones], dtype=bool)
    return _Stamps(stamps, outside, has_zone, offset, " ".join(filter(None, [note, *remarks])), why, day_first)


@dataclass(frozen=True)
class _Parts:
    dates: dict[str, list[str]]
    clock: list[tuple[str, str, str, str] | None]
    """Hour, minute, second and half of the day; None where the cell did not match."""
    zones: list[str]


def _extract(pattern: re.Pattern[str], text: Sequence[str]) -> _Parts:
    found = [pattern.fullmatch(cell) for cell in text]
    names = [name for name in pattern.groupindex if name in ("a", "b", "c", "d", "mon", "y")]
    return _Parts(
        {name: [match[name] if match else "" for match in found] for name in names},
        [(m["h"] or "", m["mi"] or "", m["s"] or "", m["half"] or "") if m else None for m in found],
        [(match["zone"] or "") if match else "" for match in found],
    )


def _in_one_form(text: Sequence[str]) -> _Parts:
    """The parts by the form that most cells have."""
    best: _Parts | None = None
    for pattern in (_NUMERIC, _DAY_MONTH, _MONTH_DAY):
        parts = _extract(pattern, text)
        best = parts if best is None or _matched(parts) > _matched(best) else best
        if _matched(best) == len(text):
            break
    assert best is not None
    return best


def _matched(parts: _Parts) -> int:
    return sum(clock is not None for clock in parts.clock)


def _month(word: str) -> str:
    """The number of an English month, whole or shortened to at least three letters."""
    word = word.lower()
    word = "sep" if word == "sept" else word
    return next((str(i) for i, name in enumerate(_MONTHS) if i and len(word) >= 3 and name.startswith(word)), "")


def _dates(years: Sequence[str], months: Sequence[str], days: Sequence[str]) -> np.ndarray:
    """Days from their parts; NaT where a part is missing or there is no such day."""
    year, month, day = (np.array([int(part) if part else -1 for part in parts]) for parts in (years, months, days))
    brief = np.array([len(part) <= 2 for part in years], dtype=bool) & (year >= 0)
    year = year + brief * np.where(year < 70, 2000, 1900)
    valid = np.array([len(part) != 3 for part in years], dtype=bool) & (year >= 1) & (month >= 1) & (month <= 12)
    first = (np.where(valid, (year - 1970) * 12 + month - 1, 0)).astype("datetime64[M]")
    length = ((first + 1).astype("datetime64[D]") - first.astype("datetime64[D]")).astype(np.int64)
    valid &= (day >= 1) & (day <= length) & np.array([len(m) <= 2 >= len(d) for m, d in zip(months, days, strict=True)])
    return np.where(valid, first.astype("datetime64[D]") + (day - 1), np.datetime64("NaT", "D"))


def _day_or_month_first(parts: dict[str, list[str]], order: Order) -> tuple[np.ndarray, bool | None, str]:
    """24/3/2005 or 3/24/2005; where both would do, the order that spans less time: the other one jumps by months."""
    a, b, years = parts["a"], parts["b"], parts["c"]
    day_first, month_first = _dates(years, b, a), _dates(years, a, b)
    if order.given is not None:
        return (day_first if order.given else month_first), order.given, ""
    if np.array_equal(day_first, month_first, equal_nan=True):
        return day_first, order.usual, ""
    proofs = int(np.isnat(month_first).sum()) - int(np.isnat(day_first).sum())
    if proofs:
        first = proofs > 0
    else:
        first = order.usual if order.usual is not None else not _span(month_first) < _span(day_first)
    word, other = ("day", "--month-first") if first else ("month", "--day-first")
    note = f"Dates could be read with the day or the month first; the {word} was taken to come first ({other} if not)."
    certain = abs(proofs) > FEW or 5 * abs(proofs) >= len(a)
    return (day_first if first else month_first), first, "" if certain else note


def _span(dates: np.ndarray) -> float:
    known = dates[~np.isnat(dates)].astype(np.int64)
    return float(np.ptp(known)) if len(known) else 0.0


def _seconds(clock: Sequence[tuple[str, str, str, str] | None]) -> Array:
    """Seconds since midnight, 0 without a clock; -1 where the clock is not one."""
    return np.array([0.0 if parts is None or not parts[0] else _second(*parts) for parts in clock], dtype=np.float64)


def _second(h: str, mi: str, s: str, half: str) -> float:
    hours, minutes, seconds = int(h), int(mi), float(s.replace(",", ".") or 0.0)
    if half:
        if not 1 <= hours <= 12:
            return -1.0
        hours = hours % 12 + 12 * (half[0] in "pP")
    total = 3600.0 * hours + 60.0 * minutes + seconds
    return total if minutes < 60 and seconds < 61.0 and total <= 86400.0 else -1.0


def _to_utc(local: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray, float, list[str], str]:
    """Local times by their zones: UTC, hours of the first zone, remarks on abbreviations, and why one is unreadable."""
    stamps, offset, remarks, reasons = local.copy(), 0.0, [], {}
    zone_of = np.array(names, dtype=object)
    others = frozenset(name.upper() for name in names)
    for zone in dict.fromkeys(name for name in names if name):
        at = zone_of == zone
        hours = zones.offset_hours(zone, others)
        if hours is not None:
            stamps[at] = local[at] - np.timedelta64(round(3600 * hours), "s")
            if zone.isalpha() and hours:
                remarks.append(f"{zone} was read as UTC{_signed(hours)}.")
        else:
            stamps[at] = _from_named(local[at], zone)
            reasons[zone] = _why(zone)
        known = at & ~np.isnat(stamps)
        if zone == next(name for name in names if name) and known.any():
            offset = float((local - stamps)[known][0] / np.timedelta64(3600, "s"))
    bad = np.flatnonzero(np.isnat(stamps) & ~np.isnat(local))
    return stamps, offset, remarks, reasons.get(names[bad[0]], "") if len(bad) else ""


def _from_named(local: np.ndarray, name: str) -> np.ndarray:
    """UTC of clock times in a zone of the tz database; NaT for an hour that its clocks skipped, or perhaps repeated."""
    zone = zones.named_zone(name)
    if zone is None:
        return np.full(len(local), np.datetime64("NaT", "ns"))
    clock = pd.Series(local)
    try:  # in order, the first of two equal hours is summer time
        placed = clock.dt.tz_localize(zone, ambiguous="infer", nonexistent="NaT")
    except ValueError:
        placed = clock.dt.tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
    return np.asarray(placed.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(), dtype="datetime64[ns]")


def _why(zone: str) -> str:
    if zones.named_zone(zone) is not None:
        return f"the clocks of {zone} skipped or repeated that hour: write its offset, e.g. +02:00"
    return f"the zone {zone!r} has no single offset: write the offset, e.g. +05:30"


def _signed(hours: float) -> str:
    return f"{'-' if hours < 0 else '+'}{int(abs(hours)):02d}:{round(abs(hours) % 1 * 60):02d}"


def parse_times_of_day(cells: Sequence[str], missing: Mask) -> Times:
    """Read a column such as 18:00 or 6.30.00 PM as times on the first of January 1970."""
    rows = np.flatnonzero(~missing)
    text = [cells[i] for i in rows.tolist()]
    seconds = np.full(len(cells), np.nan)
    if not all(map(_is_dotted_date, text)):
        found = [_OF_DAY.fullmatch(cell) for cell in text]
        seconds[rows] = [_second(m["h"], m["mi"], m["s"] or "", m["half"] or "") if m else np.nan for m in found]
    seconds[seconds < 0.0] = np.nan
    stamps = np.full(len(cells), np.datetime64("NaT", "ns"))
    known = ~np.isnan(seconds)
    stamps[known] = np.datetime64(0, "ns") + np.round(1e9 * seconds[known]).astype("timedelta64[ns]")
    return Times(stamps, np.isnan(seconds) & ~missing)


def is_time_of_day(cell: str) -> bool:
    """Whether a cell is a clock without a date."""
    return len(cell) <= LONGEST_TIME and bool(_OF_DAY.fullmatch(cell))


def _is_dotted_date(cell: str) -> bool:
    """Whether 24.03.05 may be meant as a date: no part is ever 0, and the second is never above 12."""
    parts = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.\d{2}", cell, re.ASCII)
    return parts is not None and 1 <= int(parts[1]) <= 31 and 1 <= int(parts[2]) <= 12


def times_from_numbers(numbers: pd.Series) -> pd.Series | None:
    """Unix times (seconds to nanoseconds), or dates like 20050324, as times; None where they are none of these."""
    low, high = numbers.min(), numbers.max()
    if not np.isfinite(low):
        return None
    for unit, (lowest, highest) in UNIX_RANGES.items():
        if lowest <= low and high <= highest:
            return pd.to_datetime(numbers, unit=unit).astype("datetime64[ns]")
    first, last = YEAR_MONTH_DAY
    if first <= low and high <= last and (numbers.dropna() % 1 == 0).all():
        text = numbers.map(lambda v: "" if np.isnan(v) else f"{v:.0f}")
        stamps = pd.to_datetime(text, format="%Y%m%d", errors="coerce")
        return None if (stamps.isna() & numbers.notna()).any() else stamps.astype("datetime64[ns]")
    return None
