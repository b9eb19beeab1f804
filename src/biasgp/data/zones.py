"""Time zones as written after a time: offsets, abbreviations with one meaning, and names of the tz database."""

from __future__ import annotations

import re
import zoneinfo
from functools import lru_cache

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


def offset_hours(zone: str, others: frozenset[str] = frozenset()) -> float | None:
    """Hours east of Greenwich of a zone with one offset, None where it has none; `others` are beside it."""
    found = _OFFSET.fullmatch(zone)
    if found:
        hours = (1.0 if found[1] == "+" else -1.0) * (int(found[2]) + int(found[3] or 0) / 60.0)
        return hours if abs(hours) <= LARGEST_OFFSET and int(found[3] or 0) < 60 else None
    word = zone.upper()
    if word in BESIDE and BESIDE[word][0] in others:
        return BESIDE[word][1]
    return ABBREVIATIONS.get(word)


@lru_cache
def named_zone(zone: str) -> zoneinfo.ZoneInfo | None:
    """A zone such as Europe/Berlin, None where there is no such name."""
    if "/" not in zone:
        return None
    try:
        return zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None
