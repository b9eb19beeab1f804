"""Kernels between pairs of points in batches, and the coordinates in which a kernel measures nearness.

`Kernel` speaks of whole matrices. A nearest-neighbour approximation needs many small ones at once: `batch` gives them
for every kernel of the package in one array operation, and for foreign ones a matrix at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.inputs import column_scales
from biasgp.kernels import Constant, Kernel, Linear, Periodic, Product, Stationary, Sum

BatchPullback = Callable[[Array], Array]

LITTLE = 1e-2
"""What a standard deviation counts, squared, in a column of a linear kernel."""


@singledispatch
def batch(kernel: Kernel, P: Array) -> tuple[Array, BatchPullback]:
    """Covariances (B, n, n) within each of the B sets of points P (B, n, d); and W ↦ the gradient of ΣW∘C in theta."""
    parts = [kernel.vjp(points) for points in P]

    def pullback(W: Array) -> Array:
        return np.asarray(sum(pull(weights) for (_, pull), weights in zip(parts, W, strict=True)))

    return np.stack([C for C, _ in parts]), pullback


@batch.register
def _(kernel: Constant, P: Array) -> tuple[Array, BatchPullback]:
    C = np.full((*P.shape[:2], P.shape[1]), kernel._values("variance")[0])
    return C, lambda W: np.array([np.vdot(W, C)])


@batch.register
def _(kernel: Linear, P: Array) -> tuple[Array, BatchPullback]:
    A, variance = _features(kernel, P), np.array(kernel._values("variance"))

    def pullback(W: Array) -> Array:
        each = np.einsum("bij,bid,bjd->d", W, A, A)
        return np.asarray(variance * (each if kernel.ard else each.sum()))

    return np.asarray((A * variance) @ A.transpose(0, 2, 1)), pullback


@batch.register
def _(kernel: Stationary, P: Array) -> tuple[Array, BatchPullback]:
    A = _scaled_features(kernel, P)
    squares = (A[:, :, None, :] - A[:, None, :, :]) ** 2
    C, slope = kernel._profile(squares.sum(axis=-1))
    variance = kernel._values("variance")[0]
    slope = variance * slope
    C = variance * C

    def pullback(W: Array) -> Array:
        each = np.einsum("bij,bijd->d", W * slope, squares)
        if isinstance(kernel, Periodic):
            each = each.reshape(2, -1).sum(axis=0)
            return np.concatenate([[np.vdot(W, C)], each if kernel.ard else [each.sum()], [_turn(kernel, P, W * C)]])
        return np.concatenate([[np.vdot(W, C)], each if kernel.ard else [each.sum()]])

    return C, pullback


def _turn(kernel: Periodic, P: Array, G: Array) -> float:
    """Gradient in log period: ∂D²/∂log period = −2 (a − b)(sin a cos b − cos a sin b)/ℓ², a and b the two angles."""
    angle = 2.0 * np.pi / kernel._values("period")[0] * _columns(kernel, P)
    gap = angle[:, :, None, :] - angle[:, None, :, :]
    return float(np.einsum("bij,bijd->", G, gap * np.sin(gap) / np.square(kernel._values("length_scale"))))


@batch.register
def _(kernel: Sum, P: Array) -> tuple[Array, BatchPullback]:
    (A, pull_a), (B, pull_b) = batch(kernel.left, P), batch(kernel.right, P)
    return A + B, lambda W: np.concatenate([pull_a(W), pull_b(W)])


@batch.register
def _(kernel: Product, P: Array) -> tuple[Array, BatchPullback]:
    (A, pull_a), (B, pull_b) = batch(kernel.left, P), batch(kernel.right, P)
    return A * B, lambda W: np.concatenate([pull_a(W * B), pull_b(W * A)])


def _flat(function: Callable[[Array], Array], P: Array) -> Array:
    return function(P.reshape(-1, P.shape[-1])).reshape(*P.shape[:2], -1)


def _columns(kernel: Stationary | Linear, P: Array) -> Array:
    return _flat(kernel._columns_of, P)


def _features(kernel: Linear, P: Array) -> Array:
    return _flat(kernel._features, P)


def _scaled_features(kernel: Stationary, P: Array) -> Array:
    return _flat(kernel._scaled_features, P)


@dataclass(frozen=True)
class Nearness:
    """How near two points are to a kernel: the Euclidean distance of their `coordinates`.

    Exact for a stationary kernel. In sums and products the shortest length-scale of a column counts most; a column that
    only a kernel without length-scales sees counts in its own standard deviations, and little.
    """

    columns: NDArray[np.intp]
    center: Array
    factors: Array
    circles: tuple[Periodic, ...] = ()

    @classmethod
    def of(cls, kernel: Kernel, X: Array) -> Nearness:
        """The kernel's own, for points like those in X."""
        inverse, circles = np.zeros(X.shape[1]), list[Periodic]()
        _collect(kernel, X, inverse, circles)
        moving = np.ptp(X, axis=0) > 0.0
        if not (inverse[moving].any() or circles):
            inverse = 1.0 / column_scales(X) ** 2
        columns = np.flatnonzero((inverse > 0.0) & moving)
        return cls(columns, X[:, columns].mean(axis=0), np.sqrt(inverse[columns]), tuple(circles))

    def coordinates(self, X: Array) -> Array:
        """Of the rows of X; one that is 0 everywhere where no input varies."""
        circles = [kernel._scaled_features(X) for kernel in self.circles]
        parts = [(X[:, self.columns] - self.center) * self.factors, *circles]
        joined = np.hstack(parts)
        return joined if joined.shape[1] else np.zeros((len(X), 1))

    def differs_from(self, other: Nearness, factor: float) -> bool:
        """Whether one column has come to count more, relative to the others, than it did by this factor."""
        if self.circles or len(self.factors) < 2 or len(self.factors) != len(other.factors):
            return bool(self.circles)
        moved = np.log(self.factors / other.factors)
        return bool(np.ptp(moved) > np.log(factor))


def _collect(kernel: Kernel, X: Array, inverse: Array, circles: list[Periodic]) -> None:
    """Add each part's inverse squared length-scales, a column at a time, and the periodic parts."""
    if isinstance(kernel, Sum | Product):
        _collect(kernel.left, X, inverse, circles)
        _collect(kernel.right, X, inverse, circles)
    elif isinstance(kernel, Periodic):
        circles.append(kernel)
    elif isinstance(kernel, Stationary | Linear):
        columns = np.arange(X.shape[1]) if kernel.columns is None else np.array(kernel.columns, dtype=np.intp)
        if isinstance(kernel, Stationary):
            inverse[columns] += 1.0 / np.square(kernel._values("length_scale"))
        else:
            inverse[columns] += LITTLE / column_scales(X[:, columns]) ** 2
