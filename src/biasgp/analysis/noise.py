"""The noise of a reading as a data sheet states it: `--noise 0.2`, `--noise "2% + 0.1"`, or a column of the table."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import numpy as np

from biasgp._typing import Array
from biasgp.data.columns import Readings
from biasgp.data.table import Table, TableError
from biasgp.messages import WrongUseError, clip, printable

_TERM = re.compile(r"\s*(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*(%?)\s*")
_MIDDLE = (0.05, 0.95)
"""Quantiles of the readings that a share of a reading is taken within: an outlier does not excuse itself."""
_MAX_LENGTH = 200
"""Characters: a few numbers."""


@dataclass(frozen=True)
class StatedNoise:
    """One standard deviation: a share of the reading, and a constant in its unit; they add up, as in a data sheet."""

    share: float = 0.0
    constant: float = 0.0

    @classmethod
    def parse(cls, text: str) -> StatedNoise:
        """Numbers with + between, each of which may be a percentage of the reading."""
        advice = 'Write one standard deviation in the unit of the target, as 0.2, or of the reading too, as "2% + 0.1".'
        share = constant = 0.0
        for term in text.split("+") if len(text) <= _MAX_LENGTH else [""]:
            found = _TERM.fullmatch(term)
            value = float(found[1]) if found else math.nan
            if found is None or not math.isfinite(value):
                raise WrongUseError(
                    f"--noise {printable(clip(text))!r}: {printable(clip(term))!r} is no noise. {advice}"
                )
            share, constant = (share + value / 100.0, constant) if found[2] else (share, constant + value)
        if share + constant <= 0.0:
            raise WrongUseError(f"--noise {printable(clip(text))!r} is none. {advice}")
        return cls(share, constant)

    def variances(self, y: Array) -> Array:
        """Of readings, some of which may be missing, or outliers."""
        low, high = np.nanquantile(np.abs(y), _MIDDLE)
        return np.asarray((self.share * np.clip(np.abs(y), low, high) + self.constant) ** 2)


def with_stated_noise(readings: Readings, table: Table, noise: str | None, column: str | None) -> Readings:
    """Readings with the variance of each that was stated: as text, or as standard deviations in a column."""
    if noise is not None:
        known = StatedNoise.parse(noise).variances(np.where(readings.kept, readings.y, np.nan))
        return replace(readings, noise_variance=known)
    if column is None:
        return readings
    stds = table.column(column).numbers()
    wrong = np.flatnonzero(readings.kept & (stds < 0.0))
    if len(wrong):
        raise TableError(
            f"Column {column!r}, row {wrong[0] + 1}: {stds[wrong[0]]:g} is no standard deviation (--noise-column): it "
            "must not be negative. Correct it, or leave the row out with --where."
        )
    absent = readings.kept & ~np.isfinite(stds)
    left_out = readings.left_out + (((f"{column!r} is missing", int(absent.sum())),) if absent.any() else ())
    kept = readings.kept & ~absent
    if not kept.any():
        raise TableError(f"Column {column!r} (--noise-column) holds nothing but missing values.")
    return replace(readings, kept=kept, left_out=left_out, noise_variance=stds**2)
