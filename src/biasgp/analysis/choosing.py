"""`--kernel auto`: which cycles and whether a trend are part of the kernel, chosen by evidence and told in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from biasgp.data.columns import Feature, Readings
from biasgp.kernels import Kernel
from biasgp.messages import quantity
from biasgp.models.kernel_choice import TREND, Choice, Part, choose_parts
from biasgp.models.transform_choice import Weighted, choose_transforms
from biasgp.response import ScaledResponse, Scaling
from biasgp.watch import stage

PERIODS = {"daily": 24.0, "weekly": 168.0}
"""Cycles that are looked for, in hours."""
CLOCK, WEEKDAYS = "%H:%M", ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def choose_kernel(
    readings: Readings, kernel: Kernel, response: str, rows: NDArray[np.intp]
) -> tuple[Choice, tuple[Weighted, ...]]:
    """A kernel with the cycles and the trend that these rows bear out, and the transforms to average over.

    The likeliest of these is the one in which they do. Nothing is chosen, and no transform, where no input is a time,
    and where sensors share the truth.
    """
    times = [j for j, feature in enumerate(readings.features) if feature.is_time]
    if not times or readings.sensors is not None:
        return Choice(kernel), ()
    stage("choosing the kernel")
    told = rows if readings.verdict is None else rows[readings.verdict[rows] != 1.0]
    X, y, measured = readings.X[told], readings.y[told], readings.measured[told]
    transforms = choose_transforms(response, X, y, kernel, readings.names, measured)
    scaled = ScaledResponse(y[measured], Scaling.of(y, transforms[0].transform))
    return choose_parts(kernel, X[measured], scaled, readings.names, times[0], PERIODS), transforms


def in_words(choice: Choice, features: Sequence[Feature], unit: str) -> list[str]:
    """What was chosen, in sentences; none where there was no choice."""
    if not choice.tried:
        return []
    if choice.parts:
        time = next(feature for feature in features if feature.is_time)
        told = " and ".join(_told(part, time, unit) for part in choice.parts)
        return [f"The truth has {told} (chosen by evidence; --kernel names another)."]
    cycles = [name for name in choice.tried if name != TREND]
    absent = f"no {' or '.join(cycles)} cycle and no trend" if cycles else "no trend"
    return [f"The readings bear out {absent} (--kernel names a kernel)."]


def _told(part: Part, time: Feature, unit: str) -> str:
    """One part."""
    if part.name == TREND:
        return f"a trend of {'+' if part.size > 0.0 else ''}{quantity(part.size, unit, 2)} over the readings compared"
    (highest,) = time.instants(np.array([part.highest])).astype("datetime64[s]").tolist()
    at = highest.strftime(CLOCK) if part.name == "daily" else f"on {WEEKDAYS[highest.weekday()]}s"
    return f"a {part.name} cycle of {quantity(part.size, unit, 2)}, highest {'at ' if part.name == 'daily' else ''}{at}"
