"""The search for labels: which readings are outliers, with the parameters and the slab that go with them.

Parameters by BFGS and labels by moves, in turn, each of which raises log p(y, labels). `starts` has where it begins;
all ends are compared by the same measure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from biasgp._typing import Array
from biasgp.covariance.dense_engine import DenseEngine
from biasgp.models.diagnosis import looks_like_noise
from biasgp.models.problem import EVERYTHING, Layout, Problem, Rows
from biasgp.models.sparse.kinds import (
    LOWEST_VARIANCE,
    Labels,
    Slab,
    bic_penalty,
    fisher_information,
    replaced_slab,
)
from biasgp.models.sparse.labels import Support, log_evidence
from biasgp.models.strategy import covariance_bounds
from biasgp.optimize import POLICY, Report, go_on, minimize

SLAB_RANGE = (LOWEST_VARIANCE, 1e6)
"""Of the variance of a group's biases, in units of y's robust variance."""


@dataclass(frozen=True)
class SearchPolicy:
    """How much work each round of parameters and labels is worth; chosen by benchmarks/accuracy.py and speed.py.

    Gains are of log evidence, in nats: one that is smaller than the tolerance is not worth another evaluation.
    """

    max_rounds: int = 8
    round_iterations: int = 4
    """Of the search for parameters, in the first round and wherever a rival is known."""
    later_iterations: int = 10
    """After the first round, where no rival is known."""
    first_tolerance: float = 0.5
    """Before the labels have moved once."""
    rival_tolerance: float = 0.1
    """Where a rival is known."""
    tolerance: float = 1e-3
    """For what is the first to be found, and at the end: parameters are then within a twentieth of their standard
    errors."""
    hopeless_gap: float = 20.0
    """A search this far behind the best known state is given up."""
    rival_gap: float = 3.0
    rival_difference: float = 0.2
    """An end counts as a rival no further behind than the first, if so large a share of the flags differs."""


@dataclass(frozen=True)
class State:
    """Parameters (θ, log σ²), slab and labels, with log p(y, labels).

    `report` is of the search for the parameters; `settled` says that it was made with these labels. `support` is what
    follows from it all, kept while the state is the best.
    """

    x: Array
    slab: Slab
    labels: Labels
    evidence: float
    report: Report
    settled: bool = False
    support: Support | None = None

    @property
    def curvature(self) -> Array | None:
        """Of −log p(y | labels) in x."""
        return leading_block(self.report, len(self.x))

    def is_ahead_of(self, labels: Labels, evidence: float, gap: float) -> bool:
        """Whether a search that came to these labels has nothing new to find, or is too far behind to go on with."""
        same = evidence <= self.evidence + 0.5 and np.array_equal(labels, self.labels)
        return same or evidence < self.evidence - gap


@dataclass(frozen=True)
class Step:
    """One entry of the trace: where the search stood."""

    stage: str
    n_outliers: int
    n_groups: int
    replaced: bool
    evidence: float


class LabelledLikelihood:
    """−log p(y | labels) with the group means at their estimates, and its gradient in (θ, log σ², log τ²)."""

    def __init__(self, problem: Problem, slab: Slab, labels: Labels) -> None:
        self.problem, self.engine = problem, DenseEngine(problem.X)
        self.mean_precision = 1.0 / slab.mean_variance
        self.Z = slab.indicators(labels)
        self.layout = Layout(theta=len(problem.kernel.theta), noise=1, slab=self.Z.shape[1])

    def __call__(self, x: Array) -> tuple[float, Array]:
        layout, Z = self.layout, self.Z
        variance, slab_variances = layout.value(x, "noise"), layout.values(x, "slab")
        kernel = self.problem.kernel.with_theta(x[layout["theta"]])
        K = self.engine.covariance(kernel, variance + self.problem.known + Z @ slab_variances)
        solved = K.solve(np.column_stack([self.problem.y, Z]))
        precision = Z.T @ solved[:, 1:] + self.mean_precision * np.eye(Z.shape[1])
        means = np.linalg.solve(precision, Z.T @ solved[:, 0])
        found = K.negative_log_density(self.problem.y - Z @ means, each_noise=True)
        by_slab = slab_variances * (Z.T @ found.by_noise)
        gradient = np.concatenate([found.by_theta, [variance * found.by_noise.sum()], by_slab])
        return found.value + 0.5 * self.mean_precision * float(means @ means), gradient


class Search:
    """The data, the moves on them, and the trace of what was tried."""

    def __init__(self, problem: Problem, policy: SearchPolicy = SearchPolicy()) -> None:  # noqa: B008
        self.problem, self.policy = problem, policy
        self.X, self.y, self.kernel, self.known = problem.X, problem.y, problem.kernel, problem.known
        self.bounds = covariance_bounds(problem)
        self.trace: list[Step] = []
        self.ended: list[State] = []
        # A kernel may have no parameters that are free: then θ is empty, and what was computed for it must be known.
        self._covariance: tuple[Array, Array] | None = None
        self._latest: tuple[Array, Support | None] = np.empty(0), None

    def refit(
        self,
        x: Array,
        slab: Slab,
        labels: Labels,
        max_iter: int,
        curvature: Array | None = None,
        tolerance: float | None = None,
        earlier: Report | None = None,
    ) -> tuple[Array, Slab, Report]:
        """Parameters for given labels, from x, with a guess of the curvature there; or on from an earlier search."""
        enough = self.policy.tolerance if tolerance is None else tolerance
        rows: Rows = labels == 0 if slab.replaced else EVERYTHING
        objective = LabelledLikelihood(self.problem[rows], slab, labels[rows])
        bounds, p = self.bounds, len(x)
        if not slab.replaced:
            bounds = np.vstack([bounds, np.log(np.tile(SLAB_RANGE, (slab.n_groups, 1)))])
        if earlier is not None:
            report = go_on(objective, earlier, bounds, max_iter, enough)
        elif slab.replaced:
            report = minimize(objective, x, bounds, max_iter, curvature, enough)
        else:
            if curvature is not None:
                curvature = np.pad(curvature, (0, slab.n_groups)) + np.diag(
                    [*np.zeros(p), *fisher_information(x, slab, labels)]
                )
            report = minimize(objective, np.append(x, np.log(slab.variances)), bounds, max_iter, curvature, enough)
        if slab.replaced:
            return report.x, replaced_slab(self.y[labels > 0], slab.mean_variance), report
        return report.x[:p], replace(slab, variances=tuple(np.exp(report.x[p:]).tolist())), report

    def support(self, x: Array, slab: Slab, labels: Labels) -> Support:
        """Labels at parameters x, ready to move."""
        at, latest = self._latest
        if latest is None or not latest.is_at(slab, labels) or not np.array_equal(at, x):
            latest = Support(self.covariance(x[:-1]), self.y, np.exp(x[-1]) + self.known, slab, labels)
            self._latest = x.copy(), latest
        return latest

    def covariance(self, theta: Array) -> Array:
        """C of the readings at θ; the latest is kept."""
        if self._covariance is None or not np.array_equal(self._covariance[0], theta):
            self._covariance = theta.copy(), self.kernel.with_theta(theta)(self.X)
        return self._covariance[1]

    def support_of(self, state: State) -> Support:
        """What follows from a state, to look at."""
        kept = state.support
        if kept is not None and kept.is_at(state.slab, state.labels):
            return kept
        return self.support(state.x, state.slab, state.labels)

    def alternate(
        self,
        stage: str,
        x: Array,
        slab: Slab,
        labels: Labels,
        best: State | None = None,
        curvature: Array | None = None,
    ) -> State:
        """Parameters and labels in turn, until neither moves, or until a state that is known already is ahead."""
        policy = self.policy
        before, earlier = -np.inf, None
        iterations, tolerance = policy.round_iterations, policy.first_tolerance
        for _ in range(policy.max_rounds):
            x, slab, report = self.refit(x, slab, labels, iterations, curvature, tolerance, earlier)
            if best is None:
                iterations, tolerance = policy.later_iterations, policy.tolerance
            else:
                iterations, tolerance = policy.round_iterations, policy.rival_tolerance
            curvature = leading_block(report, len(x))
            support = self.support(x, slab, labels)
            moved = support.climb(len(self.y))
            labels, evidence = support.labels, support.log_evidence() - bic_penalty(slab, support.labels)
            self.trace.append(Step(stage, int((labels > 0).sum()), slab.n_groups, slab.replaced, evidence))
            done = not moved and (report.promise <= tolerance or evidence < before + policy.rival_tolerance)
            before, earlier = evidence, None if moved else report
            hopeless = best is not None and not moved and evidence + POLICY.optimism * report.promise < best.evidence
            if done or hopeless or (best is not None and best.is_ahead_of(labels, evidence, policy.hopeless_gap)):
                break
        state = State(x, slab, labels.copy(), evidence, report, not moved)
        self.ended.append(state)
        return replace(state, support=support)

    def evidence_at(self, x: Array, slab: Slab, labels: Labels) -> float:
        """log p(y, labels) as it stands, less the cost of the slab's parameters."""
        C, noise = self.covariance(x[:-1]), np.exp(x[-1]) + self.known
        return log_evidence(C, self.y, noise, slab, labels) - bic_penalty(slab, labels)

    def better(self, best: State, stage: str, x: Array, slab: Slab, labels: Labels, slack: float) -> State:
        """The better of a state and of what another start leads to, unless that begins too far behind."""
        if self.evidence_at(x, slab, labels) < best.evidence - slack:
            return best
        return max(best, self.alternate(stage, x, slab, labels, best, best.curvature), key=by_evidence)

    def residuals_look_non_gaussian(self, state: State, limits: tuple[float, float]) -> bool:
        """Whether the readings that a state takes for clean do not look like noise."""
        return not looks_like_noise(self.support_of(state).standardised_residuals(), *limits)

    def bias(self, state: State) -> Array:
        """E δ of each reading for given labels."""
        support = self.support_of(state)
        means, _ = support.posterior_of_means()
        return np.asarray(support.indicators @ means + support.added[state.labels] * (support.Qy - support.U @ means))

    def n_rivals(self, best: State) -> int:
        """How many searches ended almost as well with labels that are quite different."""
        flagged = best.labels > 0
        different = self.policy.rival_difference * max(int(flagged.sum()), 20)
        return sum(
            state.evidence > best.evidence - self.policy.rival_gap
            and int(((state.labels > 0) != flagged).sum()) > different
            for state in self.ended
        )

    def bounded(self, report: Report) -> list[str]:
        """The noise and the length-scales that sit on their lowest value."""
        names = [*self.kernel.parameter_names, "the noise"]
        low = report.at_lower[: len(names)]
        return [name for name, at_low in zip(names, low, strict=True) if at_low and "variance" not in name]


def leading_block(report: Report, p: int) -> Array | None:
    """The curvature in the first p unknowns, where it is known."""
    return None if report.curvature is None else report.curvature[:p, :p]


def by_evidence(state: State) -> float:
    """What states are compared by."""
    return state.evidence
