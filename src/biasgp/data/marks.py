"""What numbers say beside their value: marks for missing readings, detection limits, and the step of a display."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.data.layout import CENSORED
from biasgp.messages import TableError, clip

_BELOW, _ABOVE = -1, 1
"""Codes of a reading that is a limit: the truth lies below it, or above."""
_CODES = frozenset(
    sign * code
    for sign in (-1.0, 1.0)
    for code in (
        *(99.0, 999.0, 9999.0, 99999.0, 999999.0, 9999999.0, 99.9, 99.99, 999.9, 999.99, 9999.9, 9999.99, 99999.9),
        *(888.0, 8888.0, 88888.0, 7777.0, 6999.0, 7999.0, 8999.0, 200.0, 32767.0, 32768.0, 65535.0, 2147483647.0),
        *(2147483648.0, 1e20, 1e30, 1e35, 1e36, 9.969209968386869e36, 1.0e37),
    )
)
"""Numbers by which instruments, archives and file formats say that there is no reading."""
_FEWEST_MARKS = 3
"""Times that such a number must be there: one may be a reading, and is for the model to judge."""
FAR = 3.0
"""How far from the other readings a mark is, at least, in their range (without the outer two per cent)."""
_FEWEST_OTHERS = 5
INNER = (0.01, 0.99)
LEVELS = 3
"""Different readings that show a step, at least."""
SAMPLE = 20_000
"""Readings by which a step is looked for, before all are."""
_COARSE = 0.2
"""A step counts where the error of rounding to it is at least this part of the scatter from reading to reading."""
_NOTHING = frozenset(
    {"", "0", "0.0", "none", "no", "false", "=", "n", "na", "nan", "ok", "measured", "detected", "quantified"}
)
_LESS = frozenset(
    {"-1", "-1.0", "<", "<=", "≤", "lt", "left", "below", "bdl", "bql", "lod", "loq", "nd", "u", "non-detect"}
)
_MORE = frozenset({"1", "1.0", "+1", ">", ">=", "≥", "gt", "right", "above", "saturated", "over", "overrange"})


def split_limits(cells: Sequence[str]) -> tuple[list[str], np.ndarray | None]:
    """Cells such as <0.5 without their sign, and the code of each: below, above, or 0; None where there is none."""
    at = [i for i, cell in enumerate(cells) if cell[0] in "<>≤≥"]
    if not at:
        return list(cells), None
    bare, codes = list(cells), np.zeros(len(cells), dtype=np.int8)
    for i in at:
        found = CENSORED.fullmatch(cells[i])
        if found:
            bare[i] = found["rest"].strip()
            codes[i] = _BELOW if found["sign"] in "<≤" else _ABOVE
    return bare, codes


def limits_said(words: Sequence[str], missing: Mask, column: str) -> Array:
    """The codes that a column says, in numbers or in words."""
    codes = np.zeros(len(words))
    for i, word in enumerate(words):
        said = word.strip().lower()
        if missing[i] or said in _NOTHING:
            continue
        if said not in _LESS | _MORE:
            raise TableError(
                f"Column {column!r}, row {i + 1}: {clip(word)!r} does not say whether a reading is a limit. Write -1 "
                "or < where the truth lies below it, 1 or > where above, and 0 or nothing where it is a reading."
            )
        codes[i] = _BELOW if said in _LESS else _ABOVE
    return codes


def find_marks(values: Array) -> tuple[float, ...]:
    """Numbers that stand for missing readings beyond doubt: typical ones, repeated, and far outside all others."""
    found: list[float] = []
    rest = values
    while True:
        # fmin and fmax pass over NaN without a copy.
        ends = {float(np.fmin.reduce(rest)), float(np.fmax.reduce(rest))} if len(rest) else set()
        mark = next((end for end in sorted(ends) if end in _CODES and _is_mark(rest, end)), None)
        if mark is None:
            return tuple(found)
        found.append(mark)
        rest = rest[rest != mark]


def _is_mark(values: Array, mark: float) -> bool:
    if np.count_nonzero(values == mark) < _FEWEST_MARKS:
        return False
    low, high = np.fmin.reduce(values), np.fmax.reduce(values)
    there = [code for code in _CODES if low <= code <= high]  # each one costs a pass over all readings
    others = values[np.isfinite(values) & ~np.isin(values, there)]
    if len(others) < _FEWEST_OTHERS:
        return False
    low, high = np.quantile(others[:: max(len(others) // SAMPLE, 1)], INNER)
    outside = max(low - mark, mark - high)
    beyond = others.min() < mark < others.max()
    return bool(outside > FAR * max(high - low, np.finfo(float).tiny) and not beyond)


def find_resolution(values: Array) -> float | None:
    """The step of which all readings are multiples, from some offset; None where none can be told."""
    some = np.unique(values[:: max(len(values) // SAMPLE, 1)])
    if len(some) < LEVELS:
        return None
    steps = np.diff(some)
    size = float(np.abs(some).max())
    step = float(steps[steps > 1e-9 * size].min(initial=np.inf))
    if not np.isfinite(step) or np.ptp(some) / step > 1e7:
        return None
    step = float(f"{step:.6g}")
    multiples = (values - some[0]) / step
    whole = np.round(multiples)
    even = np.abs(multiples - whole) < 1e-3 * (1.0 + 1e-6 * np.abs(multiples))
    return step if bool(even.all()) and len(np.unique(whole[: 10 * SAMPLE])) >= LEVELS else None


def is_coarse(step: float, values: Array) -> bool:
    """Whether rounding to this step is a part of the noise that counts; `values` in the order of time."""
    scatter = float(np.median(np.abs(np.diff(values, 2)))) / (0.6745 * np.sqrt(6.0))
    return bool(step / np.sqrt(12.0) >= _COARSE * scatter)
