"""How long a fit will take, before its work has been measured: by those before it, and by what is usual."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from biasgp.models.strategy import EXACT_UP_TO

CLOSE = 4.0
"""Ratio of numbers of readings up to which the time of one fit tells something of that of another."""
KNOWN, USUAL = 0.4, 0.8
"""Standard deviation of the log of the seconds around what is typical: among fits of one project, and of any."""


@dataclass(frozen=True)
class Forecast:
    """Seconds that are typical, and how far fits are from that, as a standard deviation of the log."""

    typical: float
    spread: float

    def left(self, elapsed: float) -> float:
        """The mean of what is left, among fits that took so long already: it never gets to nothing."""
        centre, s, now = math.log(self.typical), self.spread, math.log(max(elapsed, 1e-3))
        # Of a log-normal duration; far beyond what is typical, as logs, since both tails are next to nothing.
        ratio = norm.logcdf((centre + s**2 - now) / s) - norm.logcdf((centre - now) / s)
        return max(math.exp(centre + 0.5 * s**2 + float(ratio)) - elapsed, 0.0)


def forecast(parts: Iterable[tuple[int, bool]], before: Iterable[dict[str, Any]]) -> Forecast:
    """Of a fit of several parts, each with so many readings, begun from what is known or not; by parts before it."""
    earlier = [each for each in before if each["status"] == "ok" and each["seconds"] > 0.0 and each["readings"] > 0]
    typical, known = 0.0, True
    for n, again in parts:
        like = [each for each in earlier if bool(each.get("again")) == again and _ratio(each["readings"], n) <= CLOSE]
        known &= bool(like)
        if like:
            usual = [each["seconds"] * _usual(n, again) / _usual(each["readings"], again) for each in like]
            typical += float(np.median(usual))
        else:
            typical += _usual(n, again)
    return Forecast(max(typical, 1.0), KNOWN if known else USUAL)


def _ratio(a: int, b: int) -> float:
    return max(a, b) / max(min(a, b), 1)


def _usual(n: int, again: bool) -> float:
    """Seconds as benchmarks/app.py has them: 47 and 18 with 1,400 readings, 27 and 35 with 100,000."""
    if n <= EXACT_UP_TO:  # where time grows with the square of the readings
        return 2.0 + (16.0 if again else 45.0) * (n / 1400.0) ** 2
    return 20.0 + (15.0 if again else 7.0) * n / 100_000.0
