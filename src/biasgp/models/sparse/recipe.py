"""The starts of a search in their order, and how it goes on from few readings to more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from biasgp.covariance.posterior import AveragedPosterior
from biasgp.models.sparse.average import LabelAverage, ParameterAverage
from biasgp.models.sparse.kinds import Labels
from biasgp.models.sparse.search import Candidate, Search, State
from biasgp.models.sparse.starts import (
    ConstantBias,
    ForgottenInputs,
    LongerLengths,
    NoOutlier,
    OtherLengths,
    PlainResiduals,
    Start,
)
from biasgp.models.sparse.ways_out import Annealed, LeastLikely, MoreNoise, OtherLevel, OtherSlabs, Pairs, Suspects
from biasgp.models.varying_noise import AUTO


@dataclass(frozen=True)
class FewReadings:
    """From the best state found on some of the readings, and from others that differ and are not far behind."""

    max_picks: int = 4
    different: float = 0.04  # share of the readings whose labels differ, for a state to be worth a search of its own

    def __call__(self, search: Search, few: Search, rows: NDArray[np.intp], gap: float) -> State:
        """The best state with all readings; states of the few that are further behind than the gap are left."""
        search.trace += few.trace
        picked: list[State] = []
        best: State | None = None
        for state in sorted(few.ended, key=lambda state: state.evidence, reverse=True):
            seen = not all(self.differ(state, other) for other in picked)
            behind = picked and state.evidence < picked[0].evidence - gap
            if seen or behind or len(picked) == self.max_picks:
                continue
            picked.append(state)
            best = search.improve("all readings", _carried_over(search, few, state, rows), best)
        assert best is not None
        return best

    def differ(self, one: State, other: State) -> bool:
        """Whether two states have other kinds of slab, or quite different outliers."""
        share = float(np.mean((one.labels > 0) != (other.labels > 0)))
        return one.slab.replaced != other.slab.replaced or share >= self.different


def _carried_over(search: Search, few: Search, state: State, rows: NDArray[np.intp]) -> Candidate:
    """The candidate for these readings from a state found on `rows` of them."""
    support, slab = few.support(state), state.slab
    means, _ = support.posterior_of_means()
    kernel = search.kernel.with_theta(state.x[:-1])
    posterior = AveragedPosterior(kernel, few.X, support.Qy - support.U @ means, support.Q)
    f, variance = posterior.mean_and_variance(search.X)
    noise = variance + np.exp(state.x[-1]) + search.known
    shares = np.bincount(state.labels, minlength=slab.n_groups + 1) + 1.0
    mean = f[:, None] + support.loadings @ means
    labels: Labels = slab.log_joint(search.y, mean, noise[:, None], shares / shares.sum()).argmax(axis=1)
    labels[rows] = state.labels
    curvature = None if state.curvature is None else len(search.y) / len(rows) * state.curvature
    return Candidate(state.x, slab.widened(search.y - f, noise, labels), labels, curvature)


@dataclass(frozen=True)
class Recipe:
    """Which starts are tried, in this order: on few readings, as readings are added, and with all of them.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from biasgp.models.sparse import Recipe
    >>> quick = replace(Recipe(), with_all=(), second_look=None)
    >>> len(quick.with_all) < len(Recipe().with_all)
    True
    """

    begin: ConstantBias = field(default_factory=ConstantBias)
    on_few: tuple[Start, ...] = (PlainResiduals(), OtherLengths(), ForgottenInputs(), LongerLengths(), NoOutlier())
    beam: int = 3
    """States that the starts on few readings go on from, where these are all and parameters may be averaged over."""
    few_from: int = 200
    """Readings from which on a search begins with some of them. Half of a hundred may show other outliers than all do,
    such as those at an end that are still there (5 % of outliers of all sizes: 19 times the oracle's error)."""
    add_readings: FewReadings = FewReadings()
    where_labels_moved: OtherLengths = field(default_factory=OtherLengths)
    with_all: tuple[Start, ...] = (
        OtherLevel(),
        MoreNoise(),
        OtherSlabs(),
        Suspects(),
        LeastLikely(),
        Pairs(),
        Annealed(),
    )
    second_look: tuple[float, float] | None = (3.0, 4.0)
    """Standard errors by which skewness and kurtosis of the residuals differ from a normal's where the search begins
    again with all readings. (A kernel that does not suit f moves the kurtosis as well.)"""
    average: LabelAverage = field(default_factory=LabelAverage)
    over_parameters: ParameterAverage = field(default_factory=ParameterAverage)
    noise_model: str = AUTO
    fence: float = 1e3  # robust standard deviations of y beyond which the size of a reading does not matter to the slab

    def first(self, search: Search, beam: int) -> State:
        """The best state by the starts on few readings.

        Each goes on from the best so far, which need not be on the way to the best of all: up to so many states that
        the first starts led to are gone on from, and at least those that the search is said to begin at.
        """
        begun, found = self.begin(search), list[State]()
        for state in sorted(search.ended, key=lambda state: state.evidence, reverse=True):
            if len(begun) < beam and all(self.add_readings.differ(state, known) for known in begun):
                begun.append(state)
        for state in begun:
            for start in self.on_few:
                state = start(search, state)
            found.append(state)
        return max(found, key=lambda state: state.evidence)

    def complete(self, search: Search, state: State) -> State:
        """With the slab and the labels that single moves from a start do not lead to."""
        state = replace(state, support=search.support(state))  # each of them asks for it
        for start in self.with_all:
            state = start(search, state)
        return state


RECIPE = Recipe()
