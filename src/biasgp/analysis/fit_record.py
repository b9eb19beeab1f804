"""What a page about a fit shows: plain arrays and words, no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array, Mask


@dataclass(frozen=True)
class Axis:
    """What readings are drawn against: milliseconds since 1970 (is_time), or the numbers of a column, or of rows."""

    label: str
    is_time: bool
    values: Array


@dataclass(frozen=True)
class Effect:
    """Mean of f over the readings' other inputs as one input goes over a grid, with its 95 % band."""

    label: str
    is_time: bool
    words: str
    grid: Array
    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Points:
    """The readings, and what was found about each; NaN where a method does not say."""

    row: NDArray[np.intp]
    when: Sequence[str]
    y: Array
    mean: Array
    low: Array
    high: Array
    bias: Array
    bias_std: Array
    probability: Array
    flagged: Mask
    held_out: Mask
    residual: Array
    """Distance from the prediction without the reading, in its standard deviations; NaN for the flagged."""

    def take(self, rows: NDArray[np.intp]) -> Points:
        """Some of them."""
        picked = {name: getattr(self, name)[rows] for name in vars(self) if name != "when"}
        return replace(self, when=[self.when[i] for i in rows.tolist()], **picked)


@dataclass(frozen=True)
class FitRecord:
    """A fit, as a page and a summary tell it."""

    title: str
    target: str
    unit: str
    source: str
    axis: Axis
    points: Points
    effects: tuple[Effect, ...]
    figures: tuple[tuple[str, str], ...]
    """The few numbers to read first: what, and how much."""
    sentences: tuple[str, ...]
    doubts: tuple[str, ...]
    """Reasons not to trust the fit, in plain words; empty when there is none."""
    remarks: tuple[str, ...]
    """What else the reader should know, such as readings left out."""
    residuals_of: str
    made: tuple[tuple[str, str], ...]
    """How it was made: what, and how."""
