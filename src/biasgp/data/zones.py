"""Time zones as they follow a time: offsets, abbreviations with one meaning, and names of the tz database."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Sequence
from datetime import timedelta, timezone

import numpy as np
import pandas as pd

ABBREVIATIONS = {
    "Z": 0.0, "UTC": 0.0, "GMT": 0.0, "WET": 0.0, "WEST": 1.0, "CET": 1.0, "MEZ": 1.0, "CEST": 2.0, "MESZ": 2.0,
    "EET": 2.0, "EEST": 3.0, "MSK": 3.0, "SAST": 2.0, "JST": 9.0, "KST": 9.0, "HKT": 8.0, "SGT": 8.0,
    "AWST": 8.0, "ACST": 9.5, "ACDT": 10.5, "AEST": 10.0, "AEDT": 11.0, "NZST": 12.0, "NZDT": 13.0,
    "NST": -3.5, "NDT": -2.5, "ADT": -3.0, "EST": -5.0, "EDT": -4.0, "CDT": -5.0, "MST": -7.0, "MDT": -6.0,
    "PST": -8.0, "PDT": -7.0, "AKST": -9.0, "AKDT": -8.0, "HST": -10.0,
}  # fmt: skip
"""Hours east of Greenwich. IST, BST, AST and others stand for several zones, and are not here; nor is CST by itself."""
BESIDE = {"CST": ("CDT", -6.0), "AST": ("ADT", -4.0)}
"""Abbreviations that are clear where their summer time is in the same column: China has none, nor has Arabia."""
PATTERN = r"Z|(?:UTC|GMT)?[+-]\d{1,2}(?::?\d{2})?(?:\[[A-Za-z_/+-]+\])?|[A-Za-z]+(?:/[A-Za-z_+-]+)+|[A-Za-z]{3,5}"
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?(?:\[.*\])?")
LARGEST_OFFSET = 15.0
"""Hours; no zone has ever been further from Greenwich."""


def to_utc(local: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray, float, str, str]:
    """Local times by the zones that follow them, "" for none.

    Returns UTC (NaT where it is not known), the hours of the first zone, a remark on abbreviations, and why the first
    time that is not known is not.
    """
    if not any(names):
        return local, 0.0, "", ""
    stamps, remarks, reasons = local.copy(), [], {}
    zone_of = np.array(names, dtype=object)
    others = frozenset(name.upper() for name in names)
    for zone in dict.fromkeys(filter(None, names)):
        at = zone_of == zone
        hours = _offset_hours(zone, others)
        if hours is None:
            stamps[at], reasons[zone] = _from_named(local[at], zone)
            continue
        stamps[at] = local[at] - np.timedelta64(round(3600 * hours), "s")
        if zone.isalpha() and hours:
            remarks.append(f"{zone} was read as {timezone(timedelta(hours=hours))}.")
    offsets = {hours for zone in set(names) if zone and (hours := _offset_hours(zone, others)) is not None}
    if len(offsets) > 1:
        told = " and ".join(str(timezone(timedelta(hours=hours))) for hours in sorted(offsets)[:3])
        remarks.append(f"Offsets change ({told}): times are counted in UTC.")
    known = (zone_of == next(filter(None, names))) & ~np.isnat(stamps)
    offset = float((local - stamps)[known][0] / np.timedelta64(1, "h")) if known.any() else 0.0
    bad = np.flatnonzero(np.isnat(stamps) & ~np.isnat(local))
    return stamps, offset, " ".join(remarks), reasons[names[bad[0]]] if len(bad) else ""


def _offset_hours(zone: str, others: frozenset[str]) -> float | None:
    """Hours east of Greenwich of a zone with one offset, None where it has none; `others` are beside it."""
    found = _OFFSET.fullmatch(zone)
    if found:
        hours = (1.0 if found[1] == "+" else -1.0) * (int(found[2]) + int(found[3] or 0) / 60.0)
        return hours if abs(hours) <= LARGEST_OFFSET and int(found[3] or 0) < 60 else None
    word = zone.upper()
    if word in BESIDE and BESIDE[word][0] in others:
        return BESIDE[word][1]
    return ABBREVIATIONS.get(word)


def _from_named(local: np.ndarray, name: str) -> tuple[np.ndarray, str]:
    """UTC of clock times in a zone such as Europe/Berlin, and why some of them may be NaT."""
    try:
        zone = zoneinfo.ZoneInfo(name if "/" in name else "")
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        why = f"the zone {name!r} has no single offset: write the offset, e.g. +05:30"
        return np.full(len(local), np.datetime64("NaT", "ns")), why
    clock = pd.Series(local)
    try:  # in order, the first of two equal hours is summer time
        placed = clock.dt.tz_localize(zone, ambiguous="infer", nonexistent="NaT")
    except Exception as error:
        # pandas 2 raises pytz's error, which is no ValueError.
        if not isinstance(error, ValueError) and type(error).__name__ != "AmbiguousTimeError":
            raise
        placed = clock.dt.tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
    utc = placed.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(dtype="datetime64[ns]")
    return utc, f"the clocks of {name} skipped or repeated that hour: write its offset, e.g. +02:00"
