"""Lengths of time: from text such as '6h' or '1d 12h', and back to it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import numpy as np

Duration = str | timedelta | np.timedelta64
"""Text of numbers with units, or a timedelta of the standard library, pandas or NumPy."""

_SECONDS = {"d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Units that are shown, from the longest."""
_WORDS = {"d": ("day",), "h": ("hour", "hr"), "min": ("minute",), "s": ("second", "sec"), "us": ("µs", "μs")}
_UNITS = (
    {"w": 7 * _SECONDS["d"], "week": 7 * _SECONDS["d"]}
    | _SECONDS
    | {word: _SECONDS[unit] for unit, words in _WORDS.items() for word in words}
)
_PART = re.compile(r"\s*(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)\s*([a-zµμ]+)\s*", re.IGNORECASE)


def is_duration(value: Any) -> bool:
    """Whether a value, or any in a sequence of values, is a duration."""
    if isinstance(value, float):  # in each step of a search
        return False
    if isinstance(value, str | np.timedelta64) or hasattr(value, "total_seconds"):
        return True
    return np.iterable(value) and any(map(is_duration, value))


def as_text(value: Any) -> Any:
    """Each duration in a value, or in a sequence of values, as text of the same seconds, which model files can hold."""
    if isinstance(value, np.timedelta64):
        try:
            return _exact_text(float(value / np.timedelta64(1, "s")))
        except TypeError:
            raise ValueError(f"{value!r} has a unit without a fixed length.") from None
    if hasattr(value, "total_seconds"):
        return _exact_text(value.total_seconds())
    return tuple(map(as_text, value)) if np.iterable(value) and not isinstance(value, str) else value


def to_seconds(value: Any) -> Any:
    """Seconds of each text in a value, or in a tuple of values; numbers as they are."""
    if isinstance(value, tuple):
        return tuple(map(to_seconds, value))
    if not isinstance(value, str):
        return value
    parts = _PART.findall(value)
    # Only a word has a plural: 'days', but not 'ms'.
    units = [unit.lower().removesuffix("s") if len(unit) > len("ms") else unit.lower() for _, unit in parts]
    if not parts or _PART.sub("", value) or not all(unit in _UNITS for unit in units):
        raise ValueError(
            f"{value!r} is not a duration: write numbers with their units (d, h, min, s, ms, us, ns), as in '6h', "
            "'1.5 d' or '1h 30min'."
        )
    return sum(float(number) * _UNITS[unit] for (number, _), unit in zip(parts, units, strict=True))


def shown(seconds: float) -> str:
    """Seconds to four digits in the longest unit of which there is at least one."""
    unit = next((unit for unit, size in _SECONDS.items() if seconds >= size), "ns")
    return f"{seconds / _SECONDS[unit]:.4g}{unit}"


def _exact_text(seconds: float) -> str:
    """Seconds without rounding, in the longest unit of which they are a whole number."""
    unit = next((unit for unit in ("d", "h", "min") if seconds % _SECONDS[unit] == 0.0), "s")
    number = seconds / _SECONDS[unit]
    return f"{number!r}".removesuffix(".0") + unit
