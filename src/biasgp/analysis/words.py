"""Numbers and warnings in the words of someone who measures things."""

from __future__ import annotations

from biasgp.data.columns import Feature, unit_of

HOURS = ((1.0 / 60.0, "seconds", 3600.0), (1.0, "minutes", 60.0), (72.0, "h", 1.0), (24.0 * 60.0, "days", 1.0 / 24.0))
FAR = 3.0
"""A length-scale this many times the range of its input leaves hardly a bend in it."""
INSTEAD = (
    ("compare with ConstantBiasGP, or try response='auto'", "compare with --method cob, or try --response auto"),
    ("compare it with ConstantBiasGP", "compare it with --method cob"),
    ("outlier_probability_", "the outlier probabilities"),
    ("use tuning='ml'", "use another --method"),
    ("response='auto'", "--response auto"),
    ("use inference='ep'", "use another --method"),
    ("(Matern52, Matern32)", "(--kernel matern52 or matern32)"),
    ("Try another kernel", "Try another --kernel"),
    ("standard deviations of y", "standard deviations of the target"),
)


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


def plain(text: str, response: str) -> str:
    """A warning meant for Python users, for users of the command."""
    if response == "auto":
        text = text.replace(": try response='auto'.", ".").replace(", or try response='auto'", "")
        text = text.replace("compare with ConstantBiasGP", "compare with --method cob")
    for ours, theirs in INSTEAD:
        text = text.replace(ours, theirs)
    return text[:1].upper() + text[1:]
