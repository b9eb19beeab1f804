"""The response in the units that the models work in, and back: a transform, then robust centring and scaling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import boxcox1p

from biasgp._typing import Array

MAD_TO_STD = 1.4826
"""Standard deviation of a normal variable in units of its median absolute deviation."""
SMALLEST = 1e-100
"""Squares of smaller numbers, and what is computed from them, underflow."""
LAST_DIGITS = 4.0 * float(np.finfo(float).eps)
"""Relative difference of two numbers that are the same but for rounding."""
_TINY = float(np.finfo(float).tiny)
_LARGEST_EXPONENT = 700.0
"""e to this power is near the largest double, and is taken in place of what exceeds it."""


class Transform:
    """A smooth increasing map of y that holds from `low` to `high`, and is continued beyond them by its tangents.

    Readings tell nothing of its curvature beyond them. The inverse of a logarithm grows exponentially there, and the
    mean of a prediction would depend on a tail without data; the inverse of a tangent grows in proportion. The map
    stays smooth and increasing, so that densities stay proper.
    """

    name: ClassVar[str]
    """As `response=` spells it."""
    low: float = -np.inf
    high: float = np.inf

    def forward(self, y: Array) -> Array:
        inside = np.clip(y, self.low, self.high)
        slope = np.exp(np.where(y == inside, 0.0, self._log_slope(inside)))
        return np.asarray(self._forward(inside) + (y - inside) * slope)

    def backward(self, t: Array) -> Array:
        """The inverse of `forward`."""
        low, high = (float(self._forward(np.asarray(y))) if np.isfinite(y) else y for y in (self.low, self.high))
        inside = np.clip(t, low, high)
        y = self._backward(inside)
        slope = np.exp(np.where(t == inside, 0.0, -self._log_slope(y)))
        return np.asarray(y + (t - inside) * slope)

    def log_slope(self, y: Array) -> Array:
        """The logarithm of the derivative of `forward`."""
        return self._log_slope(np.clip(y, self.low, self.high))

    def supported_by(self, y: Array) -> Transform:
        """The same, continued by its tangents beyond what these readings support."""
        return self

    def _forward(self, y: Array) -> Array:
        raise NotImplementedError

    def _backward(self, t: Array) -> Array:
        raise NotImplementedError

    def _log_slope(self, y: Array) -> Array:
        raise NotImplementedError


@dataclass(frozen=True)
class Identity(Transform):
    """y itself."""

    name = "identity"

    def forward(self, y: Array) -> Array:
        return y

    def backward(self, t: Array) -> Array:
        return t

    def log_slope(self, y: Array) -> Array:
        return np.zeros_like(y)


_MARGIN = 2.0
"""How far beyond the readings a transform is taken to hold, in units of their range. Three times the largest reading is
five standard deviations of a log-normal noise of 20 %: near the readings the moments do not depend on the ends."""
_NEAR = 0.25
"""Relative difference up to which a logarithm is taken of 1 + a difference."""
_POWERS = (0.0, 2.0)
"""Of Yeo and Johnson's transform. Beyond these it has an asymptote, and its inverse is infinite past that."""
_ZERO_POWER = 1e-8
"""Powers below this, about the root of eps, are those of the logarithm to rounding."""
_MIDDLE = (0.05, 0.95)
"""Quantiles of y between which Yeo and Johnson's power is fitted: its tails may be outliers."""


@dataclass(frozen=True)
class Log(Transform):
    """log((y + shift)/unit): for readings that are positive but for noise. Those below −shift do not exist for it.

    Above `high` it goes on as its tangent. Downwards its inverse ends at −shift by itself.
    """

    name = "log"
    shift: float
    unit: float = 1.0
    high: float = np.inf

    @classmethod
    def of(cls, y: Array) -> Log:
        """No shift for positive y; else one that leaves the lowest reading a robust standard deviation above zero."""
        lowest = float(y.min())
        shift = 0.0 if lowest > 0.0 else _unit_of(y) - lowest
        return cls(shift, float(np.median(y)) + shift)

    def supported_by(self, y: Array) -> Log:
        return replace(self, high=float(y.max() + _MARGIN * np.ptp(y)))

    # Near the unit the logarithm is taken of the difference from it: where readings differ in their last digits only,
    # those are what would be lost.
    def _forward(self, y: Array) -> Array:
        step = (y - (self.unit - self.shift)) / self.unit
        near = np.abs(step) < _NEAR
        ratio = np.maximum((y + self.shift) / self.unit, _TINY)
        return np.where(near, np.log1p(np.where(near, step, 0.0)), np.log(ratio))

    def _backward(self, t: Array) -> Array:
        near = np.abs(t) < _NEAR
        step = np.expm1(np.where(near, t, 0.0))
        far = np.exp(np.minimum(t + np.log(self.unit), _LARGEST_EXPONENT)) - self.shift
        return np.where(near, (self.unit - self.shift) + self.unit * step, far)

    def _log_slope(self, y: Array) -> Array:
        return np.asarray(-self._forward(y) - np.log(self.unit))


@dataclass(frozen=True)
class YeoJohnson(Transform):
    """Yeo and Johnson's power of (y − center)/unit, for skewed readings of either sign.

    Below `low` and above `high` it goes on as its tangents.
    """

    name = "yeo-johnson"
    center: float
    unit: float
    power: float
    low: float = -np.inf
    high: float = np.inf

    @classmethod
    def of(cls, y: Array) -> YeoJohnson:
        """The power that makes the middle 90 % of y most like a normal sample."""
        center, unit = float(np.median(y)), _unit_of(y)
        low, high = np.quantile(y, _MIDDLE)
        middle = y[(y >= low) & (y <= high)]

        def cost(power: float) -> float:
            candidate = cls(center, unit, power)
            t = candidate.forward(middle)
            return float(0.5 * len(t) * np.log(t.var() + _TINY) - candidate.log_slope(middle).sum())

        return cls(center, unit, float(minimize_scalar(cost, bounds=_POWERS, method="bounded").x))

    def supported_by(self, y: Array) -> YeoJohnson:
        margin = _MARGIN * np.ptp(y)
        return replace(self, low=float(y.min() - margin), high=float(y.max() + margin))

    def _forward(self, y: Array) -> Array:
        u = (y - self.center) / self.unit
        up, down = np.maximum(u, 0.0), np.maximum(-u, 0.0)
        return np.asarray(np.where(u >= 0.0, boxcox1p(up, self.power), -boxcox1p(down, 2.0 - self.power)))

    def _backward(self, t: Array) -> Array:
        up, down = np.maximum(t, 0.0), np.maximum(-t, 0.0)
        u = np.where(t >= 0.0, _inverse_box_cox(up, self.power), -_inverse_box_cox(down, 2.0 - self.power))
        return np.asarray(self.center + self.unit * u)

    def _log_slope(self, y: Array) -> Array:
        u = (y - self.center) / self.unit
        return np.asarray(np.sign(u) * (self.power - 1.0) * np.log1p(np.abs(u)) - np.log(self.unit))


def _inverse_box_cox(t: Array, power: float) -> Array:
    """The u ≥ 0 with ((1 + u)^power − 1)/power = t; the largest number past the asymptote of a negative power."""
    logs = t if abs(power) < _ZERO_POWER else np.log1p(np.maximum(power * t, LAST_DIGITS - 1.0)) / power
    return np.asarray(np.expm1(np.minimum(logs, _LARGEST_EXPONENT)))


def _unit_of(y: Array) -> float:
    return _mad_std(y) or float(np.std(y)) or 1.0


def robust_spread(y: Array) -> float:
    """Standard deviation by the MAD; where over half of y is one value, its mean absolute deviation stands in."""
    return _mad_std(y) or float(np.mean(np.abs(y - np.median(y))))


def is_constant(y: Array) -> bool:
    """Whether y does not vary: a spread that is rounding error of the level is none."""
    return robust_spread(y) <= 2.0 * LAST_DIGITS * abs(float(np.median(y)))


def _mad_std(y: Array) -> float:
    return MAD_TO_STD * float(np.median(np.abs(y - np.median(y))))


@dataclass(frozen=True)
class Scaling:
    """z = (T(y) − center)/scale, by median and MAD, so that outliers do not set the unit."""

    center: float
    scale: float
    constant: bool
    transform: Transform = Identity()

    @classmethod
    def of(cls, y: Array, transform: Transform = Identity()) -> Scaling:  # noqa: B008
        """Scaling for y."""
        t = transform.forward(y)
        center, scale = float(np.median(t)), robust_spread(t)
        if not is_constant(y):
            return cls(center, scale, False, transform)
        return cls(center, abs(center) if abs(center) > SMALLEST else 1.0, True, transform)

    def supported_by(self, y: Array) -> Scaling:
        """The same, with a transform that is continued beyond what these readings support."""
        return replace(self, transform=self.transform.supported_by(y))

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
        """log dz/dy, which turns a log density of z into one of y."""
        return np.asarray(self.transform.log_slope(y) - np.log(self.scale))

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Mean and standard deviation in y's units of a normal variable in model units."""
        if self.is_linear:
            return self.backward(mean), self.scale * np.sqrt(variance)
        # Gauss–Hermite quadrature, close for exponentials and powers.
        spread = np.sqrt(2.0 * variance)[:, None] * _NODES
        values = self.backward(mean[:, None] + spread)
        first = values @ _WEIGHTS
        std = np.sqrt(((values - first[:, None]) ** 2) @ _WEIGHTS)
        # Where values differ by no more than rounding of their level, the transform is straight.
        straight = np.sqrt(variance) * np.exp(-self.log_slope(first))
        return first, np.where(std > LAST_DIGITS * np.abs(first), std, straight)

    def spread(self, variance: float) -> float:
        """Standard deviation in y's units of noise with that variance in model units, about y's centre."""
        return float(self.moments(np.zeros(1), np.array([variance]))[1][0])

    def joint_moments(self, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Mean and covariance in y's units; under a transform, exact standard deviations and the correlations of z."""
        if self.is_linear:
            return self.backward(mean), covariance * self.scale**2
        variance = np.maximum(covariance.diagonal(), _TINY)
        means, stds = self.moments(mean, variance)
        return means, covariance * np.outer(stds / np.sqrt(variance), stds / np.sqrt(variance))


@dataclass(frozen=True)
class ScaledResponse:
    """Readings with their scaling: z for the models, and what they found about each reading in y's units."""

    y: Array
    scaling: Scaling
    censored: Array | None = None
    """−1 or +1 where y is only a limit below or above which the reading lies, else 0; None where all were measured."""

    @property
    def z(self) -> Array:
        return self.scaling.forward(self.y)

    @property
    def log_jacobian(self) -> float:
        """log p(y) − log p(z); the probability of lying beyond a limit is the same in both units."""
        measured = self.y if self.censored is None else self.y[self.censored == 0.0]
        return float(self.scaling.log_slope(measured).sum())

    @property
    def zero(self) -> float | None:
        """What a response of 0 is in model units, of which y is a multiple from there; None under a transform."""
        return float(self.scaling.forward(np.zeros(1))[0]) if self.scaling.is_linear else None

    def variances(self, of_y: Array) -> Array:
        """Known variances of the readings in model units: to first order, under a transform.

        In these units Var f is about 1, and a reading z of variance n moves f by z/n of that: at n = max(1, z²)/eps²
        by less than rounding does. A larger variance says no more, and its square might overflow.
        """
        known = of_y > 0.0
        logs = np.log(np.where(known, of_y, 1.0)) + 2.0 * self.scaling.log_slope(self.y)
        most = 2.0 * np.log(np.maximum(1.0, np.abs(self.z)) / np.finfo(float).eps)
        return np.where(known, np.exp(np.minimum(logs, most)), 0.0)

    def bias(self, of_z: Array) -> Array:
        """What a bias in model units has added to each reading."""
        if self.scaling.is_linear:
            return self.scaling.scale * of_z
        return np.where(of_z == 0.0, 0.0, self.y - self.scaling.backward(self.z - of_z))

    def bias_std(self, of_z: Array, std: Array) -> Array:
        """Standard deviation of `bias`: half of what a step of one standard deviation up and down makes of it."""
        return 0.5 * np.abs(self.bias(of_z + std) - self.bias(of_z - std))


_QUADRATURE_POINTS = 20
"""Exact for polynomials up to degree 39."""
_NODES, _WEIGHTS = np.polynomial.hermite.hermgauss(_QUADRATURE_POINTS)
_WEIGHTS /= np.sqrt(np.pi)
