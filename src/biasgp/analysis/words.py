"""Numbers and findings in the words of someone who measures things."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from biasgp.data.columns import Feature, unit_of
from biasgp.messages import duration, quantity
from biasgp.models.diagnosis import Finding
from biasgp.response import Transform

NEARLY_STRAIGHT, IRRELEVANT = 3.0, 100.0
"""A length-scale so many times the range of its input leaves hardly a bend in f, or no change at all."""
TRANSFORMS = {"identity": "none", "log": "logarithm", "yeo-johnson": "power"}
SHOWN_ROWS = 10
"""Rows that are named with a finding."""


def reach(feature: Feature, length: float, spread: float) -> str:
    """What a length-scale means: over what the truth changes; NaN where the kernel has none of this input."""
    if math.isnan(length):
        return "has no length-scale in this kernel"
    if length > IRRELEVANT * spread:
        return "hardly matters"
    amount = duration(length) if feature.is_time else quantity(length, feature.unit or unit_of(feature.name), 2)
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


def on_transforms(transforms: Sequence[tuple[float, Transform]], target: str) -> list[str]:
    """The transform in which the model holds, or those that predictions are averaged over, with their weights."""
    given = "the mean given here is the median of the truth, and std half the width of its central 68 %."
    if len(transforms) > 1:
        weights = ", ".join(f"{TRANSFORMS[each.name]}{share(weight)}" for weight, each in transforms)
        averaged = f"Predictions are averaged over transforms of {target}, as probable as each is to predict best"
        return [f"{averaged}: {weights}; {given} What is said of lengths and noise is of the first."]
    name = transforms[0][1].name
    return [] if name == "identity" else [f"The model holds for a transform of {target} ({name}): {given}"]


def share(weight: float) -> str:
    """Of a transform, where there are several."""
    return "" if weight == 1.0 else f" {weight:.2f}"
