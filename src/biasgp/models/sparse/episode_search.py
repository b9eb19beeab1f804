"""The search for episodes: runs of readings that share a bias which lasts, beside single outliers.

From the parameters of a fit without episodes, and from longer length-scales (one that was fitted to a fault hides it),
the run that raises the evidence most is added as long as that pays. Then parameters and labels are fitted again, and
episodes are removed, replaced, split and merged as long as that raises the evidence. All results are compared by the
same measure, log p(y, labels, episodes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from biasgp._typing import Array, Mask
from biasgp.covariance.posterior import AveragedPosterior, MixturePosterior, PartialPosterior, mixture_moments
from biasgp.models.episodes import RAMP, SHIFT, Episode, Ordering, Run, add_column, evidence_of_column
from biasgp.models.problem import Problem
from biasgp.models.sparse.kinds import Labels
from biasgp.models.sparse.labels import Support
from biasgp.models.sparse.search import Candidate, Search, SparseBiasFit, State
from biasgp.watch import out_of_time


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
    max_jumps: int = 7
    """Places where the level jumps of which all combinations are tried: 2⁸ of them."""
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
        kernel = self.search.kernel.with_theta(x[:-1])
        for stretch in self.policy.stretches:
            theta = np.append(kernel.stretched(stretch).theta, x[-1])
            at = replace(self.none.state, x=np.clip(theta, *self.search.bounds.T), labels=labels)
            runs, evidence = self._first_runs(at, (SHIFT, RAMP))
            new = all(_differ(runs, known.runs) for known in self.ended)
            if runs and new and evidence > self.none.evidence - self.policy.hopeless_gap:
                found = self._settled(runs, at, best, (SHIFT, RAMP))
                best = found if found.evidence > best.evidence else best
        return best

    def by_other_kinds(self, best: Explanation) -> list[Explanation]:
        """Explanations by ramps alone or by shifts alone that are not far behind, the best of each."""
        found = []
        # Where the user names events, the kinds have a prior that means something.
        for kind in (SHIFT, RAMP) if best.runs and self.ordering.events is None else ():
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
        search.trace = self.search.trace
        known = None if rival is None else replace(rival.state, evidence=rival.evidence - prior)
        search.improve("episodes", replace(start, support=None), known)
        state = search.ended[-1]
        return Explanation(runs, search, state, state.evidence + prior)

    def _settled(
        self, runs: tuple[Run, ...], start: Candidate, rival: Explanation | None, kinds: tuple[str, ...]
    ) -> Explanation:
        """Parameters, labels and episodes in turn, until none of them moves."""
        best = self._fitted(runs, start, rival)
        for _ in range(0 if out_of_time() else self.policy.max_rounds):
            state = best.state
            moved, evidence = self._moved(best, kinds)
            if evidence <= best.evidence + self.policy.min_gain:
                # Readings just outside an episode may have been flagged before it was there, and hide its true end.
                state = replace(state, labels=self._without_edge_labels(best))
                if np.array_equal(state.labels, best.state.labels):
                    break
                moved, _ = self._moved(replace(best, state=state, evidence=-np.inf), kinds)
            following = self._fitted(moved, state, rival)
            if following.evidence <= best.evidence + self.policy.min_gain:
                break
            best = following
        self.ended.append(best)
        return best

    def _moved(self, at: Explanation, kinds: tuple[str, ...]) -> tuple[tuple[Run, ...], float]:
        """The best that taking out some episodes and adding others leads to, at fixed parameters and labels.

        One or two neighbours are taken out, or all: this removes, replaces and merges, and moves ends. Or the places
        where the level jumps stay, and which of the stretches between them are faulty is chosen anew.
        """
        state = replace(at.state, support=None)
        support = self.search.support(state)
        P, Py = _marginal_inverse(support)
        bare = support.log_evidence() - state.slab.bic_penalty(state.labels)
        runs = sorted(at.runs, key=_place)
        taken = [(), *((run,) for run in runs), *pairwise(runs), tuple(runs)]
        proposals = [tuple(run for run in runs if run not in out) for out in taken]
        if SHIFT in kinds:
            proposals.append(self._stretches(P, Py, at.runs))
        best, found = at.evidence, at.runs
        for proposal in dict.fromkeys(proposals):
            kept, evidence, P_kept, Py_kept = self._with(proposal, P, Py)
            following, gain = self._added(kept, P_kept, Py_kept, kinds)
            evidence += bare + self.ordering.log_prior_of(kept) + gain
            if evidence > best:
                best, found = evidence, following
        return found, best

    def _without_edge_labels(self, at: Explanation) -> Labels:
        """Labels without those of readings near the ends of an episode."""
        labels, half = at.state.labels.copy(), self.policy.window // 2
        for run in at.runs:
            for end in (run.first, run.stop):
                near = Run(SHIFT, max(end - half, 0), min(end + half, self.ordering.n_times))
                labels[self.ordering.rows_of(near)] = 0
        return labels

    def _with(self, runs: tuple[Run, ...], P: Array, Py: Array) -> tuple[tuple[Run, ...], float, Array, Array]:
        """Episodes added to P, with the variances that go with one another, and what they do to the evidence."""
        evidence, placed = 0.0, []
        for run in runs:
            placed.append(self.ordering.with_variance(run, P, Py))
            u, variance = self.ordering.column(run), placed[-1].variance
            evidence += evidence_of_column(P, Py, u, variance)
            P, Py = add_column(P, Py, u, variance)
        return tuple(placed), evidence, P, Py

    def _stretches(self, P: Array, Py: Array, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        """The best choice of faulty stretches between the places where the level jumps.

        Jumps are where episodes begin and end, and where what each shift should leave out does.
        """
        ordering = self.ordering
        jumps = {run.stop for run in runs} | {run.first for run in runs if run.kind != RAMP}
        _, _, P_all, Py_all = self._with(runs, P, Py)
        for run in runs:
            if run.kind != RAMP and len(jumps) < self.policy.max_jumps:
                _, hole = ordering.best_run(P_all, Py_all, (), (SHIFT,), inside=run)
                jumps |= {hole.first, hole.stop}
        ends = [0, *sorted(jumps - {0, ordering.n_times})[: self.policy.max_jumps], ordering.n_times]
        segments = np.column_stack([ordering.column(Run(SHIFT, a, b)) for a, b in pairwise(ends)])
        G, g = segments.T @ P @ segments, segments.T @ Py
        best, found = -np.inf, runs
        for choice in product((False, True), repeat=len(ends) - 1):
            edges = np.flatnonzero(np.diff([False, *choice, False])).reshape(-1, 2)
            chosen = tuple(Run(SHIFT, ends[a], ends[b]) for a, b in edges.tolist())
            M = np.array([[a <= s < b for a, b in edges.tolist()] for s in range(len(ends) - 1)], dtype=float)
            prior = ordering.log_prior_of(chosen)
            evidence = prior + (_evidence_of_levels(M.T @ G @ M, M.T @ g) if chosen and prior > -np.inf else 0.0)
            if evidence > best:
                best, found = evidence, chosen
        return tuple(replace(run, kind=ordering.named(SHIFT, run.stop)) for run in found)


def with_episodes(
    search: Search, state: State, ordering: Ordering, finish: Callable[[Search, State], SparseBiasFit]
) -> SparseBiasFit:
    """The fit with the episodes that the readings support, averaged over explanations that they cannot tell apart."""
    hunt = EpisodeSearch(search, state, ordering)
    best = hunt.best()
    if not best.runs:
        run = hunt.possible()
        alternatives = () if run is None else ((Episode(run.kind, _rows(ordering, run), 0.0),),)
        return replace(finish(search, state), alternatives=alternatives)
    others = hunt.by_other_kinds(best)
    log_odds = [best.evidence - hunt.without(best, run) for run in best.runs]
    explanations = [(best, log_odds), *((other, [0.0] * len(other.runs)) for other in others)]
    fits = [_with_shared_bias(each, finish(each.search, each.state), odds, ordering) for each, odds in explanations]
    if not others:
        return fits[0]
    # The evidence is tempered: its differences are within what the prior of the kinds is not known to.
    relative = np.array([each.evidence - best.evidence for each, _ in explanations]) / hunt.policy.ambiguous_gap
    weights = tuple(softmax(relative).tolist())
    bias, variance = mixture_moments(weights, [(each.bias, each.bias_variance) for each in fits])
    return replace(
        fits[0],
        posterior=MixturePosterior(weights, tuple(each.posterior for each in fits)),
        probability=np.asarray(sum(w * each.probability for w, each in zip(weights, fits, strict=True))),
        bias=bias,
        bias_variance=variance,
        alternatives=tuple(each.episodes for each in fits[1:]),
    )


def _with_shared_bias(
    at: Explanation, found: SparseBiasFit, log_odds: list[float], ordering: Ordering
) -> SparseBiasFit:
    """A fit to the readings with the episodes' biases in it: what they add to each reading's."""
    posterior, shared = found.posterior, at.search.problem.shared
    assert isinstance(posterior, AveragedPosterior) and shared is not None
    coefficients = shared.T @ posterior.alpha
    covariance = np.eye(shared.shape[1]) - shared.T @ posterior.precision @ shared
    probability = 1.0 - found.probability
    episodes = []
    for run, odds in zip(at.runs, log_odds, strict=True):
        rows = _rows(ordering, run)
        probability[list(rows)] *= expit(-odds)
        episodes.append(Episode(run.kind, rows, odds))
    return replace(
        found,
        probability=1.0 - probability,
        bias=found.bias + shared @ coefficients,
        bias_variance=found.bias_variance + np.maximum(np.einsum("ij,jk,ik->i", shared, covariance, shared), 0.0),
        log_evidence=found.log_evidence + ordering.log_prior_of(at.runs),
        episodes=tuple(episodes),
    )


def with_stuck(found: SparseBiasFit, problem: Problem, stuck: list[Episode], kept: Mask) -> SparseBiasFit:
    """A fit to the readings that are kept, for all of them: the others are stuck, and say nothing about f."""
    if not stuck:
        return found
    f, variance = found.posterior.mean_and_variance(problem.X[~kept])
    spread = variance + found.noise_variance + problem.known[~kept]

    def everywhere(values: NDArray[Any], dropped: Array | float) -> NDArray[Any]:
        out = np.empty(len(kept), dtype=values.dtype)
        out[kept], out[~kept] = values, dropped
        return out

    index = np.flatnonzero(kept)

    def renumbered(episode: Episode) -> Episode:
        return replace(episode, rows=tuple(index[list(episode.rows)].tolist()))

    return replace(
        found,
        posterior=PartialPosterior(found.posterior, kept),
        labels=everywhere(found.labels, 0),
        probability=everywhere(found.probability, 1.0),
        bias=everywhere(found.bias, problem.y[~kept] - f),
        bias_variance=everywhere(found.bias_variance, spread),
        findings=tuple(replace(each, rows=tuple(index[list(each.rows)].tolist())) for each in found.findings),
        episodes=(*map(renumbered, found.episodes), *stuck),
        alternatives=tuple(tuple(map(renumbered, each)) for each in found.alternatives),
    )


def _rows(ordering: Ordering, run: Run) -> tuple[int, ...]:
    return tuple(ordering.rows_of(run).tolist())


def _evidence_of_levels(G: Array, g: Array) -> float:
    """What several shifts together do to the log evidence, each with the variance of its own estimate."""
    levels = np.linalg.solve(G, g)
    V = np.maximum(levels**2, 1e-12)
    return float(
        0.5 * g @ np.linalg.solve(G + np.diag(1.0 / V), g) - 0.5 * np.linalg.slogdet(np.eye(len(g)) + G * V)[1]
    )


def _marginal_inverse(support: Support) -> tuple[Array, Array]:
    """The inverse of the covariance of the readings, the group means integrated out, and that times y."""
    means, S = support.posterior_of_means()
    return support.Q - support.U @ S @ support.U.T, support.Qy - support.U @ means


def _isolated(labels: Labels, ordering: Ordering, window: int) -> Labels:
    """Labels without those of readings most of whose neighbours in order are flagged too."""
    flagged = (labels > 0)[ordering.rows].astype(float)
    near = np.convolve(flagged, np.ones(window))[window // 2 :][: len(flagged)]
    crowded = near > window / 2
    alone = labels.copy()
    alone[ordering.rows[crowded]] = 0
    return alone


def _differ(runs: tuple[Run, ...], others: tuple[Run, ...], slack: int = 2) -> bool:
    """Whether two explanations are not the same but for ends that lie within so many readings."""
    if len(runs) != len(others):
        return True
    pairs = zip(sorted(runs, key=_place), sorted(others, key=_place), strict=True)
    return any(a.kind != b.kind or abs(a.first - b.first) > slack or abs(a.stop - b.stop) > slack for a, b in pairs)


def _place(run: Run) -> int:
    return run.first
