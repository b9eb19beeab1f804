"""Columns of times, in the forms that instruments and spreadsheets write, as one clock without a zone."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from biasgp._typing import Mask

_CLOCK = r"(?P<h>\d{1,2})[:.](?P<mi>\d{2})(?:[:.](?P<s>\d{2}(?:[.,]\d+)?))?\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
_ZONE = r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?"
_TAIL = rf"(?:(?:[ T,]+){_CLOCK}{_ZONE})?$"
_NUMERIC = re.compile(rf"^(?P<a>\d{{1,4}})[./-](?P<b>\d{{1,2}})[./-](?P<c>\d{{1,4}}){_TAIL}")
_DAY_MONTH = re.compile(rf"^(?P<d>\d{{1,2}})[ .-]+(?P<mon>[A-Za-z]{{3,9}})[ .,-]+(?P<y>\d{{2,4}}){_TAIL}")
_MONTH_DAY = re.compile(rf"^(?P<mon>[A-Za-z]{{3,9}})[ .]+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?[ ,]+(?P<y>\d{{4}}){_TAIL}")
_OF_DAY = re.compile(rf"^{_CLOCK}$")
_HAS_ZONE = r"\d[:.]\d{2}(?:[.,]\d+)?\s*(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)$"
_MONTHS = {name.lower(): i + 1 for i, name in enumerate(calendar.month_abbr[1:])}
NAMED_LIKE_TIME = re.compile(r"(?:^|[^a-z])(?:date|time|datetime|timestamp|epoch|unix)", re.IGNORECASE)
UNIX_SECONDS, UNIX_MILLISECONDS, YEAR_MONTH_DAY = (3e8, 5e9), (3e11, 5e12), (19000101, 21001231)


@dataclass(frozen=True)
class Times:
    """Times as datetime64 (of UTC where the cells had zones), which cells could not be read, and what was assumed."""

    values: pd.Series
    unreadable: Mask
    zoned: bool = False
    offset_hours: float = 0.0
    without_zone: int | None = None
    """First row without a zone where others have one."""
    note: str = ""


def parse_times(cells: pd.Series, missing: Mask) -> Times:
    """Read a column of text; cells in `missing` are not looked at."""
    text = cells.astype(str).str.strip()
    shown = text[~missing]
    has_zone = shown.str.contains(_HAS_ZONE, regex=True).to_numpy(dtype=bool)
    iso = pd.to_datetime(shown, format="ISO8601", errors="coerce", utc=True)
    stamps, note = (iso, "") if not iso.isna().any() else _by_parts(shown)
    values = pd.Series(pd.NaT, index=cells.index, dtype="datetime64[ns]")
    values[~missing] = stamps.dt.tz_localize(None).astype("datetime64[ns]")
    unreadable = values.isna().to_numpy() & ~missing
    rows = np.flatnonzero(~missing)
    zoned = bool(has_zone.any())
    mixed = zoned and not has_zone.all()
    return Times(
        values,
        unreadable,
        zoned,
        _offset_hours(str(shown.iloc[0])) if zoned else 0.0,
        int(rows[np.flatnonzero(~has_zone)[0]]) if mixed else None,
        note,
    )


def parse_times_of_day(cells: pd.Series, missing: Mask) -> Times:
    """Read a column such as 18:00 or 6.30.00 PM as times on the first of January 1970."""
    text = cells.astype(str).str.strip().where(~missing, "")
    parts = text.str.extract(_OF_DAY)
    seconds = _seconds(parts) if not _dotted_dates(text[~missing]) else pd.Series(np.nan, index=cells.index)
    values = pd.Series(pd.Timestamp(0) + pd.to_timedelta(seconds, unit="s"), index=cells.index)
    return Times(values.astype("datetime64[ns]"), seconds.isna().to_numpy() & ~missing)


def _dotted_dates(text: pd.Series) -> bool:
    """Whether 24.03.05 is meant as a date: no part is ever 0, and the second is never above 12."""
    parts = text.str.extract(r"^(\d{1,2})\.(\d{1,2})\.(\d{2})$").astype(float)
    return bool(len(parts) and (parts[0].between(1, 31) & parts[1].between(1, 12)).all())


def times_from_numbers(numbers: pd.Series) -> pd.Series | None:
    """Unix seconds or milliseconds, or dates like 20050324, as times; None where the numbers are none of these."""
    low, high = numbers.min(), numbers.max()
    if not np.isfinite(low):
        return None
    for unit, (lowest, highest) in (("s", UNIX_SECONDS), ("ms", UNIX_MILLISECONDS)):
        if lowest <= low and high <= highest:
            return pd.to_datetime(numbers, unit=unit).astype("datetime64[ns]")
    first, last = YEAR_MONTH_DAY
    if first <= low and high <= last and (numbers.dropna() % 1 == 0).all():
        text = numbers.map(lambda v: "" if np.isnan(v) else f"{v:.0f}")
        stamps = pd.to_datetime(text, format="%Y%m%d", errors="coerce")
        return None if (stamps.isna() & numbers.notna()).any() else stamps.astype("datetime64[ns]")
    return None


def _by_parts(text: pd.Series) -> tuple[pd.Series, str]:
    """Times from their parts; the order of day and month is what the whole column allows."""
    numeric = text.str.extract(_NUMERIC)
    if numeric["a"].notna().mean() >= 0.5:
        year_first = numeric["a"].str.len() == 4
        if year_first.mean() >= 0.5:
            return _assemble(numeric, "a", "b", "c"), ""
        return _day_or_month_first(numeric)
    worded = text.str.extract(_DAY_MONTH)
    worded = worded if worded["d"].notna().mean() >= 0.5 else text.str.extract(_MONTH_DAY)
    worded["month"] = worded["mon"].str[:3].str.lower().map(_MONTHS)
    return _assemble(worded, "y", "month", "d"), ""


def _day_or_month_first(parts: pd.DataFrame) -> tuple[pd.Series, str]:
    """24/3/2005 or 3/24/2005; where both would do, the order that spans less time: the other one jumps by months."""
    day_first, month_first = _assemble(parts, "c", "b", "a"), _assemble(parts, "c", "a", "b")
    bad_day, bad_month = int(day_first.isna().sum()), int(month_first.isna().sum())
    if bad_day != bad_month:
        return (day_first, "") if bad_day < bad_month else (month_first, "")
    if (parts["a"] == parts["b"]).all():
        return day_first, ""
    shorter = month_first.max() - month_first.min() < day_first.max() - day_first.min()
    chosen, word = (month_first, "month") if shorter else (day_first, "day")
    return chosen, f"Dates could be read with the day or the month first; the {word} was taken to come first."


def _assemble(parts: pd.DataFrame, year: str, month: str, day: str) -> pd.Series:
    numbers = {key: pd.to_numeric(parts[name]) for key, name in (("year", year), ("month", month), ("day", day))}
    short = numbers["year"] < 100
    numbers["year"] = numbers["year"] + short * np.where(numbers["year"] < 70, 2000, 1900)
    date = pd.to_datetime(pd.DataFrame(numbers), errors="coerce", utc=True)
    clock = _seconds(parts).where(parts["h"].notna(), 0.0)
    zone = parts["zone"].fillna("").map(_offset_hours)
    return date + pd.to_timedelta(clock, unit="s") - pd.to_timedelta(zone, unit="h")


def _seconds(parts: pd.DataFrame) -> pd.Series:
    """Seconds since midnight; missing where the clock is not one."""
    hours, minutes = pd.to_numeric(parts["h"]), pd.to_numeric(parts["mi"])
    seconds = pd.to_numeric(parts["s"].str.replace(",", ".")).fillna(0.0)
    half = parts["half"].str[:1].str.lower()
    hours = hours.where(half.isna() | (hours <= 12), np.nan)
    hours = hours.where(half.isna(), hours % 12 + 12 * (half == "p"))
    total = 3600.0 * hours + 60.0 * minutes + seconds
    return total.where((minutes < 60) & (seconds < 61) & (total <= 86400.0)).astype(float)


def _offset_hours(text: str) -> float:
    """Hours east of Greenwich of the zone that ends the text."""
    found = re.search(r"([+-])(\d{2}):?(\d{2})?$", text)
    if not found:
        return 0.0
    sign = -1.0 if found[1] == "-" else 1.0
    return sign * (int(found[2]) + int(found[3] or 0) / 60.0)
