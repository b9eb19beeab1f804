"""Kernels without a length-scale: a constant, and linear functions of the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from biasgp._typing import Array
from biasgp.inputs import column_scales
from biasgp.kernels.base import Pullback
from biasgp.kernels.leaf import Leaf
from biasgp.kernels.state_space import StateSpace, constants

LINEAR_WEIGHT = 1e-2
"""What a squared standard deviation of a column counts in the distance: a linear function has no scale of its own."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Constant(Leaf):
    """k(x, z) = variance: an unknown level.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import Constant
    >>> Constant(variance=2.0)(np.array([[0.0], [1.0]])).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return np.full((len(X), len(X if Z is None else Z)), self._values("variance")[0])

    def diag(self, X: Array) -> Array:
        return np.full(len(X), self._values("variance")[0])

    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        return self.batched_vjp(X)

    def batched_vjp(self, P: Array) -> tuple[Array, Pullback]:
        C = np.full((*P.shape[:-1], P.shape[-2]), self._values("variance")[0])
        return C, lambda W: np.array([np.vdot(W, C)])

    def state_space(self, width: int) -> StateSpace | None:
        return constants(np.array(self._values("variance")), True, lambda X: np.ones((len(X), 1)))


@dataclass(frozen=True, kw_only=True, repr=False)
class Linear(Leaf):
    """k(x, z) = Σⱼ varianceⱼ (xⱼ − centerⱼ)(zⱼ − centerⱼ); one variance, or one per input with `ard=True`.

    On a column of times, variance is per second squared, and center is in seconds since `time_columns_[...].origin`.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import Linear
    >>> Linear(variance=2.0, center=(1.0,))(np.array([[0.0], [1.0], [3.0]])).tolist()
    [[2.0, 0.0, -4.0], [0.0, 0.0, 0.0], [-4.0, 0.0, 8.0]]
    """

    variance: float | tuple[float, ...] | None = None  # type: ignore[assignment]
    ard: bool = False
    center: tuple[float, ...] | None = None

    def _start(self, columns: Array, unit: float) -> dict[str, Any]:
        spread = column_scales(columns)
        slopes = 1.0 / (len(spread) * spread**2)
        given = None if self.variance is None else np.divide(self.variance, unit)
        variance: Any = self._per_input(given, slopes, self.ard, "variance")
        # The mean of equal numbers differs from them by rounding, which is much where they are large.
        middle = np.where(np.ptp(columns, axis=0) > 0.0, columns.mean(axis=0), columns[0])
        center = middle if self.center is None else np.broadcast_to(self.center, spread.shape)
        return {"variance": variance, "center": tuple(center.tolist())}

    def in_units(self, units: Sequence[float], names: Sequence[str] | None = None) -> Self:
        own, given = self._units_of(units, names), {}
        if self.variance is not None:
            given["variance"] = self._divided("variance", own**-2.0)
        if self.center is not None:
            given["center"] = tuple((np.broadcast_to(self.center, own.shape) / own).tolist())
        return replace(self, times=(), **given)

    def _limits(self, name: str, columns: Array, response_variance: float) -> tuple[Array, Array]:
        low, high = super()._limits(name, columns, response_variance)
        unit = 1.0 / column_scales(columns) ** 2
        return (low * unit, high * unit) if self.ard else (low * unit.min(), high * unit.max())

    def _features(self, X: Array) -> Array:
        return np.asarray(self._columns_of(X) - np.array(self.center))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        A = self._features(X)
        B = A if Z is None else self._features(Z)
        return np.asarray((A * self._values("variance")) @ B.T)

    def diag(self, X: Array) -> Array:
        return np.asarray((self._features(X) ** 2 * self._values("variance")).sum(axis=1))

    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        return self.batched_vjp(X)

    def batched_vjp(self, P: Array) -> tuple[Array, Pullback]:
        A = self._features(P)
        variance = np.array(self._values("variance"))

        def pullback(W: Array) -> Array:
            each = ((W @ A) * A).reshape(-1, A.shape[-1]).sum(axis=0)
            return np.asarray(variance * (each if self.ard else each.sum()))

        return np.asarray((A * variance) @ A.swapaxes(-1, -2)), pullback

    def state_space(self, width: int) -> StateSpace | None:
        center = np.array(self.center)
        return constants(np.broadcast_to(self._values("variance"), center.shape), not self.ard, self._features)

    def inverse_square_lengths(self, X: Array) -> Array:
        return self._to_columns(LINEAR_WEIGHT / column_scales(self._columns_of(X)) ** 2, X.shape[1])
