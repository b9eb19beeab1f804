"""Which transform of the response: by leave-one-out predictive density, with the Jacobian."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array, Mask
from biasgp.inputs import neighbouring_rows, serial_order, stretches_of_rows
from biasgp.kernels import Kernel
from biasgp.models import sparse
from biasgp.models.problem import Problem
from biasgp.response import Identity, Log, ScaledResponse, Scaling, Transform, YeoJohnson, is_constant

RESPONSES = ("identity", "log", "yeo-johnson", "auto")
MIN_ROWS, MAX_ROWS = 20, 450
"""With fewer readings than the first there is no choice: the middle 90 % that the power is fitted to is then all of
them, and the mean log density of a reading is uncertain by more than ten times MIN_GAIN."""
MAX_ITERATIONS = 30
MIN_GAIN = 0.02
"""A transform must raise the mean log density of a reading by this much over none: it is harder to explain."""
PRICE_OF_FLAGS = 0.3
"""Of two transforms that predict about as well, the better one takes fewer readings for outliers: so much, in mean log
density, for all of them."""


def choose_transform(
    response: str, X: Array, y: Array, kernel: Kernel, names: Sequence[str] | None, measured: Mask | None = None
) -> Transform:
    """The chosen transform, fitted to y; "auto" takes the one under which the others predict a reading best, and
    none where there are too few readings to tell.

    The judge is the sparse bias model, whose density of a reading admits outliers: a skewed noise and a share of
    one-sided outliers look alike to any that does not. It judges by readings that were measured.
    """
    measured = np.ones(len(y), dtype=bool) if measured is None else measured
    if response == "identity" or is_constant(y) or (response == "auto" and measured.sum() < MIN_ROWS):
        return Identity()
    if response == "log":
        return Log.of(y)
    if response == "yeo-johnson":
        return YeoJohnson.of(y)
    X, y = X[measured], y[measured]
    rows = judged_rows(X, y)
    verdicts = [judge(X[rows], y[rows], kernel, names, transform) for transform in candidates(y)]
    return chosen(verdicts).transform


@dataclass(frozen=True)
class Verdict:
    """How well the others predict each reading under a transform: log densities in y's units; and the share flagged."""

    transform: Transform
    log_density: Array
    flagged: float

    @property
    def score(self) -> float:
        """Mean log density of a reading, less the price of the flags."""
        return float(np.mean(self.log_density)) - PRICE_OF_FLAGS * self.flagged


def candidates(y: Array) -> list[Transform]:
    """The transforms between which there is a choice, the simplest first."""
    return [Identity(), Log.of(y), YeoJohnson.of(y)]


def judged_rows(X: Array, y: Array, seed: int = 0) -> NDArray[np.intp]:
    """The readings that transforms are judged by, stretches of neighbours or pairs of them, in their order."""
    size = min(len(y), MAX_ROWS)
    rows = stretches_of_rows(X, y, size, seed)
    rows = neighbouring_rows(X, y, size) if rows is None else rows
    return rows[serial_order(X[rows], y[rows])[0]]


def judge(X: Array, y: Array, kernel: Kernel, names: Sequence[str] | None, transform: Transform) -> Verdict:
    """What a rough fit under a transform says of the readings."""
    response = ScaledResponse(y, Scaling.of(y, transform))
    fit = rough_fit(X, response, kernel, names)
    return Verdict(transform, fit.log_density + response.scaling.log_slope(y), float(np.mean(fit.labels > 0)))


def chosen(verdicts: Sequence[Verdict]) -> Verdict:
    """The one with the highest score, where that is clearly above that of the simplest, which is the first."""
    best = max(verdicts, key=lambda each: each.score)
    return best if best.score > verdicts[0].score + MIN_GAIN else verdicts[0]


def rough_fit(X: Array, response: ScaledResponse, kernel: Kernel, names: Sequence[str] | None) -> sparse.RoughFit:
    """The sparse bias model, good enough to compare kernels and transforms by."""
    bound = kernel.bind(X, names, response.scaling.scale**2)
    problem = Problem(X, response.z, bound, np.zeros(len(response.y)))
    return sparse.rough_fit(problem, MAX_ITERATIONS, sparse.Recipe(second_look=None))
