"""Where searches for labels start: a table of small recipes, each there for a failure of the others.

A start takes the search and the best state so far, and returns the better of that and the one it leads to itself. What
one is worth is measured by taking it out of `Recipe` (benchmarks/starts.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.models import constant_bias
from biasgp.models.problem import EVERYTHING, Rows
from biasgp.models.sparse.kinds import PRIOR, Labels, Slab
from biasgp.models.sparse.residual_levels import TwoScales, best_cut
from biasgp.models.sparse.search import Candidate, LabelledLikelihood, Search, State
from biasgp.models.strategy import POLICY as STAGES
from biasgp.models.strategy import covariance_starts
from biasgp.optimize import POLICY, go_on, multistart
from biasgp.response import MAD_TO_STD

Start = Callable[[Search, State], State]
"""The better of the best state so far and the one that this start leads to."""
NEAR = 5.0
"""Nats. A start is followed if its log evidence, before anything is fitted, is no further behind than this."""
PLAIN_LOOKS, PLAIN_ITERATIONS = (1, 1), 15
"""Of a plain GP: iterations after which its starts are compared, unless readings are too few to show which inputs
matter; and from the best of them."""


@dataclass(frozen=True)
class ConstantBias:
    """From rough constant bias fits: the readings far from them are the first outliers. Every search begins here.

    Far by a robust standard deviation; and, where that leads elsewhere, as a mixture of two scales says. Of many
    outliers of all sizes the first takes most for noise: of nine draws of 100 readings, 45 % of which have a bias
    N(0, 1), that had ended far worse than a Student-t fit, the second leads to 3 to 17 nats more in five.
    """

    far: float = 2.0  # noise standard deviations from the fit at which a reading starts as an outlier
    iterations: int = 15
    narrower: float = 0.5
    """Share of the robust variance from which on that of the narrower of two scales says nothing else."""
    limits: tuple[float, float] = (1.5, 1.5)
    """Standard errors by which skewness and kurtosis of the residuals differ from a normal's where the lopsided fit is
    tried: it is for outliers that are so many that they pass for signal or noise."""
    minority: float = 0.2
    """Outliers start as two groups, above and below, where at least this share of them is on either side."""

    def __call__(self, search: Search) -> list[State]:
        """The best state, and the one without a mixture of two scales where that is another."""
        best: State | None = None
        rough: list[tuple[constant_bias.RoughFit, float]] = []
        for i, cob in enumerate(constant_bias.rough_fits(search.problem, self.iterations)):
            residual = cob.residual
            # A small k has a small σ; then the residuals' own spread is the better measure.
            spread = max(cob.noise_variance, (MAD_TO_STD * float(np.median(np.abs(residual)))) ** 2)
            far = np.abs(residual) > self.far * np.sqrt(spread + search.known)
            for slab, labels in self.first_slabs(residual, far, cob.noise_variance):
                if best is None or not _leads_to(search, best, replace(best, labels=labels, support=None)):
                    start = Candidate(cob.x, slab, labels, cob.curvature)
                    best = search.improve("constant bias", start, best)
            rough.append((cob, spread))
            if i == 1 and best is not None and not search.looks_non_gaussian(best, self.limits):
                break
        assert best is not None
        by_scale = best
        for cob, spread in rough:
            by_scale = self._by_scale(search, cob, spread, by_scale)
        return [best] if by_scale is best else [by_scale, best]

    def _by_scale(self, search: Search, cob: constant_bias.RoughFit, spread: float, best: State) -> State:
        """From noise and outliers as a mixture of two scales of the residuals has them, if their spread is another."""
        scales = TwoScales.of(cob.residual, float(np.exp(search.bounds[-1, 0])))
        labels = search.problem.held(scales.wide_ones.astype(np.intp))
        if scales.narrow > self.narrower * spread or not 0.0 < np.mean(labels) <= PRIOR.max_share:
            return best
        slab = Slab((scales.wide,), best.slab.mean_variance)
        start = Candidate(np.append(cob.x[:-1], np.log(scales.narrow)), slab, labels, cob.curvature)
        return best if _leads_to(search, best, start) else search.improve("two scales", start, best)

    def first_slabs(self, residual: Array, far: Mask, noise_variance: float) -> list[tuple[Slab, Labels]]:
        """Slabs to start from, with their labels: one group, and one for each side where both have outliers."""
        # Larger than the prior's where the residuals are.
        mean_variance = max(PRIOR.mean_std**2, float((residual**2).max()))

        def variance(group: Mask) -> float:
            return max(float(residual[group].var()), noise_variance) if group.sum() > 1 else 1.0

        up, down = far & (residual > 0), far & (residual < 0)
        starts = [(Slab((variance(far),), mean_variance), far.astype(np.intp))]
        if min(up.sum(), down.sum()) >= max(2.0, self.minority * far.sum()):
            starts.append((Slab((variance(up), variance(down)), mean_variance), up + 2 * down.astype(np.intp)))
        return starts


def _leads_to(search: Search, best: State, start: Candidate) -> bool:
    """Whether single moves from the labels of a start, at its parameters, end in those of a state."""
    if start.labels.max(initial=0) > start.slab.n_groups:
        return False
    support = search.support(start)
    support.climb()
    return np.array_equal(support.labels, best.labels)


@dataclass(frozen=True)
class OtherLengths:
    """From the usual starts of the length-scales with the same labels: a likelihood has several maxima.

    Without it on few readings the evidence ends lower in 31 of 300 draws of 30 and of 60 readings (MSE up to 28 times
    as high); of 300 readings, in one of 240 draws, whose MSE is then 7.8 times as high.
    """

    looks: tuple[int, ...] = (1, 1)  # iterations after which the starts are compared
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
        start = Candidate(other.x[: -len(extra)], best.slab, best.labels, best.curvature)
        return search.improve("other lengths", start, best, slack=0.0)


@dataclass(frozen=True)
class ForgottenInputs:
    """From a usual length-scale of an input that f hardly depends on, one at a time, where that is better at once.

    A length-scale that has grown far beyond the inputs' spread has no gradient left to bring it back. A search that
    meets outliers before it knows the signal gives up an input whose effect is not monotone.
    """

    factor: float = 2.5  # of the usual length-scale, from which an input counts as forgotten

    def __call__(self, search: Search, best: State) -> State:
        usual = np.clip(search.kernel.usual_length_scales(search.X), *search.bounds[:-1].T)
        lengths = np.flatnonzero(~np.isnan(usual))
        for _ in lengths[1:]:
            forgotten = [j for j in lengths if best.x[j] > usual[j] + np.log(self.factor)]
            if best.slab.replaced or not forgotten:
                break
            tried = []
            for j in forgotten:
                x = best.x.copy()
                x[j] = usual[j]
                tried.append(Candidate(x, best.slab, best.labels, best.curvature))
            evidence = [search.evidence_at(each) for each in tried]
            if max(evidence) <= best.evidence:
                break
            found = search.improve("forgotten input", tried[int(np.argmax(evidence))], best)
            if found is best:
                break
            best = found
        return best


@dataclass(frozen=True)
class LongerLengths:
    """From a smoother f: a run of neighbouring outliers looks like a feature to a short length-scale.

    Without it the evidence ends lower, by 2 to 14 nats, in 7 of 300 draws of 30 and of 60 readings, and the MSE of two
    of them is four times as high; with 300 readings nothing changes.
    """

    factors: tuple[float, ...] = (2.5, 7.0)

    def __call__(self, search: Search, best: State) -> State:
        kernel = search.kernel.with_theta(best.x[:-1])
        for factor in self.factors:
            x = np.append(kernel.stretched(factor).theta, best.x[-1])
            x = np.clip(x, search.bounds[:, 0], search.bounds[:, 1])
            support = search.support(Candidate(x, best.slab, best.labels))
            support.climb(len(search.y) // 2)
            if np.mean(support.labels > 0) < PRIOR.max_share:
                start = Candidate(x, best.slab, support.labels, best.curvature)
                best = search.improve("longer lengths", start, best)
        return best


@dataclass(frozen=True)
class NoOutlier:
    """From a plain GP: all other starts flag some readings, which may be peaks of the signal or heavy noise.

    Without it the evidence ends lower in 43 of 300 draws of 30 and of 60 readings; and by 132 nats, with twice the MSE,
    on ozone at a real station (docs/benchmarks.md).
    """

    first_look: int = 2
    iterations: int = 15

    def __call__(self, search: Search, best: State) -> State:
        no_labels = np.zeros(len(search.y), dtype=np.intp)
        slab = replace(best.slab, variances=best.slab.variances[:1])
        spread = np.exp(best.x[-1]) + float(np.mean(search.bias(best) ** 2))
        start = Candidate(np.append(best.x[:-1], np.log(spread)), slab, no_labels, best.curvature)
        found, report = search.refit(start, self.first_look)
        found = replace(found, slab=slab)
        hoped_for = search.evidence_at(found) + POLICY.optimism * report.promise
        if hoped_for < best.evidence - search.policy.hopeless_gap:
            return search.improve("no outlier", _plain_gp(search, slab), best, NEAR)
        found, _ = search.refit(found, self.iterations)
        best = search.improve("no outlier", replace(found, slab=slab, curvature=best.curvature), best, NEAR)
        # Labels may have led to another maximum of the length-scales than a plain GP's.
        return search.improve("no outlier", _plain_gp(search, slab), best, search.policy.hopeless_gap)


@dataclass(frozen=True)
class PlainResiduals:
    """From a plain GP's residuals: the lower level of them, the upper one, and the farther half as the outliers.

    Of many outliers on one side a fit that is to leave far readings out finds none: f passes between the two levels, or
    follows now the one and now the other. With two of five readings one unit too high the MSE was 90 to 1,500 times the
    oracle's in half of the draws; of many outliers on both sides all were taken for noise in one draw of 20.
    """

    min_members: int = 2  # readings of a level
    limits: tuple[float, float] = (1.5, 1.5)
    """Standard errors by which skewness and kurtosis of the residuals differ from a normal's where the farther half is
    tried."""

    def __call__(self, search: Search, best: State) -> State:
        plain = _plain_gp(search, best.slab)
        support = search.support(plain)
        x, residual = plain.x[:-1], support.Qy / support.diagonal
        order = np.argsort(residual, kind="stable")
        cut = best_cut(residual[order], self.min_members)
        if cut is None:
            return best
        splits = [(order[:cut], order[cut:]), (order[cut:], order[:cut])]
        if search.looks_non_gaussian(best, self.limits):
            farther = np.argsort(np.abs(residual - np.median(residual)), kind="stable")
            half = int(PRIOR.max_share * len(order))
            splits.append((farther[-half:], farther[:-half]))
        for out, kept in splits:
            labels = search.problem.held(np.isin(np.arange(len(order)), out).astype(np.intp))
            if len(out) > PRIOR.max_share * len(order) or np.array_equal(labels > 0, best.labels > 0):
                continue
            noise = max(float(residual[kept].var()), float(np.exp(search.bounds[-1, 0])))
            slab = Slab((max(float(residual[out].var()), PRIOR.lowest_variance),), best.slab.mean_variance)
            start = Candidate(np.append(x, np.log(noise)), slab, labels)
            best = search.improve("plain residuals", start, best)
        return best


def _plain_gp(search: Search, slab: Slab) -> Candidate:
    """A plain GP from the usual starts; the slab is that of readings that are known to be bad."""
    no_labels = search.problem.held(np.zeros(len(search.y), dtype=np.intp))
    # Readings that are known to be bad say little of f.
    least = max(slab.variances) if no_labels.any() else PRIOR.lowest_variance
    slab = Slab((least,), slab.mean_variance)
    if search.plain is None:
        objective, fixed = LabelledLikelihood(search.problem, slab, no_labels), np.log(slab.variances)
        bounds = np.vstack([search.bounds, np.column_stack([fixed, fixed])])
        starts = [np.append(start, fixed) for start in covariance_starts(search.kernel)]
        few = len(search.y) < STAGES.few_per_parameter * len(search.bounds)
        looks = POLICY.looks if few else PLAIN_LOOKS
        found = multistart(objective, starts, bounds, PLAIN_ITERATIONS, looks, search.policy.first_tolerance)
        search.plain = Candidate(found.x[:-1], slab, no_labels)
    return search.plain
