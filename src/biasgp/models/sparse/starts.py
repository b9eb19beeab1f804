"""Where searches for labels start: a table of small recipes, each there for a failure of the others.

A start takes the search and the best state so far, and returns the better of that and what it leads to itself. Taking
one out of `RECIPE` measures what it is worth (benchmarks/starts.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.covariance.posterior import AveragedPosterior
from biasgp.models import constant_bias
from biasgp.models.problem import EVERYTHING, Rows
from biasgp.models.sparse.kinds import Kinds, Labels, Slab, first_slabs, replaced_slab, widened
from biasgp.models.sparse.pairs import climb_in_pairs
from biasgp.models.sparse.search import LabelledLikelihood, Search, State, by_evidence, leading_block
from biasgp.models.strategy import covariance_starts
from biasgp.optimize import POLICY, go_on, multistart
from biasgp.response import MAD_TO_STD

MAX_SHARE = 0.5
"""No start flags more than this: the majority is what the signal is."""
NEAR = 5.0
"""Nats. A start is followed if its log evidence, before anything is fitted, is no further behind than this."""


class Start(Protocol):
    """The better of the best state so far and of what this start leads to."""

    def __call__(self, search: Search, best: State) -> State: ...


@dataclass(frozen=True)
class ConstantBias:
    """From rough constant bias fits: the readings far from them are the first outliers. Every search begins here."""

    far: float = 2.0
    """Noise standard deviations from the fit at which a reading starts as an outlier."""
    iterations: int = 15
    limits: tuple[float, float] = (1.5, 1.5)
    """Standard errors by which skewness and kurtosis of the residuals differ from a normal's where the lopsided fit is
    tried: it is for outliers that are so many that they pass for signal or noise."""

    def __call__(self, search: Search) -> State:
        best: State | None = None
        for i, cob in enumerate(constant_bias.rough_fits(search.problem, self.iterations)):
            residual = search.y - cob.posterior.mean(search.X)
            # A small k has a small σ; then the residuals' own spread is the better measure.
            spread = max(cob.noise_variance, (MAD_TO_STD * float(np.median(np.abs(residual)))) ** 2)
            far = np.abs(residual) > self.far * np.sqrt(spread + search.known)
            x = np.append(cob.kernel.theta, np.log(cob.noise_variance))
            curvature = leading_block(cob.report, len(x))
            for slab, labels in first_slabs(residual, far, cob.noise_variance):
                if best is not None and _leads_to(search, best, labels):
                    continue
                state = search.alternate("constant bias", x, slab, labels, best, curvature)
                best = state if best is None else max(best, state, key=by_evidence)
            if i == 1 and best is not None and not search.residuals_look_non_gaussian(best, self.limits):
                break
        assert best is not None
        return best


def _leads_to(search: Search, best: State, labels: Labels) -> bool:
    """Whether single moves from these labels, at the parameters of a state, end in that state."""
    if labels.max(initial=0) > best.slab.n_groups:
        return False
    support = search.support(best.x, best.slab, labels)
    support.climb(len(search.y))
    return np.array_equal(support.labels, best.labels)


@dataclass(frozen=True)
class OtherLengths:
    """From the usual starts of the length-scales with the same labels: a likelihood has several maxima."""

    looks: tuple[int, ...] = (1, 1)
    """Iterations after which the starts are compared."""
    iterations: int = 15

    def __call__(self, search: Search, best: State, rows: Rows = EVERYTHING) -> State:
        if best.slab.replaced:
            return best
        objective = LabelledLikelihood(search.problem[rows], best.slab, best.labels[rows])
        extra = np.log(best.slab.variances)
        bounds = np.vstack([search.bounds, np.column_stack([extra, extra])])
        here = objective(np.append(best.x, extra))[0]
        starts = [np.append(start, extra) for start in covariance_starts(search.kernel)]
        other = multistart(objective, starts, bounds, 0, self.looks)
        other = go_on(objective, other, bounds, self.iterations, search.policy.rival_tolerance, here)
        if other.value > here:
            return best
        return search.better(best, "other lengths", other.x[: -len(extra)], best.slab, best.labels, 0.0)


@dataclass(frozen=True)
class LongerLengths:
    """From a smoother f: a run of outliers next to one another looks like a feature to a short length-scale."""

    factors: tuple[float, ...] = (2.5, 7.0)

    def __call__(self, search: Search, best: State) -> State:
        kernel = search.kernel.with_theta(best.x[:-1])
        for factor in self.factors:
            x = np.append(kernel.stretched(factor).theta, best.x[-1])
            x = np.clip(x, search.bounds[:, 0], search.bounds[:, 1])
            support = search.support(x, best.slab, best.labels)
            support.climb(len(search.y) // 2)
            if np.mean(support.labels > 0) < MAX_SHARE:
                found = search.alternate("longer lengths", x, best.slab, support.labels, best, best.curvature)
                best = max(best, found, key=by_evidence)
        return best


@dataclass(frozen=True)
class NoOutlier:
    """From a plain GP: peaks of the signal and heavy noise are taken for outliers where each start has some."""

    first_look: int = 2
    iterations: int = 15

    def __call__(self, search: Search, best: State) -> State:
        no_labels = np.zeros(len(search.y), dtype=np.intp)
        slab = replace(best.slab, variances=best.slab.variances[:1])
        spread = np.exp(best.x[-1]) + float(np.mean(search.bias(best) ** 2))
        start = np.append(best.x[:-1], np.log(spread))
        x, _, report = search.refit(start, slab, no_labels, self.first_look, best.curvature)
        hoped_for = search.evidence_at(x, slab, no_labels) + POLICY.optimism * report.promise
        if hoped_for < best.evidence - search.policy.hopeless_gap:
            return best
        x, _, _ = search.refit(x, slab, no_labels, self.iterations, leading_block(report, len(x)))
        return search.better(best, "no outlier", x, slab, no_labels, NEAR)


@dataclass(frozen=True)
class MoreNoise:
    """From the same labels with some noise, where it fell as low as it may: f follows single readings there."""

    variance: float = 0.05
    """In units of y's robust variance."""

    def __call__(self, search: Search, best: State) -> State:
        if not best.report.at_lower[len(best.x) - 1]:
            return best
        x = np.append(best.x[:-1], np.log(self.variance))
        return max(best, search.alternate("more noise", x, best.slab, best.labels, best), key=by_evidence)


@dataclass(frozen=True)
class OtherSlabs:
    """Replaced readings; or one more group, as long as that is better: outliers are of several kinds."""

    max_groups: int = 3

    def __call__(self, search: Search, best: State) -> State:
        shifted, out = best, best.labels > 0
        if out.sum() >= 2 and out.mean() < MAX_SHARE:
            slab = replaced_slab(search.y[out], best.slab.mean_variance)
            best = search.better(best, "replaced", best.x, slab, out.astype(np.intp), NEAR)
        while shifted.slab.n_groups < self.max_groups:
            split = _split_widest_group(search, shifted)
            following = best if split is None else search.better(best, "split", shifted.x, *split, NEAR)
            if following is best:
                break
            best = shifted = following
        return best


def _split_widest_group(search: Search, state: State) -> tuple[Slab, Labels] | None:
    """Cut the group of largest variance where that leaves the least within; None if it has no two members."""
    widest = int(np.argmax(state.slab.variances))
    members = np.flatnonzero(state.labels == widest + 1)
    if len(members) < 4:
        return None
    bias = search.bias(state)[members]
    members = members[np.argsort(bias)]
    bias = np.sort(bias)
    within = [bias[:cut].var() * cut + bias[cut:].var() * (len(bias) - cut) for cut in range(2, len(bias) - 1)]
    cut = 2 + int(np.argmin(within))
    labels = state.labels.copy()
    labels[members[cut:]] = state.slab.n_groups + 1
    floor = 0.1 * float(np.exp(state.x[-1]))
    variances = list(state.slab.variances)
    variances[widest] = max(float(bias[:cut].var()), floor)
    variances.append(max(float(bias[cut:].var()), floor))
    return replace(state.slab, variances=tuple(variances)), labels


@dataclass(frozen=True)
class Suspects:
    """From the same labels with every reading flagged that is not quite unlikely to be an outlier.

    Outliers can shield one another: single moves do not free them, but parameters fitted without them do.
    """

    log_odds: float = 8.0
    """Against being an outlier, up to which a reading is a suspect."""

    def __call__(self, search: Search, best: State) -> State:
        weights = search.support_of(best).log_weights()
        suspect = weights[:, 1:].max(axis=1) > weights[:, 0] - self.log_odds
        labels = np.where(suspect, 1 + weights[:, 1:].argmax(axis=1), 0)
        if suspect.mean() >= MAX_SHARE or np.array_equal(labels, best.labels):
            return best
        found = search.alternate("suspects", best.x, best.slab, labels, best, best.curvature)
        return max(best, found, key=by_evidence)


@dataclass(frozen=True)
class Pairs:
    """From moves of two readings at once: an outlier and its neighbour can hold each other in place."""

    def __call__(self, search: Search, best: State) -> State:
        support = search.support_of(best)
        if not climb_in_pairs(support):
            return best
        found = search.alternate("pairs", best.x, best.slab, support.labels, best, best.curvature)
        return max(best, found, key=by_evidence)


@dataclass(frozen=True)
class FewReadings:
    """From the best that was found on some of the readings, and from others that differ and are not far behind."""

    max_picks: int = 3
    different: float = 0.04
    """Share of the readings whose labels differ, for an end to be worth a look of its own."""

    def __call__(self, search: Search, few: Search, rows: NDArray[np.intp]) -> State:
        search.trace += few.trace
        picked: list[State] = []
        best: State | None = None
        for state in sorted(few.ended, key=by_evidence, reverse=True):
            seen = any(np.mean((state.labels > 0) != (other.labels > 0)) < self.different for other in picked)
            behind = picked and state.evidence < picked[0].evidence - search.policy.hopeless_gap
            if seen or behind or len(picked) == self.max_picks:
                continue
            picked.append(state)
            slab, labels = _carried_over(search, few, state, rows)
            growth = len(search.y) / len(rows)
            curvature = None if state.curvature is None else growth * state.curvature
            found = search.alternate("all readings", state.x, slab, labels, best, curvature)
            best = found if best is None else max(best, found, key=by_evidence)
        assert best is not None
        return best


def _carried_over(search: Search, few: Search, state: State, rows: NDArray[np.intp]) -> tuple[Slab, Labels]:
    """Slab and labels for these readings from a state found on `rows` of them."""
    support = few.support_of(state)
    means, _ = support.posterior_of_means()
    kernel = search.kernel.with_theta(state.x[:-1])
    posterior = AveragedPosterior(kernel, few.X, support.Qy - support.U @ means, support.Q)
    f, variance = posterior.mean_and_variance(search.X)
    noise = variance + np.exp(state.x[-1]) + search.known
    counts = np.bincount(state.labels, minlength=state.slab.n_groups + 1) + 1.0
    shares: Array = counts[1:] / counts.sum()
    kinds = Kinds(shares, means, np.array(state.slab.variances), replaced=False)
    labels: Labels = kinds.log_joint(search.y, f, noise).argmax(axis=1)
    labels[rows] = state.labels
    return widened(state.slab, search.y - f, noise, labels), labels


@dataclass(frozen=True)
class Recipe:
    """Which starts are tried, in this order: on few readings, as readings are added, and with all of them."""

    begin: ConstantBias = ConstantBias()
    on_few: tuple[Start, ...] = (OtherLengths(), LongerLengths(), NoOutlier())
    add_readings: FewReadings = FewReadings()
    where_labels_moved: OtherLengths = OtherLengths()
    with_all: tuple[Start, ...] = (MoreNoise(), OtherSlabs(), Suspects(), Pairs())


RECIPE = Recipe()
