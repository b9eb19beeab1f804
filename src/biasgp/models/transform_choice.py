"""Which transform of the response: by leave-one-out predictive density, with the Jacobian."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.inputs import neighbouring_rows, stretches_of_rows
from biasgp.kernels import Kernel
from biasgp.models import sparse
from biasgp.models.problem import Problem
from biasgp.models.varying_noise import CONSTANT
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
    candidates: list[Transform] = [Identity(), Log.of(y), YeoJohnson.of(y)]
    X, y = X[measured], y[measured]
    size = min(len(y), MAX_ROWS)
    rows = stretches_of_rows(X, y, size)
    rows = neighbouring_rows(X, y, size) if rows is None else rows
    scores = [_score(X[rows], y[rows], kernel, names, transform) for transform in candidates]
    scores[0] += MIN_GAIN
    return candidates[int(np.argmax(scores))]


def _score(X: Array, y: Array, kernel: Kernel, names: Sequence[str] | None, transform: Transform) -> float:
    """Mean log density of each reading given the others, in y's units, less the price of the flags."""
    response = ScaledResponse(y, Scaling.of(y, transform))
    fit = rough_fit(X, response, kernel, names)
    flagged = float(np.mean(fit.labels > 0))
    return (fit.leave_one_out + response.log_jacobian) / len(y) - PRICE_OF_FLAGS * flagged


def rough_fit(X: Array, response: ScaledResponse, kernel: Kernel, names: Sequence[str] | None) -> sparse.SparseBiasFit:
    """The sparse bias model, good enough to compare kernels and transforms by."""
    bound = kernel.bind(X, names, response.scaling.scale**2)
    problem = Problem(X, response.z, bound, np.zeros(len(response.y)))
    return sparse.fit(
        problem, MAX_ITERATIONS, np.random.default_rng(0), recipe=sparse.Recipe(second_look=None, noise_model=CONSTANT)
    )
