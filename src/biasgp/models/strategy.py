"""How every model searches for its covariance parameters: starts and bounds from the data, few readings first.

Exactly, on half of the readings and then on all. With nearest neighbours, exactly on a few hundred, then with a sample
of the terms of the density, then with all of them. In order of time, on a few hundred, on stretches of the record, and
on all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array, Mask
from biasgp.covariance.blocks import MakePool, on_threads
from biasgp.covariance.dense_engine import DenseEngine
from biasgp.covariance.markov import MarkovEngine, MarkovPosterior, TimeSurroundings, is_markov
from biasgp.covariance.neighbours import Nearness
from biasgp.covariance.posterior import PartialPosterior
from biasgp.covariance.protocol import Engine, Posterior
from biasgp.covariance.threads import blas_threads_for
from biasgp.covariance.vecchia import Vecchia
from biasgp.covariance.vecchia_posterior import NeighbourSurroundings, VecchiaPosterior
from biasgp.inputs import representative_rows, stretches_of_rows
from biasgp.kernels import Kernel
from biasgp.models.problem import EVERYTHING, Problem, Rows
from biasgp.optimize import Objective, Report, go_on, multistart, resume
from biasgp.watch import ledger, out_of_time, stage, tell


@dataclass(frozen=True)
class _SearchStages:
    """How many readings a search goes through, and when it is exact. Counts are of readings unless said otherwise."""

    starts: tuple[tuple[float, float], ...] = ((1.0, 0.2), (0.35, 0.2), (2.5, 0.5))
    """Length-scales as a multiple of the kernel's own, and the noise's share of the variance."""
    few_from: int = 100  # with as many, a search begins on half of them,
    few: int = 200  # but no more than this many,
    few_per_parameter: int = 10
    """and no fewer than this many per parameter of the covariance: fewer do not show which inputs matter, and a search
    that begins with the wrong ones ends with them (benchmarks/shapes.py --only few)."""
    growth: int = 3  # an evaluation costs N³: the search goes on to all of them by way of a third, a ninth, ...
    patches: tuple[tuple[int, float], ...] = ((2, 1.0), (2, 0.5), (1, 0.0))
    """How many patches, and of what density: the readings thinned to (all readings)^power times (few)^(1 − power)."""
    patched: int = 400  # of the exact search that precedes nearest neighbours
    sampled_share: float = 0.1
    """Of the conditionals, at least SOME_TERMS, on which the search goes on: their sum is an unbiased estimate of the
    whole, and leaves a few steps to be done with all of them, however many there are."""
    stretches: int = 10  # of consecutive readings that make such a sample, where they are in order of time
    moved: float = 1.3  # factor of a length-scale, relative to the others, that calls for new neighbours
    max_refreshes: int = 3  # of the neighbours
    tolerances_for: int = 1000  # for which the optimiser's tolerances are meant: what data can tell grows as they do


POLICY = _SearchStages()
NOISE_RANGE = (1e-6, 1e2)
"""Noise variance, in units of the scaled response's variance. The floor keeps K well away from singular."""
EXACT_UP_TO = 1500
"""Readings up to which "auto" is exact: from there on a robust fit would take minutes (benchmarks/large.py --auto)."""
DENSE_UP_TO = 400
"""Readings up to which all of K is as quick as states, which are as exact (benchmarks/state_space.py --only auto)."""
SOME_TERMS = 8_000
"""Least number of conditionals in a sample of them."""
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
    return [np.append(kernel.stretched(stretch).theta, np.log(share)) for stretch, share in POLICY.starts]


def stages(problem: Problem) -> list[NDArray[np.intp]]:
    """Rows that a search goes through one after the other, each part within the next; the last are all of them.

    The first is a representative part, unless there are few readings. Of very many, where readings next to one another
    in some column are much alike, the parts are stretches of neighbours.
    """
    sizes, least = [len(problem)], POLICY.few_per_parameter * (len(problem.kernel.theta) + 1)
    few = max(POLICY.few, least)
    while sizes[-1] // POLICY.growth >= 2 * few:
        sizes.append(sizes[-1] // POLICY.growth)
    if len(problem) >= max(POLICY.few_from, 2 * least):
        sizes.append(min(few, len(problem) // 2))
    parts = [np.arange(len(problem))]
    for size in sizes[1:]:
        X, y = problem.X[parts[-1]], problem.y[parts[-1]]
        stretches = stretches_of_rows(X, y, size) if len(sizes) > 2 else None
        parts.append(parts[-1][representative_rows(X, y, size) if stretches is None else stretches])
    return parts[::-1]


def search(build: Build, problem: Problem, starts: Sequence[Array], bounds: Array, max_iter: int) -> Report:
    """Minimise the exact objective of all readings, from where searches on fewer end."""
    few, *more = stages(problem)
    with blas_threads_for(len(few)):
        report = multistart(build(DenseEngine(problem.X[few]), problem[few]), starts, bounds, max_iter)
    for rows in more:
        with blas_threads_for(len(rows)):
            objective = build(DenseEngine(problem.X[rows]), problem[rows])
            report = resume(objective, report, bounds, max_iter, len(rows) / len(few))
            if len(rows) < len(problem):
                report = _better_start(objective, report, starts, bounds, max_iter)
        few = rows
    return report


def _better_start(objective: Objective, found: Report, starts: Sequence[Array], bounds: Array, max_iter: int) -> Report:
    """What the usual starts lead to, if that is better: what few readings did not show, f may follow with more."""
    rival = multistart(objective, starts, bounds, 0)
    rival = replace(rival, n_evaluations=rival.n_evaluations + found.n_evaluations)
    if rival.value - rival.promise <= found.value:
        rival = go_on(objective, rival, bounds, max_iter)
    return rival if rival.value < found.value else replace(found, n_evaluations=rival.n_evaluations)


@dataclass(frozen=True)
class Found:
    """Where a search ended, and on how many readings."""

    report: Report
    n: int


class Strategy:
    """Which engine a fit ends with, and how it gets there: an exact search on few readings, then the engine on all.

    With `exact`, the engine is the exact one, all of K⁻¹ is at hand, and the first search is on all readings.
    """

    exact = False

    def first_rows(self, problem: Problem) -> Rows:
        """The readings that the exact search is on."""
        return EVERYTHING if self.exact else _patches(problem.kernel, problem.X)

    def engine(self, kernel: Kernel, X: Array) -> Engine:
        """The engine for all readings, near these parameters."""
        raise NotImplementedError

    def complete(
        self, build: Build, problem: Problem, found: Found, bounds: Array, max_iter: int, *, sample: bool = True
    ) -> tuple[Engine, Report]:
        """Go on to all readings from where a search on few ended; with `sample`, by way of a sample of the terms."""
        engine = self.engine(problem.kernel.with_theta(found.report.x[: len(problem.kernel.theta)]), problem.X)
        if self.exact:
            return engine, found.report
        n, objective = len(problem), build(engine, problem)
        return engine, _resume_per_reading(objective, _grown(found.report, n / found.n), bounds, max_iter, n, n)

    def with_sample_of_terms(
        self, build: Build, problem: Problem, found: Found, bounds: Array, max_iter: int
    ) -> Report:
        """Where the search leads with some of the terms of the density, or with all where that is quick."""
        return self.complete(build, problem, found, bounds, max_iter)[1]

    def posterior(self, kernel: Kernel, problem: Problem, noise: Array, kept: Mask) -> Posterior:
        """f given the readings that are kept, with these variances of their noise."""
        K = self.engine(kernel, problem.X[kept]).covariance(kernel, noise[kept])
        return PartialPosterior(K.posterior(problem.y[kept]), kept)

    def surroundings(self, kernel: Kernel, X: Array, before: Surroundings | None = None) -> Surroundings:
        """Predictions without each reading near these parameters; what was made before serves as long as it can."""
        return before or _EngineSurroundings(self, kernel, X)


@dataclass(frozen=True)
class OneEngine(Strategy):
    """A strategy for any engine."""

    make_engine: Callable[[Kernel, Array], Engine]
    exact: bool = False

    def engine(self, kernel: Kernel, X: Array) -> Engine:
        return self.make_engine(kernel, X)


EXACT = OneEngine(lambda kernel, X: DenseEngine(X), exact=True)


class _EngineSurroundings:
    """Predictions of each reading without itself, from what every engine has."""

    def __init__(self, strategy: Strategy, kernel: Kernel, X: Array) -> None:
        self.strategy, self.X = strategy, X
        self.nearest = Nearness.of(kernel, X).nearest_others(1)[:, 0]
        """Of each reading, the nearest other."""

    def leave_one_out(self, kernel: Kernel, y: Array, noise: Array, usable: Mask) -> tuple[Array, Array]:
        """Mean and variance of f at each reading given the usable others."""
        mean, variance = np.empty(len(y)), np.empty(len(y))
        K = self.strategy.engine(kernel, self.X[usable]).covariance(kernel, noise[usable])
        spread = 1.0 / K.inverse_diagonal()  # variance of each reading given the others
        mean[usable] = y[usable] - K.solve(y[usable]) * spread
        variance[usable] = np.maximum(spread - noise[usable], 0.0)
        if not usable.all():
            mean[~usable], variance[~usable] = K.posterior(y[usable]).mean_and_variance(self.X[~usable])
        return mean, variance


Surroundings = _EngineSurroundings | NeighbourSurroundings | TimeSurroundings
"""Predictions of each reading without itself."""


@dataclass(frozen=True)
class NearestNeighbours(Strategy):
    """Each reading beside so many neighbours; `make_pool` says where the blocks of readings live."""

    neighbours: int = 20
    make_pool: MakePool = on_threads

    def engine(self, kernel: Kernel, X: Array) -> Engine:
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
        share = min(1.0, max(POLICY.sampled_share, SOME_TERMS / len(problem)))
        return self._with_fresh_neighbours(build, problem, found, bounds, max_iter, share)[1]

    def _with_fresh_neighbours(
        self, build: Build, problem: Problem, found: Found, bounds: Array, max_iter: int, share: float
    ) -> tuple[Engine, Report]:
        """Search, and again with new neighbours if the length-scales have moved so far that they are others."""
        make_pool = self.make_pool if share == 1.0 else on_threads  # a sample is not worth sending anywhere
        kernel, X, n = problem.kernel, problem.X, len(problem)
        report, p = _grown(found.report, n / found.n), len(kernel.theta)
        for _ in range(POLICY.max_refreshes):
            stage("all readings" if share == 1.0 else "a sample of the readings")
            tell(f"neighbours of {share:.0%} of {n} readings")
            # A sample is usually followed by as many evaluations with all readings.
            ledger().expect(TERMS, EVALUATIONS * n * (1.0 if share == 1.0 else 1.0 + share))
            vecchia = Vecchia(kernel.with_theta(report.x[:p]), X, self.neighbours, share=share, make_pool=make_pool)
            report = _resume_per_reading(build(vecchia, problem), report, bounds, max_iter, n, share * n)
            now = Nearness.of(kernel.with_theta(report.x[:p]), X)
            if out_of_time() or not now.differs_from(vecchia.nearness, POLICY.moved):
                break
        if share == 1.0:
            ledger().expect(TERMS, 0.0)
        return vecchia, report

    def posterior(self, kernel: Kernel, problem: Problem, noise: Array, kept: Mask) -> Posterior:
        found = VecchiaPosterior.of(kernel, problem.X[kept], noise[kept], problem.y[kept], self.neighbours)
        return replace(found, kept=kept)

    def surroundings(self, kernel: Kernel, X: Array, before: Surroundings | None = None) -> Surroundings:
        if not isinstance(before, NeighbourSurroundings) or Nearness.of(kernel, X).differs_from(
            before.nearness, POLICY.moved
        ):
            return NeighbourSurroundings(kernel, X, self.neighbours, make_pool=self.make_pool)
        return before


class InOrderOfTime(Strategy):
    """Exact at any number of readings, for kernels of time that have a state-space form."""

    def engine(self, kernel: Kernel, X: Array) -> MarkovEngine:
        return MarkovEngine(kernel, X)

    def complete(
        self, build: Build, problem: Problem, found: Found, bounds: Array, max_iter: int, *, sample: bool = True
    ) -> tuple[Engine, Report]:
        if sample and max(found.n, SOME_TERMS) < 0.5 * len(problem):
            found = Found(self.with_sample_of_terms(build, problem, found, bounds, max_iter), len(problem))
        stage("all readings")
        ledger().expect(TERMS, EVALUATIONS * len(problem))
        completed = super().complete(build, problem, found, bounds, max_iter)
        ledger().expect(TERMS, 0.0)
        return completed

    def with_sample_of_terms(
        self, build: Build, problem: Problem, found: Found, bounds: Array, max_iter: int
    ) -> Report:
        stage("a sample of the readings")
        size = max(round(POLICY.sampled_share * len(problem)), SOME_TERMS)
        if size >= len(problem):
            return super().complete(build, problem, found, bounds, max_iter)[1]
        order = np.arange(len(problem))[self.engine(problem.kernel, problem.X).timeline.order]
        starts = np.linspace(0, len(problem) - size // POLICY.stretches, POLICY.stretches).astype(int)
        part = problem[np.concatenate([order[start : start + size // POLICY.stretches] for start in starts])]
        report = super().complete(build, part, found, bounds, max_iter)[1]
        return _grown(report, len(problem) / len(part))

    def posterior(self, kernel: Kernel, problem: Problem, noise: Array, kept: Mask) -> Posterior:
        return MarkovPosterior(kernel, problem.X[kept], problem.y[kept], noise[kept], kept)

    def surroundings(self, kernel: Kernel, X: Array, before: Surroundings | None = None) -> Surroundings:
        return before or TimeSurroundings(kernel, X)


@dataclass(frozen=True)
class Case:
    """What "auto" chooses by; `inverse_up_to`: as many readings as a model has a use of all of K⁻¹ for."""

    kernel: Kernel
    X: Array
    inverse_up_to: int

    @property
    def is_markov(self) -> bool:
        """Whether time as time is exact."""
        return is_markov(self.kernel, self.X)

    @property
    def exact_up_to(self) -> int:
        """Readings up to which the dense engine is the best."""
        return self.inverse_up_to if self.is_markov else EXACT_UP_TO


@dataclass(frozen=True)
class Approximation:
    """A value of `approximation=`: what it makes of the number of neighbours and a pool, and what "auto" has it for."""

    name: str
    make: Callable[[int, MakePool], Strategy]
    suits: Callable[[Case], bool]


APPROXIMATIONS = [
    Approximation("exact", lambda neighbours, make_pool: EXACT, lambda case: len(case.X) <= case.exact_up_to),
    Approximation("state-space", lambda neighbours, make_pool: InOrderOfTime(), lambda case: case.is_markov),
    Approximation("vecchia", NearestNeighbours, lambda case: True),
]
"""In the order in which "auto" looks for the first that suits. A new engine is a line here."""


def choose_strategy(name: str, case: Case, neighbours: int, make_pool: MakePool) -> Strategy:
    """The strategy of a value of `approximation=`."""
    chosen = next(each for each in APPROXIMATIONS if each.name == name or (name == "auto" and each.suits(case)))
    return chosen.make(neighbours, make_pool)


def _patches(kernel: Kernel, X: Array, size: int = POLICY.patched) -> NDArray[np.intp]:
    """Few rows that show f at every scale: patches of near readings, patches of thinned ones, and some from all over.

    Which rows it is does not depend on their order.
    """
    n = len(X)
    if n <= size:
        return np.arange(n)
    nearness = Nearness.of(kernel, X)
    coordinates = nearness.coordinates(X)
    shuffled = np.lexsort(coordinates.T[::-1])[np.random.default_rng(0).permutation(n)]
    each = size // sum(count for count, _ in POLICY.patches)
    chosen = []
    for count, power in POLICY.patches:
        thinned = shuffled[: max(each, round(n**power * each ** (1.0 - power)))]
        near = replace(nearness, X=X[thinned]).nearest(X[shuffled[-count:]], each)
        chosen.append(thinned[near.ravel()])
    return np.unique(np.concatenate(chosen))


def _resume_per_reading(
    objective: Objective, found: Report, bounds: Array, max_iter: int, n: int, n_terms: float
) -> Report:
    """`resume`, with tolerances per reading; each evaluation is reported as work on so many terms."""
    unit = max(1.0, n / POLICY.tolerances_for)

    def scaled(x: Array) -> tuple[float, Array]:
        value, gradient = objective(x)
        ledger().did(TERMS, n_terms)
        return value / unit, gradient / unit

    report = resume(scaled, _grown(found, 1.0 / unit), bounds, max_iter)
    return _grown(replace(report, value=unit * report.value), unit)


def _grown(found: Report, growth: float) -> Report:
    """The report with its curvature scaled to `growth` times as many readings."""
    return found if found.curvature is None else replace(found, curvature=growth * found.curvature)
