"""How every model looks for its covariance parameters: starts and bounds from the data, few readings first.

Exactly, on half of the readings and then on all. With nearest neighbours, exactly on a few hundred, then with a sample
of the terms of the density, then with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array, Mask
from biasgp.covariance.blocks import MakePool, on_threads
from biasgp.covariance.dense_engine import DenseEngine
from biasgp.covariance.neighbours import Nearness
from biasgp.covariance.posterior import PartialPosterior
from biasgp.covariance.protocol import Engine, Posterior, leave_one_out
from biasgp.covariance.threads import blas_threads_for
from biasgp.covariance.vecchia import Vecchia
from biasgp.covariance.vecchia_posterior import NeighbourSurroundings, VecchiaPosterior
from biasgp.inputs import representative_rows
from biasgp.kernels import Kernel
from biasgp.models.problem import EVERYTHING, Problem, Rows
from biasgp.optimize import Objective, Report, go_on, multistart, resume
from biasgp.watch import did, expect, out_of_time, stage, tell

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
EXACT_UP_TO = 1500
"""Readings up to which "auto" is exact: from there on a robust fit would take minutes (benchmarks/large.py --auto)."""
FEW_READINGS = 400
"""Readings on which the exact model begins where nearest neighbours go on."""
PATCHES = ((2, 1.0), (2, 0.5), (1, 0.0))
"""How many patches, and of what density: the readings thinned to (all readings)^power times (few)^(1 − power)."""
SOME_TERMS, SOME_SHARE = 8_000, 0.1
"""Conditionals on which the search goes on, at least so many and this share: their sum is an unbiased estimate of the
whole, and what it leaves to be done with all of them are a few steps, however many there are."""
MOVED = 1.3
"""Neighbours are looked for anew when a length-scale has moved, relative to the others, by this factor."""
MAX_REFRESHES = 3
TOLERANCES_FOR = 1000
"""Readings for which the optimiser's tolerances are meant."""
TERMS, EVALUATIONS = "terms", 15
"""Kind of work (conditionals evaluated), and how often each is in a search from where one with fewer readings ended, as
a rule (benchmarks/command.py --long)."""

Build = Callable[[Engine, Problem], Objective]
"""A model's objective for some readings, with the algebra of an engine."""


def covariance_bounds(problem: Problem) -> Array:
    """Bounds of (θ, log σ²)."""
    variance = max(1.0, float(np.var(problem.y)))
    noise = np.log([[NOISE_RANGE[0], NOISE_RANGE[1] * variance]])
    return np.vstack([problem.kernel.bounds(problem.X, variance), noise])


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


def search(build: Build, problem: Problem, starts: Sequence[Array], bounds: Array, max_iter: int) -> Report:
    """Minimise the exact objective of all readings, from where searches on fewer end."""
    few, *more = stages(problem.X, problem.y)
    with blas_threads_for(len(few)):
        report = multistart(dense(build, problem[few]), starts, bounds, max_iter)
    for rows in more:
        with blas_threads_for(len(rows)):
            objective = dense(build, problem[rows])
            report = resume(objective, report, bounds, max_iter, len(rows) / len(few))
            if len(rows) < len(problem):
                report = better_start(objective, report, starts, bounds, max_iter)
        few = rows
    return report


def dense(build: Build, problem: Problem) -> Objective:
    """The exact objective."""
    return build(DenseEngine(problem.X), problem)


def better_start(objective: Objective, found: Report, starts: Sequence[Array], bounds: Array, max_iter: int) -> Report:
    """What the usual starts lead to, if that is better: what few readings did not show, f may follow with more."""
    rival = multistart(objective, starts, bounds, 0)
    rival = replace(rival, n_evaluations=rival.n_evaluations + found.n_evaluations)
    if rival.value - rival.promise <= found.value:
        rival = go_on(objective, rival, bounds, max_iter)
    return rival if rival.value < found.value else replace(found, n_evaluations=rival.n_evaluations)


class Surroundings(Protocol):
    """Predictions of each reading without itself."""

    @property
    def nearest(self) -> NDArray[np.integer]:
        """Of each reading, the nearest other."""

    def leave_one_out(self, kernel: Kernel, y: Array, noise: Array, usable: Mask) -> tuple[Array, Array]:
        """Mean and variance of f at each reading given the usable others."""


class Strategy(Protocol):
    """Which engine a fit ends with, and how it gets there from an exact search on some of the readings."""

    @property
    def exact(self) -> bool:
        """Whether all of K⁻¹ is at hand."""

    def first_rows(self, problem: Problem) -> Rows:
        """The readings that the exact search is on."""

    def engine(self, kernel: Kernel, X: Array) -> Engine:
        """The engine for all readings, near these parameters."""

    def complete(
        self, build: Build, problem: Problem, found: Found, bounds: Array, max_iter: int, *, sample: bool = True
    ) -> tuple[Engine, Report]:
        """Go on to all readings from where a search on few ended; with `sample`, by way of a sample of the terms."""

    def with_sample_of_terms(
        self, build: Build, problem: Problem, found: Found, bounds: Array, max_iter: int
    ) -> Report:
        """Where the search leads with some of the terms of the density, or with all where that is quick."""

    def posterior(self, kernel: Kernel, problem: Problem, noise: Array, kept: Mask) -> Posterior:
        """f given the readings that are kept, with these variances of their noise."""

    def surroundings(self, kernel: Kernel, X: Array, before: Surroundings | None = None) -> Surroundings:
        """Predictions without each reading near these parameters; what was made before serves as long as it can."""


@dataclass(frozen=True)
class Found:
    """Where a search ended, and on how many readings."""

    report: Report
    n: int


@dataclass(frozen=True)
class OneEngine:
    """An exact search on few readings, then one engine on all of them."""

    make_engine: Callable[[Kernel, Array], Engine]
    exact: bool = False

    def first_rows(self, problem: Problem) -> Rows:
        return EVERYTHING if self.exact else patches(problem.kernel, problem.X)

    def engine(self, kernel: Kernel, X: Array) -> Engine:
        return self.make_engine(kernel, X)

    def complete(
        self, build: Build, problem: Problem, found: Found, bounds: Array, max_iter: int, *, sample: bool = True
    ) -> tuple[Engine, Report]:
        engine = self.make_engine(problem.kernel.with_theta(found.report.x[: len(problem.kernel.theta)]), problem.X)
        if self.exact:  # the first search was on all readings
            return engine, found.report
        report = grown(found.report, len(problem) / found.n)
        return engine, _resume_per_reading(build(engine, problem), report, bounds, max_iter, len(problem))

    def with_sample_of_terms(
        self, build: Build, problem: Problem, found: Found, bounds: Array, max_iter: int
    ) -> Report:
        return self.complete(build, problem, found, bounds, max_iter)[1]

    def posterior(self, kernel: Kernel, problem: Problem, noise: Array, kept: Mask) -> Posterior:
        K = self.make_engine(kernel, problem.X[kept]).covariance(kernel, noise[kept])
        return PartialPosterior(K.posterior(problem.y[kept]), kept)

    def surroundings(self, kernel: Kernel, X: Array, before: Surroundings | None = None) -> Surroundings:
        return before or EngineSurroundings(self, kernel, X)


EXACT = OneEngine(lambda kernel, X: DenseEngine(X), exact=True)


class EngineSurroundings:
    """`Surroundings` from what every engine has."""

    def __init__(self, strategy: OneEngine, kernel: Kernel, X: Array) -> None:
        self.strategy, self.X = strategy, X
        self.nearest = Nearness.of(kernel, X).nearest_others(1)[:, 0]

    def leave_one_out(self, kernel: Kernel, y: Array, noise: Array, usable: Mask) -> tuple[Array, Array]:
        """Mean and variance of f at each reading given the usable others."""
        mean, variance = np.empty(len(y)), np.empty(len(y))
        K = self.strategy.engine(kernel, self.X[usable]).covariance(kernel, noise[usable])
        residual, spread = leave_one_out(K, y[usable])
        mean[usable], variance[usable] = y[usable] - residual, np.maximum(spread - noise[usable], 0.0)
        if not usable.all():
            mean[~usable], variance[~usable] = K.posterior(y[usable]).mean_and_variance(self.X[~usable])
        return mean, variance


@dataclass(frozen=True)
class NearestNeighbours:
    """Each reading beside so many neighbours; `make_pool` says where the blocks of readings live."""

    neighbours: int = 20
    make_pool: MakePool = on_threads
    exact = False

    def first_rows(self, problem: Problem) -> Rows:
        return patches(problem.kernel, problem.X)

    def engine(self, kernel: Kernel, X: Array) -> Vecchia:
        return Vecchia(kernel, X, self.neighbours, make_pool=self.make_pool)

    def complete(
        self, build: Build, problem: Problem, found: Found, bounds: Array, max_iter: int, *, sample: bool = True
    ) -> tuple[Engine, Report]:
        if sample and max(found.n, SOME_TERMS) < 0.5 * len(problem):
            report = self.with_sample_of_terms(build, problem, found, bounds, max_iter)
            found = Found(report, len(problem))
        return self._with_fresh_neighbours(build, problem, found, bounds, max_iter, 1.0)

    def with_sample_of_terms(
        self, build: Build, problem: Problem, found: Found, bounds: Array, max_iter: int
    ) -> Report:
        """Where the search leads with some of the conditional densities."""
        share = min(1.0, max(SOME_SHARE, SOME_TERMS / len(problem)))
        return self._with_fresh_neighbours(build, problem, found, bounds, max_iter, share)[1]

    def _with_fresh_neighbours(
        self, build: Build, problem: Problem, found: Found, bounds: Array, max_iter: int, share: float
    ) -> tuple[Engine, Report]:
        """Search, and again with new neighbours if the length-scales have moved so far that they are others."""
        make_pool = self.make_pool if share == 1.0 else on_threads  # a sample is not worth sending anywhere
        kernel, X, n = problem.kernel, problem.X, len(problem)
        report, p = grown(found.report, n / found.n), len(kernel.theta)
        for _ in range(MAX_REFRESHES):
            stage("all readings" if share == 1.0 else "a sample of the readings")
            tell(f"neighbours of {share:.0%} of {n} readings")
            # The rule for what comes after a sample: the same once more, with all.
            expect(TERMS, EVALUATIONS * n * (1.0 if share == 1.0 else 1.0 + share))
            vecchia = Vecchia(kernel.with_theta(report.x[:p]), X, self.neighbours, share=share, make_pool=make_pool)
            objective = _counted(build(vecchia, problem), share * n)
            report = _resume_per_reading(objective, report, bounds, max_iter, n)
            now = Nearness.of(kernel.with_theta(report.x[:p]), X)
            if out_of_time() or not now.differs_from(vecchia.nearness, MOVED):
                break
        if share == 1.0:
            expect(TERMS, 0.0)
        return vecchia, report

    def posterior(self, kernel: Kernel, problem: Problem, noise: Array, kept: Mask) -> Posterior:
        found = VecchiaPosterior.of(kernel, problem.X[kept], noise[kept], problem.y[kept], self.neighbours)
        return replace(found, kept=kept)

    def surroundings(self, kernel: Kernel, X: Array, before: Surroundings | None = None) -> Surroundings:
        if isinstance(before, NeighbourSurroundings) and not Nearness.of(kernel, X).differs_from(
            before.nearness, MOVED
        ):
            return before
        return NeighbourSurroundings(kernel, X, self.neighbours, make_pool=self.make_pool)


@dataclass(frozen=True)
class Approximation:
    """A value of `approximation=`: what it makes of the number of neighbours and a pool, and what "auto" has it for."""

    name: str
    make: Callable[[int, MakePool], Strategy]
    suits: Callable[[Kernel, Array], bool]


APPROXIMATIONS = [
    Approximation("exact", lambda neighbours, make_pool: EXACT, lambda kernel, X: len(X) <= EXACT_UP_TO),
    Approximation("vecchia", NearestNeighbours, lambda kernel, X: True),
]
"""In the order in which "auto" looks for the first that suits. A new engine is a line here."""


def approximation_names() -> list[str]:
    """The values that `approximation=` may have."""
    return ["auto", *(each.name for each in APPROXIMATIONS)]


def choose_strategy(name: str, kernel: Kernel, X: Array, neighbours: int, make_pool: MakePool) -> Strategy:
    """The strategy of a value of `approximation=`."""
    chosen = next(each for each in APPROXIMATIONS if each.name == name or (name == "auto" and each.suits(kernel, X)))
    return chosen.make(neighbours, make_pool)


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
        near = replace(nearness, X=X[thinned]).nearest(X[shuffled[-count:]], each)
        chosen.append(thinned[near.ravel()])
    return np.unique(np.concatenate(chosen))


def _counted(objective: Objective, n_terms: float) -> Objective:
    """The same, and who watches hears of each evaluation."""

    def evaluate(x: Array) -> tuple[float, Array]:
        found = objective(x)
        did(TERMS, n_terms)
        return found

    return evaluate


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
