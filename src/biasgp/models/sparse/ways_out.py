"""Where a search goes on from the best state so far, which single moves of labels do not lead out of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from biasgp._typing import Array
from biasgp.models.sparse.kinds import PRIOR, Slab
from biasgp.models.sparse.labels import Support
from biasgp.models.sparse.residual_levels import best_cut
from biasgp.models.sparse.search import Candidate, Search, State
from biasgp.models.sparse.starts import NEAR

_Pair = tuple[tuple[int, int], tuple[int, int]]
"""Two readings, and a label for each."""


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

    Few readings of many inputs leave f so open that wrong labels are hardly unlikely. Without the readings that agree
    least, f follows the others, and those that are good come back. In five of six such fits that had ended far from the
    truth (benchmarks/shapes.py --only few) the evidence rose by 1.5 to 8 nats.
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
            least = np.argsort(-odds, kind="stable")[: int(share * len(odds))]
            if best.slab.replaced or not best.labels.any():
                slab, labels[least] = Slab((max(1.0, float(np.exp(best.x[-1]))),), best.slab.mean_variance), 1
            else:
                slab, labels[least] = best.slab, 1 + weights[least, 1:].argmax(axis=1)
            start = Candidate(best.x, slab, labels, best.curvature)
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
    most_moves: int = 100  # without a new factorisation: rounding adds up over many
    up_to: int = 500  # readings: a sweep costs about N³, as much as several evaluations

    def __call__(self, search: Search, best: State) -> State:
        if len(search.y) > self.up_to or best.slab.replaced or not best.labels.any():
            return best
        for seed in range(self.runs):
            support, rng, moves = search.support(best).copy(), np.random.default_rng(seed), 0
            try:
                for temperature in self.temperatures:
                    weights = support.log_weights()
                    moves += support.sweep(self._shuffled(weights, rng), rng, temperature, weights)
                    if moves > self.most_moves:
                        support, moves = support.afresh(), 0
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
