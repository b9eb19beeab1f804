"""The search for labels: which readings are outliers, with the parameters and the slab that go with them.

Parameters by BFGS and labels by moves, in turn, each of which raises log p(y, labels). `starts` says where it begins;
all results are compared by the same measure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.covariance.dense_engine import DenseCovariance, DenseEngine, Inverse
from biasgp.kernels import Kernel, Pullback
from biasgp.models.diagnosis import Finding, looks_like_noise
from biasgp.models.episodes import Episode, Run
from biasgp.models.noise_tails import Tails
from biasgp.models.problem import EVERYTHING, FitResult, Layout, Problem, Rows
from biasgp.models.sparse.kinds import PRIOR, Group, Labels, Slab
from biasgp.models.sparse.labels import Support, log_evidence
from biasgp.models.strategy import covariance_bounds
from biasgp.optimize import POLICY as OPTIMIZER
from biasgp.optimize import Report, go_on, minimize


@dataclass(frozen=True)
class SearchPolicy:
    """How much work each round of parameters and labels is worth; chosen by benchmarks/accuracy.py and speed.py.

    Gains and gaps are of log evidence, in nats: a gain below the tolerance is not worth another evaluation.
    """

    max_rounds: int = 8
    round_iterations: int = 4  # of the search for parameters, in the first round and wherever a rival is known
    later_iterations: int = 10  # after the first round, where no rival is known
    first_tolerance: float = 0.5  # before the labels have moved once
    rival_tolerance: float = 0.1  # where a rival is known
    tolerance: float = 1e-3
    """For the first result, and at the end: parameters are then within a twentieth of their standard errors."""
    same_gap: float = 0.5
    """A search that comes to the labels of the best state is given up unless it is ahead by more."""
    hopeless_gap: float = 20.0
    """A search this far behind the best known state is given up."""
    rival_gap: float = 3.0
    rival_difference: float = 0.2
    rival_flags: int = 20
    """A result counts as a rival if it is no further behind than the gap, and more than this share of the flags, of at
    least so many, differ."""
    rounds_after_verdicts: int = 2
    """From where an earlier fit ended; the best then converges (benchmarks/verdicts.py)."""

    def quick(self, max_rounds: int) -> SearchPolicy:
        """The same with few rounds, which end as those of a rival do."""
        iterations, tolerance = self.round_iterations, self.rival_tolerance
        return replace(self, max_rounds=max_rounds, later_iterations=iterations, tolerance=tolerance)


POLICY = SearchPolicy()


@dataclass(frozen=True)
class Candidate:
    """Parameters x = (θ, log σ²), slab and labels. `curvature` is an estimate of that of −log p(y | labels) in x.

    `support` is what follows from them, if it is known; its labels may have moved since.
    """

    x: Array
    slab: Slab
    labels: Labels
    curvature: Array | None = None
    support: Support | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class State(Candidate):
    """A candidate with its log p(y, labels) and the report of the search for its parameters.

    `settled` says that this search was made with these labels.
    """

    evidence: float
    report: Report
    settled: bool = False


@dataclass(frozen=True)
class Step:
    """One entry of the trace: the state of the search after a round."""

    stage: str
    n_outliers: int
    n_groups: int
    replaced: bool
    evidence: float


@dataclass(frozen=True)
class Known:
    """Where an exact fit ended, for another to begin with: states by the episodes that go with them.

    The best explanation is the first, and the others are those that are averaged over. `none` is the state without
    episodes, where that is not the best, and `log_odds` are those of each episode of the best. `rivals` have almost the
    same evidence as the best, and quite different labels. All are of the readings that were `kept`, where some were
    not.
    """

    explanations: tuple[tuple[tuple[Run, ...], State], ...]
    none: State | None = None
    log_odds: tuple[float, ...] = ()
    rivals: tuple[State, ...] = ()
    kept: Mask | None = None

    def without_supports(self) -> Known:
        """The same to be kept: what follows from the best state is worked out anew where it is asked for."""
        (runs, best), *others = self.explanations
        return replace(self, explanations=((runs, replace(best, support=None)), *others))

    @property
    def without_episodes(self) -> State:
        return self.explanations[0][1] if self.none is None else self.none

    def is_at(self, state: State) -> bool:
        """Whether the best state is this one."""
        best = self.explanations[0][1]
        return np.array_equal(best.x, state.x) and np.array_equal(best.labels, state.labels)


@dataclass(frozen=True, kw_only=True)
class SparseBiasFit(FitResult):
    """A fitted sparse bias model: the best labels, and probability, mean and variance of each bias over labels.

    `slab` is that of the search, `groups` are the kinds of outlier for predictions. `log_evidence` is log p(y, labels);
    `leave_one_out` is Σ log p(yᵢ | the others).

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import SquaredExponential
    >>> from biasgp.models.problem import Problem
    >>> from biasgp.models.sparse import SparseBiasFit, fit
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.05 * np.cos(40.0 * X[:, 0])
    >>> y[[7, 20]] += 4.0
    >>> found = fit(Problem(X, y, SquaredExponential().bind(X), np.zeros(30)), 200, np.random.default_rng(0))
    >>> isinstance(found, SparseBiasFit), found.bias[[7, 20]].round().tolist()
    (True, [4.0, 4.0])
    """

    labels: Labels
    probability: Array
    bias: Array
    bias_variance: Array
    groups: tuple[Group, ...]
    slab: Slab
    log_evidence: float
    leave_one_out: float
    trace: tuple[Step, ...]
    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...] = ()
    doubt: float = 1.0
    """Mean variance of f at the readings over what it would be if labels (and, of few, parameters) were known."""
    episodes: tuple[Episode, ...] = ()
    alternatives: tuple[tuple[Episode, ...], ...] = ()
    """Explanations by other episodes that are almost as good; averaged over where there are episodes at all."""
    order: Array | None = None
    """The ordering variable at all readings, where there is one."""
    known: Known | None = None
    """Of an exact fit, for `refit` and for explanations."""
    tails: Tails | None = None
    """Of the noise, where it has heavier ones than the normal's."""
    labelled: bool = True
    """Whether readings could be outliers by themselves: False where no labelling of them was credible."""
    given_others: Array | None = None
    """Of a fit to many readings: mean and variance of f at each of them given the others."""

    @property
    def evidence(self) -> float:
        return self.log_evidence + self._noise_prior


class LabelledLikelihood:
    """−log p(y, θ | labels) with the group means at their estimates, and its gradient in (θ, log σ², log τ²).

    `latest` is where it was evaluated last, with the covariance there. `at_hand` are such, for the first evaluation.
    """

    def __init__(self, problem: Problem, slab: Slab, labels: Labels) -> None:
        self.problem, self.engine = problem, DenseEngine(problem.X, problem.shared)
        self.members = slab.loadings[labels]
        # Every column of Z has a coefficient with its own prior precision; at present all are group means.
        self.Z, self.prior_precision = self.members, slab.prior_precision
        self._columns = np.asfortranarray(np.column_stack([problem.y, self.Z]))
        self.layout = Layout(theta=len(problem.kernel.theta), noise=1, slab=self.members.shape[1])
        self.latest: tuple[Array, DenseCovariance] | None = None
        self.at_hand: tuple[Array, DenseCovariance] | None = None

    def __call__(self, x: Array) -> tuple[float, Array]:
        layout, Z = self.layout, self.Z
        variance, slab_variances = layout.value(x, "noise"), layout.values(x, "slab")
        self.latest = None  # not one more N×N array while the next are made
        if self.at_hand is not None and np.array_equal(x, self.at_hand[0]):
            (_, K), self.at_hand = self.at_hand, None
        else:
            kernel = self.problem.kernel.with_theta(x[layout["theta"]])
            K = self.engine.covariance(kernel, variance + self.problem.known + self.members @ slab_variances)
            self.latest = x.copy(), K
        solved = K.solve(self._columns)
        means = np.linalg.solve(Z.T @ solved[:, 1:] + np.diag(self.prior_precision), Z.T @ solved[:, 0])
        alpha = solved[:, 0] - solved[:, 1:] @ means
        found = K.negative_log_density(self.problem.y - Z @ means, alpha, each_noise=True, keep_inverse=True)
        by_slab = slab_variances * (self.members.T @ found.by_noise)
        cost, by_theta = self.problem.cost_of(x[layout["theta"]])
        gradient = np.concatenate([found.by_theta + by_theta, [variance * found.by_noise.sum()], by_slab])
        return found.value + cost + 0.5 * float(self.prior_precision @ means**2), gradient


class Search:
    """The data, the moves on them, and the trace of what was tried."""

    def __init__(self, problem: Problem, policy: SearchPolicy = POLICY) -> None:
        self.problem, self.policy = problem, policy
        self.X, self.y, self.kernel, self.known = problem.X, problem.y, problem.kernel, problem.known
        self.bounds = covariance_bounds(problem)
        self.trace: list[Step] = []
        self.ended: list[State] = []
        self.plain: Candidate | None = None
        """A plain GP to the same readings, where a start has made one."""
        # None, not an empty θ: a kernel may have no free parameters.
        self._covariance: tuple[Array, Array, Pullback] | None = None
        self._latest: tuple[Array, Support | None] = np.empty(0), None

    def refit(
        self, start: Candidate, max_iter: int, tolerance: float | None = None, earlier: Report | None = None
    ) -> tuple[Candidate, Report]:
        """Parameters and slab for given labels, from a start; or a continuation of an earlier search."""
        enough = self.policy.tolerance if tolerance is None else tolerance
        slab, labels, p = start.slab, self.problem.held(start.labels), len(start.x)
        rows: Rows = labels == 0 if slab.replaced else EVERYTHING
        objective = LabelledLikelihood(self.problem[rows], slab, labels[rows])
        x, bounds, curvature = start.x, self.bounds, start.curvature
        if not slab.replaced:
            x = np.append(x, np.log(slab.variances))
            limits = np.log([PRIOR.lowest_variance, PRIOR.highest_variance])
            bounds = np.vstack([bounds, np.tile(limits, (slab.n_groups, 1))])
            if curvature is not None:
                information = slab.information(float(np.exp(start.x[-1])), labels)
                curvature = np.pad(curvature, (0, slab.n_groups)) + np.diag([*np.zeros(p), *information])
        if earlier is not None:
            x, report = earlier.x, go_on(objective, earlier, bounds, max_iter, enough)
        else:
            objective.at_hand = self._at_hand(x, replace(start, labels=labels))
            report = minimize(objective, x, bounds, max_iter, curvature, enough)
        if slab.replaced:
            out = labels > 0
            noise = float(np.exp(report.x[p - 1]) + np.mean(self.known[out])) if out.any() else 0.0
            slab = Slab.of_replaced(self.y[out], slab.mean_variance, noise)
        else:
            if not np.array_equal(x, report.x):  # else what is known of the start stays known
                slab = replace(slab, variances=tuple(np.exp(report.x[p:]).tolist()))
            if objective.latest is not None and np.array_equal(objective.latest[0], report.x):
                self._keep(objective.latest[1], Candidate(report.x[:p], slab, labels))
        return Candidate(report.x[:p], slab, labels, report.first(p).curvature), report

    def support(self, at: Candidate) -> Support:
        """What follows from a candidate, ready to move. The latest is kept, and C for the latest θ."""
        if (known := self._known_support(at)) is not None:
            return known
        at = replace(at, labels=self.problem.held(at.labels))
        if (inverse := self.inverse_at(at)) is not None:
            return self.know(at, replace(inverse, Q=inverse.Q.copy()))
        return self.know(at, self.covariance_at(at.x[:-1])[0])

    def _known_support(self, at: Candidate) -> Support | None:
        """What follows from a candidate, where that is at hand."""
        return next((known for known in self._known_at(at) if known.is_at(at.slab, at.labels)), None)

    def _known_at(self, at: Candidate) -> Iterator[Support]:
        """What is at hand at the parameters of a candidate, by whatever labels."""
        for x, known in ((at.x, at.support), self._latest):
            if known is not None and np.array_equal(x, at.x):
                yield known

    def inverse_at(self, at: Candidate) -> Inverse | None:
        """The inverse at a candidate, where it is at hand: another slab without readings has the same."""
        noise = at.slab.added[at.labels]
        for known in self._known_at(at):
            replaced = known.slab.replaced or at.slab.replaced
            if not replaced and np.array_equal(known.added[known.labels], noise):
                return Inverse(known.C, known.Q, known.logdet)
        return None

    def recall(self, at: Candidate) -> None:
        """What is known of a candidate is the latest again."""
        if (known := self._known_support(at)) is not None:
            self._latest = at.x.copy(), known

    def know(self, at: Candidate, C: Array | Inverse) -> Support:
        """What follows from a candidate by C, or by the inverse there, which is its own from then on: the latest."""
        noise = np.exp(at.x[-1]) + self.known
        support = Support(C, self.y, noise, at.slab, at.labels).holding(self.problem.fixed)
        self._latest = at.x.copy(), support
        return support

    def covariance_at(self, theta: Array) -> tuple[Array, Pullback]:
        """C and its pullback; the latest are kept."""
        if self._covariance is None or not np.array_equal(self._covariance[0], theta):
            self._covariance = None
            C, pullback = self.kernel.with_theta(theta).vjp(self.X)
            shared = self.problem.shared
            self._covariance = theta.copy(), C if shared is None else C + shared @ shared.T, pullback
        return self._covariance[1:]

    def know_beside(self, bare: Search, at: Candidate) -> None:
        """Take over what a search without the shared columns knows of a candidate."""
        shared, known = self.problem.shared, bare.inverse_at(at)
        if known is not None and shared is not None:
            C, pullback = bare.covariance_at(at.x[:-1])
            self._covariance = at.x[:-1].copy(), C + shared @ shared.T, pullback
            self.know(at, known.with_columns(self._covariance[1], shared))

    def know_without(self, search: Search, at: Candidate) -> None:
        """Take over what a search with shared columns knows of a candidate, where this one knows nothing of it."""
        bare, shared, known = replace(at, support=None), search.problem.shared, search.inverse_at(at)
        if known is not None and shared is not None and self.inverse_at(bare) is None:
            known = known.without_columns(self.covariance_at(at.x[:-1])[0], shared)
            if known is not None:
                self.know(bare, known)

    def _at_hand(self, x: Array, start: Candidate) -> tuple[Array, DenseCovariance] | None:
        """K at the start of a search, where its inverse is at hand: moves of labels have kept it up to date."""
        support = None if start.slab.replaced else self._known_support(start)
        if support is None:
            return None
        C, pullback = self.covariance_at(start.x[:-1])
        kernel, noise = self.kernel.with_theta(start.x[:-1]), support.clean_noise + support.added[start.labels]
        known = Inverse(C, support.Q, support.logdet)
        return x, DenseEngine(self.X).from_inverse(kernel, noise, pullback, known)

    def _keep(self, K: DenseCovariance, at: Candidate) -> None:
        """What a search for parameters has made at its end serves for the labels: nothing is factorised twice."""
        self._covariance = at.x[:-1].copy(), K.C, K.pullback
        self.know(at, K.known())

    def improve(self, stage: str, start: Candidate, best: State | None = None, slack: float = np.inf) -> State:
        """The better of the best state and the one that a start leads to: parameters and labels in turn.

        A start whose evidence is further behind than the slack is not followed. The search ends where neither moves, or
        where it will not get ahead of the best state.
        """
        if best is not None and slack < np.inf and self.evidence_at(start) < best.evidence - slack:
            return best
        policy, at = self.policy, start
        before, earlier = -np.inf, None
        iterations, tolerance = policy.round_iterations, policy.first_tolerance
        for _ in range(policy.max_rounds):
            at, report = self.refit(at, iterations, tolerance, earlier)
            if best is None:
                iterations, tolerance = policy.later_iterations, policy.tolerance
            else:
                iterations, tolerance = policy.round_iterations, policy.rival_tolerance
            support = self.support(at)
            moved = support.climb()
            at, evidence = replace(at, labels=support.labels), self.record(stage, support, at.x)
            done = not moved and (report.promise <= tolerance or evidence < before + policy.rival_tolerance)
            before, earlier = evidence, None if moved else report
            promise = np.inf if moved else report.promise
            if done or (best is not None and self._is_behind(at.labels, evidence, promise, best)):
                break
        labels = at.labels.copy()
        state = State(at.x, at.slab, labels, at.curvature, evidence=evidence, report=report, settled=not moved)
        self.ended.append(state)
        if best is not None and evidence <= best.evidence:
            return best
        return replace(state, support=support)

    def converged(self, state: State, max_iter: int) -> State:
        """Parameters to the tolerance of the end, and the labels that go with them."""
        at, report = self.refit(state, max_iter, earlier=state.report if state.settled else None)
        if np.array_equal(at.x, state.x) and at.slab == state.slab:
            at = replace(at, support=state.support)
        at = self.with_constant_shifts(at)
        support = self.support(at)
        support.climb()
        labels, report = support.labels.copy(), report.first(len(at.x))
        evidence = self.record("final", support, at.x)
        return State(at.x, at.slab, labels, at.curvature, support, evidence=evidence, report=report)

    def recalled(self, state: State) -> tuple[State, bool]:
        """A state of an earlier fit to the same readings, and whether the verdicts leave it as it is.

        Where they do not, parameters and labels are improved from there.
        """
        support = self.support(replace(state, labels=self.problem.held(state.labels), support=None))
        support.climb()
        if np.array_equal(support.labels, state.labels):
            return replace(state, support=support), True
        start = Candidate(state.x, state.slab, support.labels.copy(), state.curvature)
        policy, self.policy = self.policy, self.policy.quick(self.policy.rounds_after_verdicts)
        found, self.policy = self.improve("verdicts", start), policy
        return found, False

    def _is_behind(self, labels: Labels, evidence: float, promise: float, best: State) -> bool:
        """Whether a search has nothing new to find, or is too far behind the best state."""
        same = evidence <= best.evidence + self.policy.same_gap and np.array_equal(labels, best.labels)
        hopeless = evidence + OPTIMIZER.optimism * promise < best.evidence
        return same or hopeless or evidence < best.evidence - self.policy.hopeless_gap

    def evidence(self, support: Support, x: Array) -> float:
        """log p(y, labels, θ) less the BIC penalty of the slab."""
        return support.log_evidence() - self._penalty(support.slab, support.labels, x)

    def _penalty(self, slab: Slab, labels: Labels, x: Array) -> float:
        return slab.bic_penalty(labels) + self.problem.cost_of(x[:-1])[0]

    def record(self, stage: str, support: Support, x: Array) -> float:
        """The evidence, which goes into the trace."""
        slab, labels, evidence = support.slab, support.labels, self.evidence(support, x)
        self.trace.append(Step(stage, int((labels > 0).sum()), slab.n_groups, slab.replaced, evidence))
        return evidence

    def evidence_at(self, at: Candidate) -> float:
        """The same for a candidate, before anything is fitted."""
        if (known := self._known_support(at)) is not None:
            return self.evidence(known, at.x)
        C, labels = self.covariance_at(at.x[:-1])[0], self.problem.held(at.labels)
        value = log_evidence(C, self.y, np.exp(at.x[-1]) + self.known, at.slab, labels)
        return value - self._penalty(at.slab, labels, at.x)

    def with_constant_shifts(self, at: Candidate) -> Candidate:
        """The same with one bias for all readings of a group, where the evidence is not against it.

        A variance that is fitted to few outliers is often too large, and readings between them and the clean ones would
        then too often be taken for outliers.
        """
        for g in range(0 if at.slab.replaced else at.slab.n_groups):
            old = at.slab.variances
            if not at.slab.is_constant(g) and old[g] <= np.exp(at.x[-1]):
                slab = replace(at.slab, variances=(*old[:g], PRIOR.lowest_variance, *old[g + 1 :]))
                both = (replace(each, support=self.support(each)) for each in (at, replace(at, slab=slab)))
                at = max(both, key=self.evidence_at)
        return at

    def looks_non_gaussian(self, state: State, limits: tuple[float, float]) -> bool:
        """Whether the residuals of a state's clean readings do not look like noise."""
        return not looks_like_noise(self.support(state).standardised_residuals(), *limits)

    def bias(self, state: State) -> Array:
        """E δ of each reading for given labels."""
        support = self.support(state)
        means, _ = support.posterior_of_means()
        own = support.added[state.labels] * (support.Qy - support.U @ means)
        return np.asarray((support.loadings @ means)[state.labels] + own)

    def rivals(self, best: State) -> list[State]:
        """Where searches ended with almost the same evidence and quite different labels; the majority is the signal."""
        flagged, policy = best.labels > 0, self.policy
        different = policy.rival_difference * max(int(flagged.sum()), policy.rival_flags)
        return [
            state
            for state in self.ended
            if state.evidence > best.evidence - policy.rival_gap
            and int(((state.labels > 0) != flagged).sum()) > different
            and np.mean(state.labels > 0) <= PRIOR.max_share
        ]


def at_lower_bound(kernel: Kernel, report: Report) -> list[str]:
    """The names of the noise and of the length-scales that sit on their lower bounds."""
    names = [*kernel.parameter_names, "the noise"]
    return [name for name, low in zip(names, report.at_lower, strict=True) if low and "variance" not in name]
