"""Kernels of the scaled distance between two points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist

from biasgp._typing import Array
from biasgp.inputs import column_scales, neighbour_gap
from biasgp.kernels.base import Pullback
from biasgp.kernels.durations import Duration
from biasgp.kernels.leaf import Leaf
from biasgp.kernels.state_space import StateSpace, matern

SAME_POINT = 1e-6
"""Distance, in length-scales, at which the exponential kernel's slope stops growing: it has no limit at 0, and what a
pair this close adds to a gradient is smaller still."""
_LENGTH_RANGE = (0.5, 100.0)
"""Bounds of a length-scale: in gaps between neighbouring points, and in ranges of the inputs. One far below the spacing
of the points would explain any outlier as signal."""
_FAR_APART = 1e4
"""Length-scales from the centre beyond which squares of differences lose half of their digits when expanded."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Stationary(Leaf):
    """variance · profile(D²), D² = Σⱼ ((xⱼ − zⱼ)/length_scaleⱼ)²; one length-scale, or one per input (`ard=True`).

    The length-scale of a column of times is a duration, such as "6h" or a timedelta; a plain number is in seconds.

    Examples
    --------
    A kernel of your own is its profile:

    >>> import numpy as np
    >>> from biasgp.kernels import Stationary
    >>> class Cauchy(Stationary):
    ...     @staticmethod
    ...     def profile(D2):
    ...         return 1.0 / (1.0 + D2), 2.0 / (1.0 + D2) ** 2
    >>> Cauchy(length_scale=2.0, variance=1.0)(np.array([[0.0], [2.0]])).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """

    length_scale: float | Duration | tuple[float | Duration, ...] | None = None
    variance: float | None = None
    ard: bool = False

    @property
    def _parameters(self) -> tuple[str, ...]:
        return ("variance", "length_scale")

    @property
    def _durations(self) -> tuple[str, ...]:
        return ("length_scale",)

    @staticmethod
    def profile(D2: Array) -> tuple[Array, Array]:
        """The correlation and −2·its derivative in D²; may overwrite D2."""
        raise NotImplementedError

    def _start(self, columns: Array, unit: float) -> dict[str, Any]:
        scales = column_scales(columns) * np.sqrt(columns.shape[1])
        return super()._start(columns, unit) | {
            "length_scale": self._per_input(self.length_scale, scales, self.ard, "length_scale")
        }

    def _limits(self, name: str, columns: Array, response_variance: float) -> tuple[Array, Array]:
        if name != "length_scale":
            return super()._limits(name, columns, response_variance)
        (least, most), ranges = _LENGTH_RANGE, np.ptp(columns, axis=0)
        ranges = np.where(ranges > 0, ranges, column_scales(columns))
        if self.ard:
            return least * columns.shape[1] * neighbour_gap(columns), most * ranges
        return least * neighbour_gap(columns, jointly=True), np.array([most * np.linalg.norm(ranges)])

    def usual_length_scales(self, X: Array) -> Array:
        suggested = replace(self, length_scale=None)._start(self._columns_of(X), 1.0)["length_scale"]
        usual = [suggested if name == "length_scale" else np.full(1, np.nan) for name in self._parameters]
        return np.asarray(np.log(np.concatenate([np.ravel(values) for values in usual])))

    def _features(self, X: Array) -> Array:
        """What distances are taken between, before division by the length-scales."""
        return self._columns_of(X)

    def scaled_inputs(self, X: Array) -> Array:
        """Points whose Euclidean distance is D."""
        return np.asarray(self._features(X) / self._values("length_scale"))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        A = self.scaled_inputs(X)
        C = self.profile(cdist(A, A if Z is None else self.scaled_inputs(Z), "sqeuclidean"))[0]
        C *= self._values("variance")[0]
        return C

    def diag(self, X: Array) -> Array:
        return np.full(len(X), self._values("variance")[0])

    def vjp(self, X: Array) -> tuple[Array, Pullback]:
        A = self.scaled_inputs(X)
        variance = self._values("variance")[0]
        C, slope = self.profile(cdist(A, A, "sqeuclidean"))
        shared = slope is C  # the squared exponential's slope is itself: scaled already
        whole = len(self._values("length_scale")) == 1 and not shared
        if whole:
            slope *= cdist(A, A, "sqeuclidean")  # all that one length-scale needs, and no digits are lost in it
        elif not shared:
            np.fill_diagonal(slope, 0.0)  # no distance, and the exponential kernel's is large there
        C *= variance
        A = A - A.mean(axis=0)  # the contraction below cancels less about the centre

        def pullback(W: Array) -> Array:
            by_variance = np.vdot(W, C)
            if whole:
                return np.array([by_variance, variance * np.vdot(W, slope)])
            G = W * slope
            if not shared:
                G *= variance
            return np.concatenate([[by_variance], self._per_length_scale(_weighted_squares(G, A))])

        return C, pullback

    def batched_vjp(self, P: Array) -> tuple[Array, Pullback]:
        A = self.scaled_inputs(P)
        squares = (A[:, :, None, :] - A[:, None, :, :]) ** 2
        C, slope = self.profile(squares.sum(axis=-1))
        variance = self._values("variance")[0]
        slope = variance * slope
        C = variance * C

        def pullback(W: Array) -> Array:
            by_column = np.einsum("bij,bijd->d", W * slope, squares)
            return np.concatenate([[np.vdot(W, C)], self._per_length_scale(by_column)])

        return C, pullback

    def _per_length_scale(self, by_column: Array) -> Array:
        """Gradient in each log length-scale, from that in the columns of `scaled_inputs`."""
        return by_column if self.ard else np.array([by_column.sum()])

    def inverse_square_lengths(self, X: Array) -> Array:
        return self._to_columns(1.0 / np.square(self._values("length_scale")), X.shape[1])

    def _matern(self, order: int, width: int) -> StateSpace | None:
        """Its state-space form, if it sees one column."""
        if (column := self._only_column(width)) is None:
            return None
        return matern(order, self._values("variance")[0], self._values("length_scale")[0], column)

    def stretched(self, factor: float) -> Self:
        if "length_scale" in self.held:
            return self
        new = tuple(factor * v for v in self._values("length_scale"))
        return replace(self, length_scale=new if self.ard else new[0])


def _weighted_squares(G: Array, A: Array) -> Array:
    """Σᵢⱼ Gᵢⱼ (aᵢ − aⱼ)² for each column of A."""
    if np.abs(A).max(initial=0.0) > _FAR_APART:
        return np.array([(G * (a[:, None] - a) ** 2).sum() for a in A.T])
    # All columns from the one product GA.
    return np.asarray(2.0 * (G.sum(axis=1) @ A**2 - (A * (G @ A)).sum(axis=0)))


class SquaredExponential(Stationary):
    """exp(−D²/2): infinitely smooth.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import SquaredExponential
    >>> kernel = SquaredExponential(length_scale=(1.0, 2.0), variance=1.0, ard=True)
    >>> kernel(np.array([[0.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 2.0]])).round(3).tolist()
    [[0.607, 0.607]]
    """

    @staticmethod
    def profile(D2: Array) -> tuple[Array, Array]:
        D2 *= -0.5
        k = np.exp(D2, out=D2)
        return k, k


class Exponential(Stationary):
    """exp(−D): continuous, nowhere smooth; the paper's choice for sensors.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import Exponential
    >>> Exponential(length_scale=1.0, variance=1.0)(np.array([[0.0], [1.0]]))[0].round(3).tolist()
    [1.0, 0.368]
    """

    def state_space(self, width: int) -> StateSpace | None:
        return self._matern(0, width)

    @staticmethod
    def profile(D2: Array) -> tuple[Array, Array]:
        D = np.sqrt(D2, out=D2)
        k = np.negative(D)
        np.exp(k, out=k)
        np.maximum(D, SAME_POINT, out=D)
        return k, np.divide(k, D, out=D)


class Matern32(Stationary):
    """(1 + r) exp(−r), r = √3 D: once differentiable.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import Matern32
    >>> Matern32(length_scale=1.0, variance=1.0)(np.array([[0.0], [1.0]]))[0].round(3).tolist()
    [1.0, 0.483]
    """

    def state_space(self, width: int) -> StateSpace | None:
        return self._matern(1, width)

    @staticmethod
    def profile(D2: Array) -> tuple[Array, Array]:
        D2 *= 3.0
        r = np.sqrt(D2, out=D2)
        k = np.exp(-r)
        slope = 3.0 * k
        r += 1.0
        k *= r
        return k, slope


class Matern52(Stationary):
    """(1 + r + r²/3) exp(−r), r = √5 D: twice differentiable.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import Matern52
    >>> Matern52(length_scale=1.0, variance=1.0)(np.array([[0.0], [1.0]]))[0].round(3).tolist()
    [1.0, 0.524]
    """

    def state_space(self, width: int) -> StateSpace | None:
        return self._matern(2, width)

    @staticmethod
    def profile(D2: Array) -> tuple[Array, Array]:
        D2 *= 5.0
        r = np.sqrt(D2)
        slope = np.exp(-r)
        D2 /= 3.0
        r += 1.0
        D2 += r
        D2 *= slope
        slope *= r
        slope *= 5.0 / 3.0
        return D2, slope
