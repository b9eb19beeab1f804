"""How every model looks for its covariance parameters: starts and bounds from the data, subset first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.covariance.threads import blas_threads_for
from biasgp.inputs import representative_rows
from biasgp.kernels import Kernel
from biasgp.optimize import Objective, Report, go_on, multistart, resume, screen

# Noise variance, in units of the scaled response's variance. The floor keeps K well away from singular.
NOISE_RANGE = (1e-6, 1e2)
SUBSET = 200
"""Starts are compared, and the search begun, on half of the points, but no more than this many."""
FEW = 100
"""From this many points on."""
STEP = 3
"""An evaluation costs N³: with many points the search goes on to all of them by way of a third, a ninth, ..."""
START_SHAPES = ((1.0, 0.2), (0.35, 0.2), (2.5, 0.5))
"""Each start: length-scales as a multiple of the kernel's own, and the noise's share of the variance."""

Rows = NDArray[np.intp] | slice
Build = Callable[[Rows], Objective]
EVERYTHING = slice(None)


def covariance_bounds(kernel: Kernel, X: Array, y: Array) -> Array:
    """Bounds of (θ, log σ²)."""
    variance = max(1.0, float(np.var(y)))
    return np.vstack([kernel.bounds(X, variance), np.log([[NOISE_RANGE[0], NOISE_RANGE[1] * variance]])])


def covariance_starts(kernel: Kernel) -> list[Array]:
    """Starts of (θ, log σ²)."""
    return [np.append(kernel.stretched(stretch).theta, np.log(share)) for stretch, share in START_SHAPES]


def few_rows(X: Array, y: Array) -> NDArray[np.intp]:
    """The rows that a search begins on: a representative part, or all where there are few."""
    return representative_rows(X, y, len(y) if len(y) < FEW else min(SUBSET, len(y) // 2))


def stages(X: Array, y: Array) -> list[NDArray[np.intp]]:
    """Rows that a search goes through one after the other, each part within the next; the last are all of them."""
    sizes = [len(y)]
    while sizes[-1] // STEP >= 2 * SUBSET:
        sizes.append(sizes[-1] // STEP)
    parts = [representative_rows(X, y, size) for size in reversed(sizes)]
    few = few_rows(X, y)
    return [few, *parts] if len(few) < len(y) else parts


def search(build: Build, X: Array, y: Array, starts: Sequence[Array], bounds: Array, max_iter: int) -> Report:
    """Minimise build(all rows), from where searches on fewer rows end."""
    few, *more = stages(X, y)
    with blas_threads_for(len(few)):
        report = multistart(build(few), starts, bounds, max_iter)
    for rows in more:
        with blas_threads_for(len(rows)):
            objective = build(rows)
            report = resume(objective, report, bounds, max_iter, len(rows) / len(few))
            if len(rows) < len(y):
                report = better_start(objective, report, starts, bounds, max_iter)
        few = rows
    return report


def better_start(objective: Objective, found: Report, starts: Sequence[Array], bounds: Array, max_iter: int) -> Report:
    """What the usual starts lead to, if that is better: what few readings did not show, f may follow with more."""
    rival = screen(objective, starts, bounds)
    rival = replace(rival, n_evaluations=rival.n_evaluations + found.n_evaluations)
    if rival.value - rival.promise <= found.value:
        rival = go_on(objective, rival, bounds, max_iter)
    return rival if rival.value < found.value else replace(found, n_evaluations=rival.n_evaluations)
