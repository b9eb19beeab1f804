"""Numbers and findings in the words of someone who measures things."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from biasgp.data.columns import Feature, unit_of
from biasgp.models.diagnosis import Finding

HOURS = ((1.0 / 60.0, "seconds", 3600.0), (1.0, "minutes", 60.0), (72.0, "h", 1.0), (24.0 * 60.0, "days", 1.0 / 24.0))
FAR = 3.0
"""A length-scale this many times the range of its input leaves hardly a bend in it."""
SHOWN_ROWS = 10
"""Rows that are named with a finding."""


def duration(hours: float) -> str:
    """A length of time, in its natural unit."""
    for limit, unit, factor in HOURS:
        if hours < limit:
            return f"{rounded(hours * factor, 2)} {unit}"
    return f"{rounded(hours / 24.0, 2)} days"


def rounded(value: float, digits: int = 3) -> str:
    """A number to a few digits, without an exponent where that is readable."""
    short = float(f"{value:.{digits}g}")
    return f"{short:g}" if 1e-4 <= abs(short) < 1e6 or short == 0.0 else f"{value:.{digits}g}"


def quantity(value: float, unit: str, digits: int = 3) -> str:
    """A number with its unit."""
    return f"{rounded(value, digits)} {unit}".strip()


def reach(feature: Feature, length: float, spread: float) -> str:
    """What a length-scale means: over what the truth changes."""
    if length > 100.0 * spread:
        return "hardly matters"
    amount = duration(length) if feature.is_time else quantity(length, unit_of(feature.name), 2)
    if length > FAR * spread:
        return f"changes slowly, in nearly a straight line (over about {amount})"
    return f"varies over about {amount}"


def told(findings: Iterable[Finding], tried: Collection[str]) -> tuple[str, ...]:
    """Findings for users of the command, without the remedies that were tried, and with rows to look at."""
    return tuple(f"{finding.told('command', tried)}{_rows(finding.rows)}" for finding in findings)


def _rows(rows: Sequence[int]) -> str:
    if not rows:
        return ""
    more = f" and {len(rows) - SHOWN_ROWS:,} more" if len(rows) > SHOWN_ROWS else ""
    return f" {'Row' if len(rows) == 1 else 'Rows'} {', '.join(map(str, rows[:SHOWN_ROWS]))}{more}."
