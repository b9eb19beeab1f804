"""Kernels that repeat themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from biasgp._typing import Array
from biasgp.inputs import neighbour_gap
from biasgp.kernels.base import Pullback
from biasgp.kernels.durations import Duration
from biasgp.kernels.leaf import Leaf
from biasgp.kernels.state_space import StateSpace, periodic
from biasgp.kernels.stationary import SquaredExponential

_PERIODS = 4
"""Periods that the widest input is taken to hold, where none is given."""
_LENGTH_RANGE = (0.05, 100.0)
"""Bounds of the length-scales, in units of the circle's radius: from a twentieth of it to no variation at all."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Periodic(SquaredExponential):
    """exp(−2 Σⱼ sin²(π(xⱼ − zⱼ)/period)/length_scaleⱼ²): repeats itself every `period`.

    The squared exponential of each input laid on a circle, which is how it is computed. On columns of times, period is
    a duration, such as "24h" or a timedelta; a plain number is in seconds. Length-scales have no unit.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import Periodic
    >>> kernel = Periodic(period=24.0, length_scale=1.0, variance=1.0).fix("period")
    >>> kernel(np.array([[0.0], [12.0], [24.0]]))[0].round(3).tolist()
    [1.0, 0.135, 1.0]
    """

    period: float | Duration | None = None

    @property
    def _parameters(self) -> tuple[str, ...]:
        return ("variance", "length_scale", "period")

    @property
    def _durations(self) -> tuple[str, ...]:
        return ("period",)

    def _start(self, columns: Array, unit: float) -> dict[str, Any]:
        period = self.period if self.period is not None else float(np.ptp(columns, axis=0).max() / _PERIODS or 1.0)
        scales = np.full(columns.shape[1], np.sqrt(columns.shape[1]))
        length_scale = self._per_input(self.length_scale, scales, self.ard, "length_scale")
        return Leaf._start(self, columns, unit) | {"length_scale": length_scale, "period": period}

    def _limits(self, name: str, columns: Array, response_variance: float) -> tuple[Array, Array]:
        if name == "length_scale":
            size = len(self._values(name))
            return np.full(size, _LENGTH_RANGE[0]), np.full(size, _LENGTH_RANGE[1])
        if name == "period":
            widest = float(np.ptp(columns, axis=0).max()) or 1.0
            return np.array([2.0 * neighbour_gap(columns).min()]), np.array([2.0 * widest])
        return super()._limits(name, columns, response_variance)

    def _features(self, X: Array) -> Array:
        angle = 2.0 * np.pi / self._values("period")[0] * self._columns_of(X)
        return np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)

    def scaled_inputs(self, X: Array) -> Array:
        lengths = self._values("length_scale")
        return np.asarray(self._features(X) / (lengths if len(lengths) == 1 else lengths * 2))

    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        C, base = super().vjp(X)
        A, columns = self.scaled_inputs(X), self._columns_of(X)
        # From the first row on: W is symmetric, so a common angle adds nothing but its rounding, times 1e90 perhaps.
        angle = 2.0 * np.pi / self._values("period")[0] * (columns - columns[0])
        cos, sin = np.hsplit(A, 2)

        def pullback(W: Array) -> Array:
            G = W * C
            # ∂D²/∂log period = −2 (a − b)(sin a cos b − cos a sin b), a and b the two angles.
            turn = 2.0 * ((angle * sin) * (G @ cos) - (angle * cos) * (G @ sin)).sum()
            return np.append(base(W), turn)

        return C, pullback

    def batched_vjp(self, P: Array) -> tuple[Array, Pullback]:
        C, base = super().batched_vjp(P)
        angle = 2.0 * np.pi / self._values("period")[0] * self._columns_of(P)
        gap = angle[:, :, None, :] - angle[:, None, :, :]
        turn = gap * np.sin(gap) / np.square(self._values("length_scale"))
        return C, lambda W: np.append(base(W), np.einsum("bij,bijd->", W * C, turn))

    def _per_length_scale(self, by_column: Array) -> Array:
        return super()._per_length_scale(by_column.reshape(2, -1).sum(axis=0))

    def inverse_square_lengths(self, X: Array) -> Array:
        return np.zeros(X.shape[1])

    def embedding(self, X: Array) -> Array:
        return self.scaled_inputs(X)

    def state_space(self, width: int) -> StateSpace | None:
        if (column := self._only_column(width)) is None:
            return None
        variance, length_scale, period = (self._values(name)[0] for name in self._parameters)
        return periodic(variance, length_scale, period, column)
