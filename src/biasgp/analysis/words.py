"""Numbers and findings in the words of someone who measures things."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from biasgp.data.columns import Feature, unit_of
from biasgp.models.diagnosis import Finding

HOURS = ((1.0 / 60.0, "seconds", 3600.0), (1.0, "minutes", 60.0), (72.0, "h", 1.0))
"""Below how many hours a length of time is told in which unit, and how many of it are an hour; beyond, in days."""
NEARLY_STRAIGHT, IRRELEVANT = 3.0, 100.0
"""A length-scale so many times the range of its input leaves hardly a bend in f, or no change at all."""
SHOWN_ROWS = 10
"""Rows that are named with a finding."""


def duration(hours: float) -> str:
    """A length of time, in its natural unit."""
    unit, factor = next(((unit, factor) for limit, unit, factor in HOURS if hours < limit), ("days", 1.0 / 24.0))
    return quantity(hours * factor, unit, 2)


def quantity(value: float, unit: str, digits: int = 3) -> str:
    """A number to a few digits, without an exponent where that is readable, and its unit."""
    short = float(f"{value:.{digits}g}")
    readable = 1e-4 <= abs(short) < 1e6 or short == 0.0
    return f"{f'{short:g}' if readable else f'{value:.{digits}g}'} {unit}".strip()


def signed(value: float, unit: str) -> str:
    """A bias, with its sign."""
    return f"{'+' if value > 0.0 else ''}{quantity(value, unit)}"


def reach(feature: Feature, length: float, spread: float) -> str:
    """What a length-scale means: over what the truth changes."""
    if length > IRRELEVANT * spread:
        return "hardly matters"
    amount = duration(length) if feature.is_time else quantity(length, unit_of(feature.name), 2)
    if length > NEARLY_STRAIGHT * spread:
        return f"changes slowly, in nearly a straight line (over about {amount})"
    return f"varies over about {amount}"


def told(findings: Iterable[Finding], tried: Collection[str]) -> tuple[str, ...]:
    """Findings for users of the command, without the remedies that were tried, and with rows to look at."""
    texts = []
    for finding in findings:
        rows, more = finding.rows[:SHOWN_ROWS], len(finding.rows) - SHOWN_ROWS
        named = ", ".join(map(str, rows)) + (f" and {more} more" if more > 0 else "")
        texts.append(finding.told("command", tried) + (f" Rows to look at: {named}." if rows else ""))
    return tuple(texts)
