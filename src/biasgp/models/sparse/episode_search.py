"""The search for episodes: runs of readings that share a bias which lasts, beside single outliers.

From the parameters of a fit without episodes, and from longer length-scales (one that was fitted to a fault hides it),
the run that raises the evidence most is added as long as that pays. Then parameters and labels are fitted again, and
episodes are removed, replaced, split and merged as long as that raises the evidence. All results are compared by the
same measure, log p(y, labels, episodes), for which the ends of each episode are averaged over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise, product

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.models.episodes import ERRATIC, RAMP, SHIFT, Ordering, Run
from biasgp.models.run_scan import RunScan
from biasgp.models.sparse.episode_policy import POLICY, EpisodePolicy
from biasgp.models.sparse.explanations import Explanation, differ, marginal_inverse, support_without_episodes
from biasgp.models.sparse.kinds import PRIOR, Labels
from biasgp.models.sparse.search import Candidate, Search, SearchPolicy, State
from biasgp.watch import out_of_time

BOTH = (SHIFT, RAMP)


class EpisodeSearch:
    """From a fit without episodes to the explanations that are worth knowing."""

    def __init__(self, search: Search, best: State, ordering: Ordering, policy: EpisodePolicy = POLICY) -> None:
        self.search, self.ordering, self.policy = search, ordering, policy
        self.base, self.judged = _opened(search), ordering.bad_stretches()
        self.none = Explanation((), ordering, self.base, search, best)
        self.ended = [self.none]
        self.short: list[Explanation] = []
        """Explanations that fall short of the fit without episodes at its parameters, with their own."""
        self._latest: tuple[Candidate, RunScan, float] | None = None

    def best(self) -> Explanation:
        """The explanation of highest evidence."""
        best = self.none
        for stretch in self.policy.stretches:
            if best.evidence > self.none.evidence + self.policy.found_gap:
                break
            at = self._start(stretch)
            scan, evidence = self._first_runs(at, BOTH)
            new = all(differ(scan.runs, known.runs) for known in self.ended)
            if scan.runs and new and evidence > best.evidence - self.policy.hopeless_gap:
                best = max(best, self._settled(self._fitted(scan.runs, at, best), best), key=_evidence)
        return self._with_erratic(best)

    def _with_erratic(self, best: Explanation) -> Explanation:
        """The same with the erratic runs that pay, in place of other episodes there."""
        while len(best.runs) < self.policy.max_episodes:
            runs, start = self._erratic_runs(best)
            if not runs:
                break
            found = self._settled(self._fitted(runs, start, best), best)
            if found.evidence <= best.evidence + self.policy.min_gain:
                break
            best = found
        return best

    def _erratic_runs(self, best: Explanation) -> tuple[tuple[Run, ...], Candidate]:
        """The episodes with an erratic run more where that may pay, else none; and labels without those of the run."""
        start, (bare, _) = replace(best.state, support=None), self._scan_of(best)
        labels = np.where(self.judged, 0, start.labels)
        price = _price_of(replace(start, labels=labels))
        erratic = tuple(run for run in best.runs if run.kind == ERRATIC)
        most = best.evidence - self.policy.one_more_gap
        found: tuple[tuple[Run, ...], Candidate] = (), start
        proposed = [bare.with_runs(runs).best_erratic(price) for runs in dict.fromkeys((best.runs, erratic))]
        for run in filter(None, dict.fromkeys(proposed)):
            at = replace(start, labels=labels.copy())
            at.labels[self.ordering.rows_of(run)] = 0
            kept = tuple(other for other in best.runs if other.stop <= run.first or run.stop <= other.first)
            scan, evidence = self._scan(at)
            scan = scan.with_runs((*kept, run))
            total = evidence + scan.log_evidence + self.ordering.log_prior_of(scan.runs)
            if total > most:
                most, found = total, (scan.runs, at)
        return found

    @staticmethod
    def would_find_any(search: Search, start: Candidate, ordering: Ordering) -> bool:
        """Whether an episode pays before anything is fitted."""
        labels = np.where(ordering.bad_stretches(), 0, _isolated(start.labels, ordering, POLICY.window))
        at = replace(start, labels=labels, support=None)
        scan = RunScan(ordering, *marginal_inverse(_opened(search).support(at)))
        return scan.best()[0] > 0.0 or scan.best_erratic(_price_of(at)) is not None

    def _start(self, stretch: float) -> Candidate:
        """Where a search begins: longer length-scales, and labels of single outliers alone."""
        state = self.none.state
        start = replace(state, labels=_isolated(state.labels, self.ordering, self.policy.window))
        if stretch == 1.0:
            return start
        theta = self.search.kernel.with_theta(state.x[:-1]).stretched(stretch).theta
        x = np.clip(np.append(theta, state.x[-1]), *self.search.bounds.T)
        return replace(start, x=x, support=None)

    def completed(self, at: Explanation, complete: Callable[[Search, State], State]) -> Explanation:
        """The same with labels and slab worked out to the end, and with episodes that go with them."""
        found = replace(at, state=complete(at.search, at.state))
        if at.runs and not np.array_equal(found.state.labels, at.state.labels):
            found = self._settled(found, found)
        return found

    def others(self, best: Explanation) -> list[Explanation]:
        """Explanations of other kinds that are not far behind, or with one more episode.

        A level that jumps at two places may be shifted between them, or before the one and after the other, or it may
        have drifted up to each of them: the readings alone often cannot tell.
        """
        policy, found = self.policy, []
        rival = replace(best, state=replace(best.state, evidence=best.state.evidence - policy.ambiguous_gap))
        bare, evidence = self._scan_of(best)
        level_runs = _of_levels(best.runs)
        bare = bare.with_runs(tuple(run for run in best.runs if run not in level_runs))
        jumps = {run.stop for run in level_runs} | {run.first for run in level_runs if run.kind != RAMP}
        beside = bare.between(sorted(jumps - {end for each in self.ordering.bounds for end in each}))
        levels = reduce(RunScan.with_run, (run for run in level_runs if run.kind != RAMP), bare).apart()
        drifts = beside & bare.ending_at(jumps)
        starts: list[tuple[RunScan, tuple[str, ...]]] = [
            (self._grown(bare, (SHIFT,), where=beside & levels), (SHIFT,)),
            *((self._grown(bare, (RAMP,), where=where), (RAMP,)) for where in (None, drifts)),
        ]
        if any(run.kind == RAMP for run in best.runs):
            starts.append((self._grown(bare, (SHIFT,)), (SHIFT,)))
        best_of: dict[tuple[str, ...], tuple[float, RunScan]] = {}
        for scan, kinds in starts:
            total = evidence + scan.log_evidence + self.ordering.log_prior_of(scan.runs)
            if scan.runs and all(differ(scan.runs, known.runs) for known in (best, *self.ended)):
                best_of[kinds] = max(best_of.get(kinds, (-np.inf, scan)), (total, scan), key=lambda each: each[0])
        for kinds, (total, scan) in best_of.items():
            volume = policy.drift_volume * len(scan.runs) if kinds == (RAMP,) else 0.0
            if total + volume > rival.evidence - policy.other_gap:
                fitted = self._fitted(scan.runs, best.state, rival)
                # Its episodes are moved where that may make it the best: their ends are averaged over anyway.
                near = fitted.evidence + volume > best.evidence - policy.overtaking_gap
                found.append(self._settled(fitted, rival, kinds) if near else fitted)
        full = bare.with_runs(level_runs)
        gain, run = full.best()
        if gain > -policy.one_more_gap:
            found.append(self._fitted((*full.runs, run), best.state, rival, self._brief(policy.rounds_beside)))
        least = best.evidence - policy.one_more_gap
        for each in [best, *(other for other in (*found, *self.ended) if other.evidence > least)]:
            found += self._with_one_replaced(each, rival, (best, *found, *self.ended))
        return found

    def _with_one_replaced(
        self, at: Explanation, rival: Explanation, known: Sequence[Explanation]
    ) -> Iterator[Explanation]:
        """Explanations with another run in place of one of the episodes, where that is almost as good.

        The ends of an episode are averaged over among the runs that share most of its readings; the evidence of others
        may have a peak of its own.
        """
        bare, _ = self._scan(replace(at.state, support=None))
        for run in _of_levels(at.runs):
            around = bare.with_runs(tuple(other for other in at.runs if other is not run))
            gain, other = around.best(where=around.apart() & ~self.ordering.sharing_most(run))
            if gain < around.gain_of(run) - self.policy.one_more_gap:
                continue
            runs = (*around.runs, other)
            if all(differ(runs, each.runs) for each in known):
                yield self._fitted(runs, at.state, rival, self._brief(self.policy.rounds_beside))

    def supported(self, best: Explanation) -> tuple[Explanation, list[tuple[Explanation, float]]]:
        """An explanation less the episodes that it is better without, parameters fitted again.

        Also, for each of its episodes, the best explanation without it and the log odds against that.
        """
        others = [self._without(best, run) for run in best.runs]
        volumes = [ends.log_volume for ends in best.ends]
        log_odds = [best.evidence + own - other.evidence for own, other in zip(volumes, others, strict=True)]
        if min(log_odds, default=0.0) < 0.0:
            return self.supported(others[int(np.argmin(log_odds))])
        return best, list(zip(others, log_odds, strict=True))

    def _without(self, best: Explanation, run: Run) -> Explanation:
        """The best explanation that has the other episodes only."""
        others = tuple(other for other in best.runs if other is not run)
        if not others:
            return self.none
        # The length-scale of the fit without any episode is the one that can follow this one.
        labels = best.state.labels.copy()
        if run.kind == ERRATIC:  # one by one, its readings are outliers
            rows = self.ordering.rows_of(run)
            labels[rows] = np.minimum(self.none.state.labels[rows], best.state.slab.n_groups)
        if self.base is self.search:
            self.base.recall(self.none.state)
        x, curvature = self.none.state.x, self.none.state.curvature
        start = replace(best.state, x=x, curvature=curvature, labels=labels, support=None)
        policy = self._brief(self.policy.rounds_without, self.policy.iterations_without)
        # Odds beyond doubt need not be known to the last nat. That the labels are the same says nothing here: no search
        # comes to those of the rival.
        state = replace(best.state, evidence=best.state.evidence - self.policy.sure_gap)
        rival = replace(best, state=replace(state, labels=np.full_like(state.labels, -1)))
        return self._fitted(others, start, rival, policy)

    def _brief(self, rounds: int, iterations: int | None = None) -> SearchPolicy:
        """How much work an explanation is worth that is there to be compared with another."""
        policy = self.search.policy
        iterations = policy.round_iterations if iterations is None else iterations
        tolerance = policy.rival_tolerance
        return replace(
            policy, max_rounds=rounds, round_iterations=iterations, later_iterations=iterations, tolerance=tolerance
        )

    def possible(self, at: Explanation) -> Iterator[Explanation]:
        """The same with one more episode that almost pays, at the same parameters and labels."""
        scan = self._scan_of(at)[0].with_runs(at.runs)
        for _ in range(self.policy.max_possible):
            gain, run = scan.best()
            if gain <= -self.policy.one_more_gap:
                break
            runs = (*at.runs, run)
            yield Explanation(runs, self.ordering, self.base, self._search_with(runs), replace(at.state, support=None))
            scan = scan.with_run(run)

    def overlooked(self) -> Explanation:
        """The fit without episodes, or an explanation that is well ahead of it once its parameters are fitted.

        One that is hardly ahead, and at the parameters of the signal alone is behind, may as well be the signal.
        """
        self.short = list(self._falling_short())
        best = max((self.none, *self.short), key=_evidence)
        ahead = best.evidence > self.none.evidence + self.policy.ambiguous_gap
        return self._settled(best, best) if ahead else self.none

    def almost(self) -> list[Explanation]:
        """By episodes that readings which are taken for faultless almost have."""
        policy = self.policy

        def to_spare(each: Explanation) -> float:
            return each.evidence - self.none.evidence + self._gap_of(len(each.runs))

        near = [each for each in (*self.ended, *self.short) if each.runs and to_spare(each) > 0.0]
        near.sort(key=to_spare, reverse=True)
        if near:
            others = (*self.others(near[0]), *(other for each in near[:2] for other in self._around_shift(each)))
            near += [each for each in others if each.evidence > near[0].evidence - policy.ambiguous_gap]
        found: list[Explanation] = []
        for each in near:
            if all(differ(each.runs, known.runs) for known in found):
                found.append(each)
        return found

    def _falling_short(self) -> Iterator[Explanation]:
        """One episode and more that gain most at the parameters of the fit without any, while they almost pay.

        Searches add episodes that pay at once, which at these parameters none does; from longer length-scales they add
        too many.
        """
        scan, total = self._scan(replace(self.none.state, support=None))[0], 0.0
        for count in range(1, self.policy.max_possible + 1):
            gain, run = scan.best()
            total += gain
            if total < -self._gap_of(count) - self.policy.short_gain:
                break
            scan = scan.with_run(run)
            yield self._fitted(scan.runs, self.none.state, None, self._brief(self.policy.rounds_without))

    def _gap_of(self, count: int) -> float:
        """Nats behind the fit without episodes up to which an explanation by so many is worth naming."""
        return self.policy.fitted_gap + self.policy.gap_of_more * (count - 1)

    def _around_shift(self, at: Explanation) -> Iterator[Explanation]:
        """For a single shift: one that ends where it begins, and another that begins where it ends."""
        if [run.kind for run in at.runs] != [SHIFT]:
            return
        (run,), (scan, _) = at.runs, self._scan_of(at)
        begins = np.arange(self.ordering.n_places)[:, None] == run.stop
        for where in (scan.ending_at({run.first}), begins & (self.ordering.lengths > 0)):
            gain, other = scan.best(where=where)
            scan = scan if gain == -np.inf else scan.with_run(other)
        if len(scan.runs) > 1:
            yield self._fitted(scan.runs, at.state, None, self._brief(self.policy.rounds_without))

    def _scan_of(self, at: Explanation) -> tuple[RunScan, float]:
        """Every run at parameters and labels of an explanation, as if it had no episodes."""
        return self._scan(at.state, at.search)

    def _scan(self, at: Candidate, search: Search | None = None) -> tuple[RunScan, float]:
        """Every run at given parameters and labels, and the evidence without episodes but for their prior.

        Readings that were judged bad as one are open: an episode may be what was meant. `search` is the one that the
        candidate comes from, if any.
        """
        if self._latest is None or not _same(self._latest[0], at):
            opened = replace(at, labels=np.where(self.judged, 0, at.labels))
            support = support_without_episodes(self.base, search or self.base, opened)
            evidence = self.base.evidence(support, at.x)
            scan = RunScan(self.ordering, *marginal_inverse(support))
            self._latest = replace(at, support=None), scan, evidence
        return self._latest[1:]

    def _first_runs(self, at: Candidate, kinds: tuple[str, ...]) -> tuple[RunScan, float]:
        """Episodes added one by one from none, at given parameters, and the evidence then."""
        scan, start = self._scan(at, self.none.search)
        needed = self.none.evidence - self.policy.hopeless_gap - start - self.ordering.log_prior_of(())
        scan = self._grown(scan, kinds, needed)
        return scan, start + scan.log_evidence + self.ordering.log_prior_of(scan.runs)

    def _grown(
        self,
        scan: RunScan,
        kinds: tuple[str, ...],
        needed: float = -np.inf,
        where: Mask | None = None,
        ended: dict[frozenset[tuple[str, int, int]], RunScan] | None = None,
    ) -> RunScan:
        """The best run added as long as that pays; given up where a gain of `needed` is out of reach.

        Only runs in `where`, if given. `ended` is where it led to from other episodes, and is added to.
        """
        total, passed, ended = 0.0, [], {} if ended is None else ended
        while len(scan.runs) < self.policy.max_episodes:
            passed.append(frozenset((run.kind, run.first, run.stop) for run in scan.runs))
            if passed[-1] in ended:
                scan = ended[passed[-1]]
                break
            gain, run = scan.best(kinds, None if where is None else where & scan.apart())
            within_reach = total + gain * self.policy.reach > needed
            if gain <= 0.0 or not within_reach:
                break
            total += gain
            scan = scan.with_run(run)
        ended.update(dict.fromkeys(passed, scan))
        return scan

    def _fitted(
        self, runs: tuple[Run, ...], start: Candidate, rival: Explanation | None, policy: SearchPolicy | None = None
    ) -> Explanation:
        """Parameters and labels with these episodes in place; given up where it falls behind the rival."""
        search = self._search_with(runs, policy)
        prior = self.ordering.log_prior_of(runs)
        known = None if rival is None else replace(rival.state, evidence=rival.evidence - prior)
        start = replace(start, support=None)
        search.know_beside(self.base, start)
        search.improve("episodes", start, known)
        return Explanation(runs, self.ordering, self.base, search, search.ended[-1])

    def recalled(self, runs: tuple[Run, ...], state: State) -> tuple[Explanation, bool]:
        """An explanation of an earlier fit to the same readings, and whether the verdicts leave it as it is.

        Its labels and parameters move; its episodes are those that it had.
        """
        if runs:
            search = self._search_with(runs)
            now, same = search.recalled(state)
            found = Explanation(runs, self.ordering, self.base, search, now)
        else:
            found, same = self.none, np.array_equal(self.none.state.labels, state.labels)
        return found, same and found.evidence > -np.inf

    def moved_on(self, found: Explanation) -> Explanation:
        """An explanation after verdicts, with episodes that go with them."""
        policy, self.policy = self.policy, replace(self.policy, max_rounds=self.policy.rounds_after_verdicts)
        found, self.policy = self._settled(found, found), policy
        return found

    def _search_with(self, runs: tuple[Run, ...], policy: SearchPolicy | None = None) -> Search:
        """The search with these episodes in place."""
        problem = replace(self.search.problem, shared=self.ordering.scaled_columns(runs))
        if problem.verdict is not None and runs:  # a bad reading of an episode need not be an outlier by itself as well
            inside = np.concatenate([self.ordering.rows_of(run) for run in runs])
            problem = replace(
                problem, verdict=np.where(np.isin(np.arange(len(problem)), inside), np.nan, problem.verdict)
            )
        search = Search(problem, policy or self.search.policy)
        search.trace = self.search.trace
        return search

    def _settled(self, best: Explanation, rival: Explanation, kinds: tuple[str, ...] = BOTH) -> Explanation:
        """Parameters, labels and episodes in turn, until none of them moves or the rival is out of reach."""
        for _ in range(0 if out_of_time() else self.policy.max_rounds):
            if best.evidence < rival.evidence - self.policy.move_gap:
                break
            state = best.state
            moved, evidence = self._moved(best, kinds)
            if evidence <= best.evidence + self.policy.min_gain:
                # Readings just outside an episode may have been flagged before it was there, and hide its true end.
                state = replace(state, labels=self._without_edge_labels(best))
                if np.array_equal(state.labels, best.state.labels):
                    break
                moved, evidence = self._moved(replace(best, state=replace(state, evidence=-np.inf)), kinds)
            if any(known.evidence > evidence and not differ(known.runs, moved) for known in self.ended):
                break
            following = self._fitted(moved, state, rival)
            if following.evidence <= best.evidence + self.policy.min_gain:
                break
            best = following
            same = np.array_equal(best.state.labels, state.labels) and not best.state.labels.any()
            if same and best.evidence < evidence + self.policy.settled_gain:
                break
        self.ended.append(best)
        return best

    def _moved(self, at: Explanation, kinds: tuple[str, ...]) -> tuple[tuple[Run, ...], float]:
        """The best that taking out some episodes and adding others leads to, at fixed parameters and labels.

        One or two neighbours are taken out, or all: this removes, replaces and merges, and moves ends. Or the places
        where the level jumps stay, and which of the stretches between them are faulty is chosen anew.
        """
        bare, evidence = self._scan_of(at)
        runs = sorted(_of_levels(at.runs), key=lambda run: run.first)
        bare = bare.with_runs(tuple(run for run in at.runs if run not in runs))
        taken = [(), *((run,) for run in runs), *pairwise(runs), tuple(runs)]
        proposals = [tuple(run for run in runs if run not in out) for out in taken]
        if SHIFT in kinds:
            proposals += self._stretches(bare, tuple(runs))
        best, found = at.evidence, at.runs
        ended: dict[frozenset[tuple[str, int, int]], RunScan] = {}
        for proposal in dict.fromkeys(proposals):
            scan = self._grown(bare.with_runs(proposal), kinds, ended=ended)
            total = evidence + scan.log_evidence + self.ordering.log_prior_of(scan.runs)
            if total > best:
                best, found = total, scan.runs
        return found, best

    def _without_edge_labels(self, at: Explanation) -> Labels:
        """Labels without those of readings near the ends of an episode."""
        labels, half = at.state.labels.copy(), self.policy.window // 2
        for run in at.runs:
            (series,) = (each for each in self.ordering.bounds if each[0] <= run.first < each[1])
            for end in (run.first, run.stop):
                near = Run(SHIFT, max(end - half, series[0]), min(end + half, series[1]))
                labels[self.ordering.rows_of(near)] = 0
        return labels

    def _stretches(self, bare: RunScan, runs: tuple[Run, ...]) -> Iterator[tuple[Run, ...]]:
        """For each series with episodes: these, chosen anew between the places where its level jumps."""
        for series in self.ordering.bounds:
            own = tuple(run for run in runs if series[0] <= run.first < series[1])
            others = tuple(run for run in runs if run not in own)
            if own:
                yield (*others, *self._stretches_of(series, bare.with_runs(others), own))

    def _stretches_of(self, series: tuple[int, int], bare: RunScan, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        """The best choice of faulty stretches between the places where the level of a series jumps.

        Jumps are where its episodes begin and end, and where what each shift should leave out does.
        """
        ordering = self.ordering
        jumps = {run.stop for run in runs} | {run.first for run in runs if run.kind != RAMP}
        scan = bare.with_runs(runs)
        for run in runs:
            if run.kind != RAMP and len(jumps) < self.policy.max_jumps:
                _, hole = scan.best((SHIFT,), scan.within(run))
                jumps |= {hole.first, hole.stop}
        within = sorted(jump for jump in jumps if series[0] < jump < series[1])
        ends = [series[0], *within[: self.policy.max_jumps], series[1]]
        segments = ordering.columns([Run(SHIFT, a, b) for a, b in pairwise(ends)])
        P, Py = bare.inverse()
        G, g = segments.T @ P @ segments, segments.T @ Py
        best, found = -np.inf, runs
        for choice in product((False, True), repeat=len(ends) - 1):
            edges = np.flatnonzero(np.diff([False, *choice, False])).reshape(-1, 2).tolist()
            chosen = tuple(Run(SHIFT, ends[a], ends[b]) for a, b in edges)
            prior = ordering.log_prior_of((*bare.runs, *chosen))
            if prior == -np.inf:
                continue
            M = np.array([[a <= s < b for a, b in edges] for s in range(len(ends) - 1)], dtype=float)
            evidence = prior + (_evidence_of_levels(M.T @ G @ M, M.T @ g) if chosen else 0.0)
            if evidence > best:
                best, found = evidence, chosen
        return tuple(replace(run, kind=ordering.named(SHIFT, run.first, run.stop)) for run in found)


def _opened(search: Search) -> Search:
    """The same search, in which readings that are known to be bad may be without a label: an episode may have them."""
    verdict = search.problem.verdict
    if verdict is None:
        return search
    return Search(replace(search.problem, verdict=np.where(verdict == 1.0, np.nan, verdict)), search.policy)


def _same(a: Candidate, b: Candidate) -> bool:
    """Whether parameters, slab and labels of two candidates are."""
    return np.array_equal(a.x, b.x) and a.slab == b.slab and np.array_equal(a.labels, b.labels)


def _price_of(at: Candidate) -> Array:
    """What the label of each reading costs, in nats."""
    price = np.log(PRIOR.shares(at.slab.counts(at.labels), len(at.labels)))
    return np.asarray((price[0] - price)[at.labels])


def _of_levels(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """Those that are not erratic."""
    return tuple(run for run in runs if run.kind != ERRATIC)


def _evidence(explanation: Explanation) -> float:
    return explanation.evidence


def _evidence_of_levels(G: Array, g: Array) -> float:
    """What several shifts together do to the log evidence, each with the variance of its own estimate."""
    # Where no reading of a stretch is in the GP, its level is not determined.
    levels = np.linalg.lstsq(G, g)[0]
    V = np.maximum(levels**2, LEAST_LEVEL)
    return float(
        0.5 * g @ np.linalg.solve(G + np.diag(1.0 / V), g) - 0.5 * np.linalg.slogdet(np.eye(len(g)) + G * V)[1]
    )


LEAST_LEVEL = 1e-12
"""Variance of a shift, in units of y's robust variance, that is as good as none."""


def _isolated(labels: Labels, ordering: Ordering, window: int) -> Labels:
    """Labels without those of readings most of whose neighbours in order are flagged too."""
    alone = labels.copy()
    for begin, end in ordering.bounds:
        rows = ordering.rows_of(Run(SHIFT, begin, end))
        near = np.convolve(labels[rows] > 0, np.ones(window))[window // 2 :][: len(rows)]
        alone[rows[near > window / 2]] = 0
    return alone
