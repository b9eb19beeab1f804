"""How parameters are found where there are many readings: exactly on few, then on some conditionals, then on all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.covariance.blocks import MakePool, Threads
from biasgp.covariance.kriging import tree_of
from biasgp.covariance.neighbours import nearest
from biasgp.covariance.paired import Nearness
from biasgp.covariance.vecchia import Vecchia
from biasgp.kernels import Kernel
from biasgp.optimize import Objective, Report, out_of_time, resume, tell

FEW_READINGS = 400
"""Readings on which the exact model begins."""
PATCHES = ((2, 1.0), (2, 0.5), (1, 0.0))
"""How many patches, and of what density: the readings thinned to (all readings)^power times (few)^(1 − power)."""
SOME_TERMS, SOME_SHARE = 8_000, 0.1
"""Conditionals on which the search goes on, at least so many and this share: their sum is an unbiased estimate of the
whole, and what it leaves to be done with all of them are a few steps, however many there are."""
MOVED = 1.3
"""Neighbours are looked for anew when a length-scale has moved, relative to the others, by this factor."""
MAX_REFRESHES = 3
TOLERANCES_FOR = 1000


@dataclass(frozen=True)
class Scheme:
    """How many neighbours, and where the blocks live."""

    neighbours: int = 20
    make_pool: MakePool = Threads


def patches(kernel: Kernel, X: Array, size: int = FEW_READINGS) -> NDArray[np.intp]:
    """Few rows that show f at every scale: patches of near readings, patches of thinned ones, and some from all over.

    Which rows it is does not depend on their order.
    """
    n = len(X)
    if n <= size:
        return np.arange(n)
    nearness = Nearness.of(kernel, X)
    coordinates = nearness.coordinates(X)
    shuffled = np.lexsort(coordinates.T[::-1])[np.random.default_rng(0).permutation(n)]
    each = size // sum(count for count, _ in PATCHES)
    chosen = []
    for count, power in PATCHES:
        thinned = shuffled[: max(each, round(n**power * each ** (1.0 - power)))]
        tree = tree_of(nearness, X[thinned])
        near = nearest(tree, coordinates[shuffled[-count:]], each)
        chosen.append(thinned[near.ravel()])
    return np.unique(np.concatenate(chosen))


Build = Callable[[Vecchia], Objective]


def sample_of_terms(
    build: Build, kernel: Kernel, X: Array, found: Report, n_before: int, bounds: Array, max_iter: int, scheme: Scheme
) -> tuple[Vecchia, Report]:
    """From where a search on n_before readings ended, with some of the conditionals."""
    share = min(1.0, max(SOME_SHARE, SOME_TERMS / len(X)))
    return _with_fresh_neighbours(build, kernel, X, grown(found, len(X) / n_before), bounds, max_iter, scheme, share)


def climb(
    build: Build, kernel: Kernel, X: Array, found: Report, n_before: int, bounds: Array, max_iter: int, scheme: Scheme
) -> tuple[Vecchia, Report]:
    """From where a search on n_before readings ended: some of the conditionals first if it had few, then all."""
    if max(n_before, SOME_TERMS) < 0.5 * len(X):
        found = sample_of_terms(build, kernel, X, found, n_before, bounds, max_iter, scheme)[1]
        n_before = len(X)
    return with_all_terms(build, kernel, X, found, n_before, bounds, max_iter, scheme)


def with_all_terms(
    build: Build, kernel: Kernel, X: Array, found: Report, n_before: int, bounds: Array, max_iter: int, scheme: Scheme
) -> tuple[Vecchia, Report]:
    """From where a search on n_before readings ended, with all conditionals."""
    return _with_fresh_neighbours(build, kernel, X, grown(found, len(X) / n_before), bounds, max_iter, scheme, 1.0)


def _with_fresh_neighbours(
    build: Build, kernel: Kernel, X: Array, found: Report, bounds: Array, max_iter: int, scheme: Scheme, share: float
) -> tuple[Vecchia, Report]:
    """Search, and again with new neighbours if the length-scales have moved so far that they are others."""
    make_pool = scheme.make_pool if share == 1.0 else Threads  # a sample is not worth sending anywhere
    p = len(kernel.theta)
    for _ in range(MAX_REFRESHES):
        tell(f"neighbours of {share:.0%} of {len(X)} readings")
        vecchia = Vecchia(kernel.with_theta(found.x[:p]), X, scheme.neighbours, share=share, make_pool=make_pool)
        found = _resume_per_reading(build(vecchia), found, bounds, max_iter, len(X))
        now = Nearness.of(kernel.with_theta(found.x[:p]), X)
        if out_of_time() or not now.differs_from(vecchia.nearness, MOVED):
            break
    return vecchia, found


def _resume_per_reading(objective: Objective, found: Report, bounds: Array, max_iter: int, n: int) -> Report:
    """`resume`, with tolerances that are those of a thousand readings: what data can tell grows as they do."""
    unit = max(1.0, n / TOLERANCES_FOR)

    def scaled(x: Array) -> tuple[float, Array]:
        value, gradient = objective(x)
        return value / unit, gradient / unit

    report = resume(scaled, grown(found, 1.0 / unit), bounds, max_iter)
    return grown(replace(report, value=unit * report.value), unit)


def grown(found: Report, growth: float) -> Report:
    """The report of a search with `growth` times as many readings, as far as its curvature can tell."""
    return found if found.curvature is None else replace(found, curvature=growth * found.curvature)
