"""Where searches for labels start: a table of small recipes, each there for a failure of the others.

A start takes the search and the best state so far, and returns the better of that and the one it leads to itself. What
one is worth is measured by taking it out of `Recipe` (benchmarks/starts.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from biasgp._typing import Array, Mask
from biasgp.covariance.posterior import AveragedPosterior
from biasgp.models import constant_bias
from biasgp.models.problem import EVERYTHING, Rows
from biasgp.models.sparse.average import LabelAverage, ParameterAverage
from biasgp.models.sparse.kinds import PRIOR, Labels, Slab
from biasgp.models.sparse.labels import Support
from biasgp.models.sparse.residual_levels import TwoScales, best_cut
from biasgp.models.sparse.search import Candidate, LabelledLikelihood, Search, State
from biasgp.models.strategy import POLICY as STAGES
from biasgp.models.strategy import covariance_starts
from biasgp.models.varying_noise import AUTO
from biasgp.optimize import POLICY, go_on, multistart
from biasgp.response import MAD_TO_STD

Start = Callable[[Search, State], State]
"""The better of the best state so far and the one that this start leads to."""
NEAR = 5.0
"""Nats. A start is followed if its log evidence, before anything is fitted, is no further behind than this."""
PLAIN_LOOKS, PLAIN_ITERATIONS = (1, 1), 15
"""Of a plain GP: iterations after which its starts are compared, unless readings are too few to show which inputs
matter; and from the best of them."""
_Pair = tuple[tuple[int, int], tuple[int, int]]
"""Two readings, and a label for each."""


@dataclass(frozen=True)
class ConstantBias:
    """From rough constant bias fits: the readings far from them are the first outliers. Every search begins here.

    Far by a robust standard deviation; and, where that leads elsewhere, as a mixture of two scales says. Of many
    outliers of all sizes the first takes most for noise: in 8 of 130 draws of 100 readings 45 % of which have a bias
    N(0, 1), the evidence ended lower by 3 to 17 nats, with 1.3 to 5 times the error of what the second leads to.
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
    mean_std: float = 3.0
    """Prior standard deviation of a group's mean bias, in robust standard deviations of y; more where the residuals are
    larger."""

    def __call__(self, search: Search) -> State:
        best: State | None = None
        for i, cob in enumerate(constant_bias.rough_fits(search.problem, self.iterations)):
            residual = cob.residual
            # A small k has a small σ; then the residuals' own spread is the better measure.
            spread = max(cob.noise_variance, (MAD_TO_STD * float(np.median(np.abs(residual)))) ** 2)
            far = np.abs(residual) > self.far * np.sqrt(spread + search.known)
            for slab, labels in self.first_slabs(residual, far, cob.noise_variance):
                if best is None or not _leads_to(search, best, replace(best, labels=labels, support=None)):
                    start = Candidate(cob.x, slab, labels, cob.curvature)
                    best = search.improve("constant bias", start, best)
            assert best is not None
            best = self._by_scale(search, cob, spread, best)
            if i == 1 and best is not None and not search.looks_non_gaussian(best, self.limits):
                break
        assert best is not None
        return best

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
        mean_variance = max(self.mean_std**2, float((residual**2).max()))

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


@dataclass(frozen=True)
class OtherLevel:
    """From the opposite labels, where most readings are flagged: they may be the signal, and the others the outliers.

    Both have almost the same evidence where outliers are nearly half of the readings and have the same bias; searches
    on few of them may have begun with the wrong one. Without it that is so in 4 of 20 draws of 120 readings with 45 %
    outliers.
    """

    def __call__(self, search: Search, best: State) -> State:
        if np.mean(best.labels > 0) <= PRIOR.max_share:
            return best
        clean = (best.labels == 0).astype(np.intp)
        slab = replace(best.slab, variances=(max(best.slab.variances),), replaced=False, means=())
        return search.improve("other level", Candidate(best.x, slab, clean, best.curvature), best)


@dataclass(frozen=True)
class MoreNoise:
    """From the same labels with some noise, where it is at its lower bound: f follows single readings there.

    Without it the evidence of one fit of nitric oxide in the simulated campaign ends lower by 190 nats, with 1.2 times
    the MSE.
    """

    variance: float = 0.05  # in units of y's robust variance

    def __call__(self, search: Search, best: State) -> State:
        if not best.report.at_lower[len(best.x) - 1]:
            return best
        x = np.append(best.x[:-1], np.log(self.variance))
        return search.improve("more noise", Candidate(x, best.slab, best.labels), best)


@dataclass(frozen=True)
class OtherSlabs:
    """Replaced readings; or one more group, as long as that is better: outliers are of several kinds."""

    max_groups: int = 3
    min_members: int = 2  # of a group: a split leaves no fewer on either side
    least_variance: float = 0.1  # of the biases of a part of a group, in units of the noise variance

    def __call__(self, search: Search, best: State) -> State:
        shifted, out = best, best.labels > 0
        if best.slab.replaced:  # as found on some of the readings
            return best
        if out.sum() >= self.min_members and out.mean() < PRIOR.max_share:
            noise = float(np.exp(best.x[-1]) + np.mean(search.known[out]))
            slab = Slab.of_replaced(search.y[out], best.slab.mean_variance, noise)
            replaced = Candidate(best.x, slab, out.astype(np.intp), best.curvature)
            best = search.improve("replaced", replaced, best, NEAR)
        while shifted.slab.n_groups < self.max_groups:
            split = self._split_widest_group(search, shifted, best.curvature)
            found = best if split is None else search.improve("split", split, best, NEAR)
            if found is best:
                break
            best = shifted = found
        return best

    def _split_widest_group(self, search: Search, state: State, curvature: Array | None) -> Candidate | None:
        """Cut the group of largest variance where that leaves the least within; None if it has too few members."""
        widest = int(np.argmax(state.slab.variances))
        members = np.flatnonzero(state.labels == widest + 1)
        bias = search.bias(state)[members]
        members = members[np.argsort(bias)]
        bias = np.sort(bias)
        cut = best_cut(bias, self.min_members)
        if cut is None:
            return None
        labels = state.labels.copy()
        labels[members[cut:]] = state.slab.n_groups + 1
        floor = self.least_variance * float(np.exp(state.x[-1]))
        variances = list(state.slab.variances)
        variances[widest] = max(float(bias[:cut].var()), floor)
        variances.append(max(float(bias[cut:].var()), floor))
        return Candidate(state.x, replace(state.slab, variances=tuple(variances)), labels, curvature)


@dataclass(frozen=True)
class Suspects:
    """From the same labels with every reading flagged that is not quite unlikely to be an outlier.

    Outliers can mask one another: single moves do not free them, but parameters fitted without them do.
    """

    log_odds: float = 8.0  # against being an outlier, up to which a reading is a suspect

    def __call__(self, search: Search, best: State) -> State:
        weights = search.support(best).log_weights()
        suspect = weights[:, 1:].max(axis=1) > weights[:, 0] - self.log_odds
        labels = np.where(suspect, 1 + weights[:, 1:].argmax(axis=1), 0)
        if suspect.mean() >= PRIOR.max_share or np.array_equal(labels, best.labels):
            return best
        return search.improve("suspects", Candidate(best.x, best.slab, labels, best.curvature), best)


@dataclass(frozen=True)
class LeastLikely:
    """From a share of the readings flagged, those that agree least with the others, whatever their odds.

    Few readings of many inputs leave f so open that wrong labels are hardly unlikely: with fewer readings, those that
    mislead f out of the way, it follows others.
    """

    shares: tuple[float, ...] = (0.2, 0.3)
    up_to: int = 150  # readings

    def __call__(self, search: Search, best: State) -> State:
        if len(search.y) > self.up_to:
            return best
        for share in self.shares:
            weights = search.support(best).log_weights()
            odds = logsumexp(weights[:, 1:], axis=1) - weights[:, 0]
            labels = np.zeros(len(odds), dtype=np.intp)
            labels[np.argsort(-odds, kind="stable")[: int(share * len(odds))]] = 1
            spread = max(1.0, float(np.exp(best.x[-1])))
            start = Candidate(best.x, Slab((spread,), best.slab.mean_variance), labels, best.curvature)
            best = search.improve("least likely", start, best)
        return best


@dataclass(frozen=True)
class Pairs:
    """From moves of two readings at once: where f rests on few readings, two outliers can hold each other in place."""

    coupled: float = 0.2  # readings with a larger partial correlation may be moved in pairs
    max_pairs: int = 10  # pairs of the largest approximate gain whose exact gain is computed
    min_gain: float = 1e-6  # nats by which a pair must raise the log evidence

    def __call__(self, search: Search, best: State) -> State:
        support = search.support(best)
        if not self.climb(support):
            return best
        return search.improve("pairs", Candidate(best.x, best.slab, support.labels, best.curvature), best)

    def climb(self, support: Support) -> int:
        """Move pairs that raise p(y, labels), and single readings after each; returns the number of moves."""
        moves = 0
        while not support.slab.replaced and moves < len(support.y):
            pair = next((pair for pair in self.promising(support) if self.gain(support, pair) > self.min_gain), None)
            if pair is None:
                break
            for i, label in zip(*pair, strict=True):
                support.move(i, label)
            moves += 2 + support.climb()
        return moves

    @staticmethod
    def gain(support: Support, pair: _Pair) -> float:
        """How much a pair raises log p(y, labels), exactly."""
        own, (first, second) = support.labels[list(pair[0])], pair[1]
        part, _ = support.part(np.array(pair[0]), own)
        before = part.log_weights()[0]
        part.move(0, first)
        after = part.log_weights()[1]
        return float(before[first] - before[own[0]] + after[second] - after[own[1]])

    def promising(self, support: Support) -> list[_Pair]:
        """Pairs that would raise it if the group means and the shares stayed as they are, the best first."""
        scale = np.sqrt(support.diagonal)
        rows = np.argwhere(np.triu(np.abs(support.Q) > self.coupled * np.outer(scale, scale), 1))
        if len(rows) == 0:
            return []
        means, _ = support.posterior_of_means()
        shift, prior = support.loadings @ means, np.log(support.label_prior()).mean(axis=0)
        # Both readings given all others: residuals from f, and their covariance, the inverse of Q's block.
        own, both = support.labels[rows], np.arange(2)
        K = np.linalg.inv(support.Q[rows[:, :, None], rows[:, None, :]])
        residual = np.einsum("pij,pj->pi", K, (support.Qy - support.U @ means)[rows]) + shift[own]
        K[:, both, both] -= support.added[own]
        n_labels = len(shift)
        value = np.empty((len(rows), n_labels, n_labels))
        for labels in np.ndindex(n_labels, n_labels):
            # In units of each reading's own standard deviation: products of variances may overflow.
            spread = np.sqrt(K[:, both, both] + support.added[list(labels)])
            a, b = ((residual - shift[list(labels)]) / spread).T
            correlation = K[:, 0, 1] / spread[:, 0] / spread[:, 1]
            left = np.maximum(1.0 - correlation**2, np.finfo(float).eps)
            value[:, *labels] = prior[list(labels)].sum() - np.log(spread).sum(axis=1) - 0.5 * np.log(left)
            value[:, *labels] -= 0.5 * (a**2 - 2.0 * correlation * a * b + b**2) / left
        value -= value[np.arange(len(rows)), own[:, 0], own[:, 1]][:, None, None]
        if support.verdict is not None:
            barred = support.barred()[rows]
            value[barred[:, 0, :, None] | barred[:, 1, None, :]] = -np.inf
        flat = value.reshape(len(rows), -1)
        best = flat.max(axis=1)
        order = [p for p in np.argsort(-best)[: self.max_pairs] if best[p] > 0.0]
        return [((int(rows[p, 0]), int(rows[p, 1])), divmod(int(flat[p].argmax()), n_labels)) for p in order]


@dataclass(frozen=True)
class Annealed:
    """From Gibbs sampling of the labels at falling temperatures: many outliers can hold one another in place.

    Among readings of many inputs a dozen wrong labels may vouch for one another: the right ones have more evidence, but
    no single move, and no pair of moves, is uphill.
    """

    temperatures: tuple[float, ...] = (4.0, 2.0, 1.0, 0.5)
    """Of one sweep each. It finds the way out of such a state 13 times of 16, a longer or a hotter one less often."""
    runs: int = 1
    up_to: int = 500  # readings: a sweep costs about N³, as much as several evaluations

    def __call__(self, search: Search, best: State) -> State:
        if len(search.y) > self.up_to or best.slab.replaced or not best.labels.any():
            return best
        for seed in range(self.runs):
            support, rng = search.support(best).copy(), np.random.default_rng(seed)
            try:
                for temperature in self.temperatures:
                    weights = support.log_weights()
                    if support.sweep(self._shuffled(weights, rng), rng, temperature, weights):
                        support = support.afresh()  # rounding adds up over many moves
                support.climb()
            except np.linalg.LinAlgError:  # and may be all that is left of Q where there is hardly any noise
                continue
            if np.array_equal(support.labels, best.labels):
                continue
            if search.evidence(support, best.x) > best.evidence:
                start = Candidate(best.x, best.slab, support.labels, best.curvature)
                best = search.improve("annealed", start, best)
        return best

    @staticmethod
    def _shuffled(weights: Array, rng: np.random.Generator) -> NDArray[np.intp]:
        """All readings, sorted by their odds first, so that the order of the rows does not matter."""
        return rng.permutation(np.argsort(weights.max(axis=1), kind="stable"))


@dataclass(frozen=True)
class FewReadings:
    """From the best state found on some of the readings, and from others that differ and are not far behind."""

    max_picks: int = 3
    different: float = 0.04  # share of the readings whose labels differ, for a state to be worth a search of its own

    def __call__(self, search: Search, few: Search, rows: NDArray[np.intp]) -> State:
        search.trace += few.trace
        picked: list[State] = []
        best: State | None = None
        for state in sorted(few.ended, key=lambda state: state.evidence, reverse=True):
            seen = not all(self.differ(state, other) for other in picked)
            behind = picked and state.evidence < picked[0].evidence - search.policy.hopeless_gap
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

    begin: ConstantBias = ConstantBias()
    on_few: tuple[Start, ...] = (PlainResiduals(), OtherLengths(), ForgottenInputs(), LongerLengths(), NoOutlier())
    beam: int = 3
    """States that the starts on few readings go on from, where these are all and parameters may be averaged over."""
    add_readings: FewReadings = FewReadings()
    where_labels_moved: OtherLengths = OtherLengths()
    with_all: tuple[Start, ...] = (OtherLevel(), MoreNoise(), OtherSlabs(), Suspects(), LeastLikely(), Pairs(), Annealed())
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
        the first starts led to are gone on from.
        """
        begun, found = [self.begin(search)], []
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
