"""The coordinates in which a kernel measures nearness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.inputs import column_scales
from biasgp.kernels import Kernel


@dataclass(frozen=True)
class Nearness:
    """How near two points are to a kernel: the Euclidean distance of their `coordinates`.

    Exact for a stationary kernel. In sums and products the shortest length-scale of a column counts most; a column that
    only a kernel without length-scales sees counts in its own standard deviations, and little.
    """

    columns: NDArray[np.intp]
    center: Array
    factors: Array
    kernel: Kernel
    embedded: bool
    """Whether the kernel has coordinates beside the columns; those move with its parameters."""

    @classmethod
    def of(cls, kernel: Kernel, X: Array) -> Nearness:
        """The kernel's own, for points like those in X."""
        inverse = kernel.inverse_square_lengths(X)
        varies, embedded = np.ptp(X, axis=0) > 0.0, kernel.embedding(X[:1]).size > 0
        if not (inverse[varies].any() or embedded):
            inverse = 1.0 / column_scales(X) ** 2
        columns = np.flatnonzero((inverse > 0.0) & varies)
        return cls(columns, X[:, columns].mean(axis=0), np.sqrt(inverse[columns]), kernel, embedded)

    def coordinates(self, X: Array) -> Array:
        """Of the rows of X; one that is 0 everywhere where no input varies."""
        joined = np.hstack([(X[:, self.columns] - self.center) * self.factors, self.kernel.embedding(X)])
        return joined if joined.shape[1] else np.zeros((len(X), 1))

    def differs_from(self, other: Nearness, factor: float) -> bool:
        """Whether one column has come to count more, relative to the others, than it did by this factor."""
        if self.embedded or len(self.factors) < 2 or len(self.factors) != len(other.factors):
            return self.embedded
        return bool(np.ptp(np.log(self.factors / other.factors)) > np.log(factor))
