"""The response in the units that the models work in, and back: a transform, then robust centring and scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import minimize_scalar

from biasgp._typing import Array

MAD_TO_STD = 1.4826


class Transform(Protocol):
    """A smooth increasing map of y, with its inverse and the logarithm of its slope."""

    def forward(self, y: Array) -> Array: ...
    def backward(self, t: Array) -> Array: ...
    def log_slope(self, y: Array) -> Array: ...


@dataclass(frozen=True)
class Identity:
    """y itself."""

    def forward(self, y: Array) -> Array:
        return y

    def backward(self, t: Array) -> Array:
        return t

    def log_slope(self, y: Array) -> Array:
        return np.zeros_like(y)


@dataclass(frozen=True)
class Log:
    """log(y + shift): for readings that are positive but for noise. Readings below −shift do not exist for it."""

    shift: float

    @classmethod
    def of(cls, y: Array) -> Log:
        """No shift for positive y; else one that leaves the lowest reading a robust standard deviation above zero."""
        lowest = float(y.min())
        if lowest > 0.0:
            return cls(0.0)
        spread = MAD_TO_STD * float(np.median(np.abs(y - np.median(y)))) or float(np.std(y)) or 1.0
        return cls(spread - lowest)

    def forward(self, y: Array) -> Array:
        return np.asarray(np.log(np.maximum(y + self.shift, np.finfo(float).tiny)))

    def backward(self, t: Array) -> Array:
        return np.asarray(np.exp(np.minimum(t, 700.0)) - self.shift)

    def log_slope(self, y: Array) -> Array:
        return -self.forward(y)


POWERS = (0.0, 2.0)
"""Of Yeo and Johnson's transform. Beyond these it has an asymptote, and its inverse is infinite past that."""


@dataclass(frozen=True)
class YeoJohnson:
    """Yeo and Johnson's power of (y − center)/unit, for skewed readings of either sign."""

    center: float
    unit: float
    power: float

    @classmethod
    def of(cls, y: Array) -> YeoJohnson:
        """The power that makes the middle 90 % of y most like a normal sample; its tails may be outliers."""
        center = float(np.median(y))
        unit = MAD_TO_STD * float(np.median(np.abs(y - center))) or float(np.std(y)) or 1.0
        low, high = np.quantile(y, [0.05, 0.95])
        middle = y[(y >= low) & (y <= high)]

        def cost(power: float) -> float:
            candidate = cls(center, unit, power)
            t = candidate.forward(middle)
            return float(0.5 * len(t) * np.log(t.var() + 1e-300) - candidate.log_slope(middle).sum())

        return cls(center, unit, float(minimize_scalar(cost, bounds=POWERS, method="bounded").x))

    def forward(self, y: Array) -> Array:
        u = (y - self.center) / self.unit
        up, down = np.maximum(u, 0.0), np.maximum(-u, 0.0)
        return np.where(u >= 0.0, _box_cox(up, self.power), -_box_cox(down, 2.0 - self.power))

    def backward(self, t: Array) -> Array:
        up, down = np.maximum(t, 0.0), np.maximum(-t, 0.0)
        u = np.where(t >= 0.0, _inverse_box_cox(up, self.power), -_inverse_box_cox(down, 2.0 - self.power))
        return np.asarray(self.center + self.unit * u)

    def log_slope(self, y: Array) -> Array:
        u = (y - self.center) / self.unit
        return np.asarray(np.sign(u) * (self.power - 1.0) * np.log1p(np.abs(u)) - np.log(self.unit))


def _box_cox(u: Array, power: float) -> Array:
    """((1 + u)^power − 1)/power for u ≥ 0; log(1 + u) at power 0."""
    v = np.log1p(u)
    return np.asarray(v if abs(power) < 1e-8 else np.expm1(power * v) / power)


def _inverse_box_cox(t: Array, power: float) -> Array:
    if abs(power) < 1e-8:
        return np.asarray(np.expm1(np.minimum(t, 700.0)))
    # A negative power has an asymptote; beyond it the largest number stands in.
    inside = np.maximum(power * t, -1.0 + 1e-15)
    return np.asarray(np.expm1(np.minimum(np.log1p(inside) / power, 700.0)))


@dataclass(frozen=True)
class Scaling:
    """z = (T(y) − center)/scale, by median and MAD, so that outliers do not set the unit."""

    center: float
    scale: float
    constant: bool
    transform: Transform = Identity()

    @classmethod
    def of(cls, y: Array, transform: Transform = Identity()) -> Scaling:  # noqa: B008
        """Scaling for y; where over half of T(y) is one value, its mean absolute deviation stands in for the MAD."""
        t = transform.forward(y)
        center = float(np.median(t))
        deviation = np.abs(t - center)
        scale = MAD_TO_STD * float(np.median(deviation)) or float(np.mean(deviation))
        # A spread that is rounding error of the level is no spread.
        constant = bool(scale <= 8.0 * np.finfo(float).eps * abs(center))
        return cls(center, (abs(center) or 1.0) if constant else scale, constant, transform)

    @property
    def is_linear(self) -> bool:
        return isinstance(self.transform, Identity)

    def forward(self, y: Array) -> Array:
        """y in model units."""
        if self.constant:
            return np.zeros_like(y)
        return np.asarray((self.transform.forward(y) - self.center) / self.scale)

    def backward(self, z: Array) -> Array:
        """Model units in y's."""
        return self.transform.backward(self.center + self.scale * z)

    def log_slope(self, y: Array) -> Array:
        """log dz/dy: what a density in z is to be raised by to be one in y."""
        return np.asarray(self.transform.log_slope(y) - np.log(self.scale))

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Mean and standard deviation in y's units of a normal variable in model units."""
        if self.is_linear:
            return self.backward(mean), self.scale * np.sqrt(variance)
        # Gauss–Hermite: exact for polynomials of degree 39, and close for exp and powers.
        spread = np.sqrt(2.0 * variance)[:, None] * _NODES
        values = self.backward(mean[:, None] + spread)
        first = values @ _WEIGHTS
        second = ((values - first[:, None]) ** 2) @ _WEIGHTS
        return first, np.sqrt(second)

    def spread(self, variance: float) -> float:
        """Standard deviation in y's units of noise with that variance in model units, about y's centre."""
        return float(self.moments(np.zeros(1), np.array([variance]))[1][0])

    def joint_moments(self, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Mean and covariance in y's units; under a transform, exact standard deviations and the correlations of z."""
        if self.is_linear:
            return self.backward(mean), covariance * self.scale**2
        variance = np.maximum(covariance.diagonal(), 1e-300)
        means, stds = self.moments(mean, variance)
        return means, covariance * np.outer(stds / np.sqrt(variance), stds / np.sqrt(variance))


@dataclass(frozen=True)
class ScaledResponse:
    """Readings with their scaling: z for the models, and what they found about each reading in y's units."""

    y: Array
    scaling: Scaling

    @property
    def z(self) -> Array:
        return self.scaling.forward(self.y)

    @property
    def log_jacobian(self) -> float:
        """What log p(z) is to be raised by to be log p(y)."""
        return float(self.scaling.log_slope(self.y).sum())

    def variances(self, of_y: Array) -> Array:
        """Known variances of the readings in model units: to first order, under a transform."""
        return np.asarray(of_y * np.exp(2.0 * self.scaling.log_slope(self.y)))

    def bias(self, of_z: Array) -> Array:
        """What a bias in model units has added to each reading."""
        if self.scaling.is_linear:
            return self.scaling.scale * of_z
        return np.where(of_z == 0.0, 0.0, self.y - self.scaling.backward(self.z - of_z))

    def bias_std(self, of_z: Array, std: Array) -> Array:
        """Standard deviation of `bias`: half of what a step of one standard deviation up and down makes of it."""
        return 0.5 * np.abs(self.bias(of_z + std) - self.bias(of_z - std))


_NODES, _RAW_WEIGHTS = np.polynomial.hermite.hermgauss(20)
_WEIGHTS = _RAW_WEIGHTS / np.sqrt(np.pi)
