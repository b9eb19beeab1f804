"""Numbers in the words of someone who measures things."""

from __future__ import annotations

from biasgp.data.columns import Feature, unit_of

HOURS = ((1.0 / 60.0, "seconds", 3600.0), (1.0, "minutes", 60.0), (72.0, "h", 1.0))
"""Below how many hours a length of time is told in which unit, and how many of it are an hour; beyond, in days."""
NEARLY_STRAIGHT, IRRELEVANT = 3.0, 100.0
"""A length-scale so many times the range of its input leaves hardly a bend in f, or no change at all."""
READABLE = (1e-4, 1e6)
"""From and up to where a number is written without an exponent."""


def duration(hours: float) -> str:
    """A length of time, in its natural unit."""
    unit, factor = next(((unit, factor) for limit, unit, factor in HOURS if hours < limit), ("days", 1.0 / 24.0))
    return quantity(hours * factor, unit, 2)


def quantity(value: float, unit: str, digits: int = 3, *, signed: bool = False) -> str:
    """A number to a few digits, without an exponent where that is readable, and its unit; on request with a plus."""
    short = float(f"{value:.{digits}g}")
    readable = READABLE[0] <= abs(short) < READABLE[1] or short == 0.0
    plus = "+" if signed and value > 0.0 else ""
    return f"{plus}{f'{short:g}' if readable else f'{value:.{digits}g}'} {unit}".strip()


def reach(feature: Feature, length: float, spread: float) -> str:
    """What a length-scale means: over what the truth changes."""
    if length > IRRELEVANT * spread:
        return "hardly matters"
    amount = duration(length) if feature.is_time else quantity(length, unit_of(feature.name), 2)
    if length > NEARLY_STRAIGHT * spread:
        return f"changes slowly, in nearly a straight line (over about {amount})"
    return f"varies over about {amount}"
