"""The search for episodes: runs of readings that share a bias which lasts, beside single outliers.

From the parameters of a fit without episodes, and from longer length-scales (one that was fitted to a fault hides it),
the run that raises the evidence most is added as long as that pays. Then parameters and labels are fitted again, and
episodes are removed, replaced, split and merged as long as that raises the evidence. All results are compared by the
same measure, log p(y, labels, episodes).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from biasgp._typing import Array
from biasgp.models.episodes import RAMP, SHIFT, Ordering, Run, add_column, evidence_of_column
from biasgp.models.sparse.kinds import Labels
from biasgp.models.sparse.labels import Support
from biasgp.models.sparse.search import Candidate, Search, State


@dataclass(frozen=True)
class EpisodePolicy:
    """How much work the search is worth, and when two explanations are too close to call (benchmarks/faults.py)."""

    stretches: tuple[float, ...] = (1.0, 2.5, 7.0)
    """Factors of the length-scales from which it begins."""
    hopeless_gap: float = 60.0
    """Nats behind the fit without episodes, before parameters are fitted, at which a start is given up."""
    max_rounds: int = 6
    max_episodes: int = 10
    min_gain: float = 1e-3
    """Nats. A move that raises the log evidence by less is not made."""
    ambiguous_gap: float = 10.0
    """Nats within which a whole explanation by other kinds of episode is averaged over: the prior of the kinds is not
    known to more than this."""
    possible_gap: float = 2.0
    """Nats by which an episode may fail to pay and still be worth naming."""
    window: int = 11
    """Readings around a flagged one; where most are flagged it is not taken for a single outlier at the start."""


POLICY = EpisodePolicy()


@dataclass(frozen=True)
class Explanation:
    """Episodes, with the state of labels and parameters that goes with them, and log p(y, labels, episodes)."""

    runs: tuple[Run, ...]
    search: Search = field(repr=False)
    state: State = field(repr=False)
    evidence: float


class EpisodeSearch:
    """From a fit without episodes to the explanations that are worth knowing."""

    def __init__(self, search: Search, best: State, ordering: Ordering, policy: EpisodePolicy = POLICY) -> None:
        self.search, self.ordering, self.policy = search, ordering, policy
        self.none = Explanation((), search, best, best.evidence + ordering.log_prior_of(()))
        self.ended = [self.none]

    def best(self) -> Explanation:
        """The explanation of highest evidence."""
        best, x = self.none, self.none.state.x
        labels = _isolated(self.none.state.labels, self.ordering, self.policy.window)
        kernel, tried = self.search.kernel.with_theta(x[:-1]), set()
        for stretch in self.policy.stretches:
            theta = np.append(kernel.stretched(stretch).theta, x[-1])
            at = replace(self.none.state, x=np.clip(theta, *self.search.bounds.T), labels=labels)
            runs, evidence = self._first_runs(at, (SHIFT, RAMP))
            places = tuple((run.kind, run.first, run.stop) for run in runs)
            if runs and places not in tried and evidence > self.none.evidence - self.policy.hopeless_gap:
                tried.add(places)
                best = self._better(best, self._settled(runs, at, best, (SHIFT, RAMP)))
        return best

    def by_other_kinds(self, best: Explanation) -> list[Explanation]:
        """Explanations by ramps alone or by shifts alone that are not far behind, the best of each."""
        found = []
        for kind in (SHIFT, RAMP) if best.runs else ():
            runs, _ = self._first_runs(best.state, (kind,))
            if runs:
                other = self._settled(runs, best.state, None, (kind,))
                if best.evidence - self.policy.ambiguous_gap < other.evidence and _differ(other.runs, best.runs):
                    found.append(other)
        return found

    def without(self, best: Explanation, run: Run) -> float:
        """The highest evidence of an explanation that has the other episodes only, parameters fitted again."""
        others = tuple(other for other in best.runs if other is not run)
        if not others:
            return self.none.evidence
        # The length-scale of the fit without any episode is the one that can follow this one.
        start = replace(best.state, x=self.none.state.x, curvature=self.none.state.curvature, support=None)
        return self._fitted(others, start, None).evidence

    def possible(self) -> Run | None:
        """An episode that almost pays, where none does."""
        P, Py = _marginal_inverse(self.search.support(self.none.state))
        gain, run = self.ordering.best_run(P, Py)
        return run if gain > -self.policy.possible_gap else None

    def _better(self, best: Explanation, other: Explanation) -> Explanation:
        return other if other.evidence > best.evidence else best

    def _first_runs(self, at: Candidate, kinds: tuple[str, ...]) -> tuple[tuple[Run, ...], float]:
        """Episodes added one by one from none, at given parameters, and the evidence then."""
        support = self.search.support(replace(at, support=None))
        start = support.log_evidence() - at.slab.bic_penalty(at.labels) + self.ordering.log_prior_of(())
        P, Py = _marginal_inverse(support)
        runs, gain = self._added((), P, Py, kinds, self.none.evidence - self.policy.hopeless_gap - start)
        return runs, start + gain

    def _added(
        self, runs: tuple[Run, ...], P: Array, Py: Array, kinds: tuple[str, ...], needed: float = -np.inf
    ) -> tuple[tuple[Run, ...], float]:
        """Add the best run as long as that pays, and what all of them gain; given up where `needed` is out of reach."""
        total = 0.0
        while len(runs) < self.policy.max_episodes:
            gain, run = self.ordering.best_run(P, Py, runs, kinds)
            within_reach = total + gain * (self.policy.max_episodes - len(runs)) > needed
            if gain <= 0.0 or not within_reach:
                break
            total += gain
            runs = (*runs, run)
            P, Py = add_column(P, Py, self.ordering.column(run), run.variance)
        return runs, total

    def _fitted(self, runs: tuple[Run, ...], start: Candidate, rival: Explanation | None) -> Explanation:
        """Parameters and labels with these episodes in place; given up where it falls behind the rival."""
        prior = self.ordering.log_prior_of(runs)
        search = Search(replace(self.search.problem, shared=self.ordering.columns(runs)), self.search.policy)
        known = None if rival is None else replace(rival.state, evidence=rival.evidence - prior)
        search.improve("episodes", replace(start, support=None), known)
        state = search.ended[-1]
        return Explanation(runs, search, state, state.evidence + prior)

    def _settled(
        self, runs: tuple[Run, ...], start: Candidate, rival: Explanation | None, kinds: tuple[str, ...]
    ) -> Explanation:
        """Parameters, labels and episodes in turn, until none of them moves."""
        best = self._fitted(runs, start, rival)
        for _ in range(self.policy.max_rounds):
            moved, evidence = self._moved(best, kinds)
            if evidence <= best.evidence + self.policy.min_gain:
                break
            following = self._fitted(moved, best.state, rival)
            if following.evidence <= best.evidence + self.policy.min_gain:
                break
            best = following
        self.ended.append(best)
        return best

    def _moved(self, at: Explanation, kinds: tuple[str, ...]) -> tuple[tuple[Run, ...], float]:
        """The best that taking out some episodes and adding others leads to, at fixed parameters and labels.

        One or two neighbours are taken out, or all: this removes, replaces, splits and merges them, and moves their ends.
        """
        ordering, state = self.ordering, replace(at.state, support=None)
        support = self.search.support(state)
        P0, Py0 = _marginal_inverse(support)
        bare = support.log_evidence() - state.slab.bic_penalty(state.labels)
        order = sorted(range(len(at.runs)), key=lambda k: at.runs[k].first)
        sets: list[tuple[int, ...]] = [(), *((k,) for k in order), *zip(order, order[1:], strict=False), tuple(order)]
        best, found = at.evidence, at.runs
        for taken in dict.fromkeys(sets):
            P, Py, evidence = P0, Py0, bare
            kept: tuple[Run, ...] = ()
            for run in (run for k, run in enumerate(at.runs) if k not in taken):
                kept = (*kept, ordering.with_variance(run, P, Py))
                u, variance = ordering.column(run), kept[-1].variance
                evidence += evidence_of_column(P, Py, u, variance)
                P, Py = add_column(P, Py, u, variance)
            runs, gain = self._added(kept, P, Py, kinds)
            evidence += ordering.log_prior_of(kept) + gain
            if evidence > best:
                best, found = evidence, runs
        return found, best


def _marginal_inverse(support: Support) -> tuple[Array, Array]:
    """The inverse of the covariance of the readings, the group means integrated out, and that times y."""
    means, S = support.posterior_of_means()
    return support.Q - support.U @ S @ support.U.T, support.Qy - support.U @ means


def _isolated(labels: Labels, ordering: Ordering, window: int) -> Labels:
    """Labels without those of readings most of whose neighbours in order are flagged too."""
    flagged = (labels > 0)[ordering.rows].astype(float)
    crowded = np.convolve(flagged, np.ones(window), mode="same") > window / 2
    alone = labels.copy()
    alone[ordering.rows[crowded]] = 0
    return alone


def _differ(runs: tuple[Run, ...], others: tuple[Run, ...], slack: int = 2) -> bool:
    """Whether two explanations are not the same but for ends that lie within so many readings."""
    if len(runs) != len(others):
        return True
    pairs = zip(sorted(runs, key=_place), sorted(others, key=_place), strict=True)
    return any(
        a.kind != b.kind or abs(a.first - b.first) > slack or abs(a.stop - b.stop) > slack for a, b in pairs
    )


def _place(run: Run) -> int:
    return run.first
