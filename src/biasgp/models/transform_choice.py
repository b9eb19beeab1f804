"""Which transforms of the response, and how much each counts: by leave-one-out predictive density, with the Jacobian.

Readings seldom settle the choice: densities of two transforms are often as near as those of other readings would move
them. How probable it is that a transform predicts all readings best is then what predictions are averaged by: its share
in Dirichlet-weighted resamples of stretches of readings (pseudo-BMA+, Yao, Vehtari, Simpson and Gelman 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from biasgp._typing import Array, Mask
from biasgp.inputs import STRETCH, neighbouring_rows, serial_order, stretches_of_rows
from biasgp.kernels import Kernel
from biasgp.models import sparse
from biasgp.models.problem import Problem
from biasgp.response import Identity, Log, ScaledResponse, Scaling, Transform, YeoJohnson, is_constant

RESPONSES = ("identity", "log", "yeo-johnson", "auto")
MIN_ROWS, MAX_ROWS = 20, 450
"""With fewer readings than the first there is no choice: the middle 90 % that the power is fitted to is then all of
them, and there are no two stretches of readings to compare."""
MAX_ITERATIONS = 30
PRICE_OF_A_TRANSFORM = float(np.log(10.0))
"""Nats by which a transform must be ahead to be as probable as none: it is harder to explain."""
LEAST_WEIGHT = 0.1
"""Of a transform that is averaged over. A smaller one moves a prediction by less than a tenth of the difference, and
costs a fit."""
RESAMPLES = 2000
"""Of the stretches of readings: weights are then right to .01."""
PRICE_OF_FLAGS = 0.3
"""Of two transforms that predict about as well, the better one takes fewer readings for outliers: so much, in mean log
density, for all of them."""


def choose_transform(
    response: str, X: Array, y: Array, kernel: Kernel, names: Sequence[str] | None, measured: Mask | None = None
) -> Transform:
    """The likeliest of `choose_transforms`."""
    return choose_transforms(response, X, y, kernel, names, measured)[0].transform


def choose_transforms(
    response: str, X: Array, y: Array, kernel: Kernel, names: Sequence[str] | None, measured: Mask | None = None
) -> tuple[Weighted, ...]:
    """The transforms, fitted to y, with the weights by which predictions under them are averaged, the likeliest first.

    With "auto", those under which the others may predict a reading best; none where there are too few readings to tell.
    The judge is the sparse bias model, whose density of a reading admits outliers: a skewed noise and a share of
    one-sided outliers look alike to any that does not. It judges by readings that were measured.
    """
    measured = np.ones(len(y), dtype=bool) if measured is None else measured
    if response == "identity" or is_constant(y) or (response == "auto" and measured.sum() < MIN_ROWS):
        return (Weighted(Identity()),)
    if response == "log":
        return (Weighted(Log.of(y)),)
    if response == "yeo-johnson":
        return (Weighted(YeoJohnson.of(y)),)
    X, y = X[measured], y[measured]
    rows = judged_rows(X, y)
    verdicts = [judge(X[rows], y[rows], kernel, names, transform) for transform in candidates(y)]
    return weighted(verdicts, len(y))


@dataclass(frozen=True)
class Weighted:
    """A transform, and how much it counts."""

    transform: Transform
    weight: float = 1.0


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


def weighted(verdicts: Sequence[Verdict], n: int) -> tuple[Weighted, ...]:
    """How probable each transform is to predict all n readings best, the likeliest first; the first verdict is that on
    none."""
    density = np.array([verdict.log_density - PRICE_OF_FLAGS * verdict.flagged for verdict in verdicts])
    parts = np.array_split(density, max(2, round(density.shape[1] / STRETCH)), axis=1)
    sums = np.array([part.sum(axis=1) for part in parts])
    shares = np.random.default_rng(0).dirichlet(np.ones(len(sums)), RESAMPLES) * len(sums)
    totals = shares @ sums * (n / density.shape[1])
    totals[:, 1:] -= PRICE_OF_A_TRANSFORM
    weights = softmax(totals, axis=1).mean(axis=0)
    weights[weights < min(LEAST_WEIGHT, weights.max())] = 0.0
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    return tuple(Weighted(verdicts[i].transform, float(weights[i])) for i in order if weights[i] > 0.0)


def rough_fit(X: Array, response: ScaledResponse, kernel: Kernel, names: Sequence[str] | None) -> sparse.RoughFit:
    """The sparse bias model, good enough to compare kernels and transforms by."""
    bound = kernel.bind(X, names, response.scaling.scale**2)
    problem = Problem(X, response.z, bound, np.zeros(len(response.y)))
    return sparse.rough_fit(problem, MAX_ITERATIONS, sparse.Recipe(second_look=None))
