"""The response in the units that the models work in, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from biasgp._typing import Array

MAD_TO_STD = 1.4826


@dataclass(frozen=True)
class Scaling:
    """z = (y − center)/scale, by median and MAD, so that outliers do not set the unit."""

    center: float
    scale: float
    constant: bool

    @classmethod
    def of(cls, y: Array) -> Scaling:
        """Scaling for y; where over half of y is one value, its mean absolute deviation stands in for the MAD."""
        center = float(np.median(y))
        deviation = np.abs(y - center)
        scale = MAD_TO_STD * float(np.median(deviation)) or float(np.mean(deviation))
        # A spread that is rounding error of the level is no spread.
        constant = bool(scale <= 8.0 * np.finfo(float).eps * abs(center))
        return cls(center, (abs(center) or 1.0) if constant else scale, constant)

    def forward(self, y: Array) -> Array:
        """y in model units."""
        return np.zeros_like(y) if self.constant else (y - self.center) / self.scale

    def backward(self, z: Array) -> Array:
        """Model units in y's."""
        return self.center + self.scale * z
