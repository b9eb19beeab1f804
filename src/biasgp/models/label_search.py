"""The search for labels: which readings are outliers, with the parameters and the slab that go with them.

Parameters by BFGS and labels by moves, in turn, each of which raises log p(y, labels); from several starts, with all
or some of the readings, compared by the same measure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array
from biasgp.covariance import DenseCovariance
from biasgp.kernels import Kernel
from biasgp.models import constant_bias
from biasgp.models.diagnosis import looks_like_noise
from biasgp.models.gaussian import LOG_2PI
from biasgp.models.label_pairs import climb_in_pairs
from biasgp.models.posterior import AveragedPosterior
from biasgp.models.search import EVERYTHING, Rows, covariance_bounds, covariance_starts
from biasgp.models.slabs import CONSTANT, first_slabs, informed, is_constant, occam, replaced_slab, widened
from biasgp.models.support import Labels, Slab, Support, log_evidence, log_normal
from biasgp.optimize import SANGUINE, Report, follow, go_on, minimize, screen
from biasgp.response import MAD_TO_STD

START_RESIDUAL = 2.0
"""Readings that start as outliers: those this many noise standard deviations from the constant bias fit."""
MAX_ROUNDS, ROUND_ITERATIONS, MORE_ITERATIONS, FEW_ITERATIONS, FIRST_LOOK = 8, 4, 10, 15, 2
"""Rounds of parameters and labels; iterations of a round, of one after the first where there is no rival yet, of a
search that is not to go far, and before a start is looked at."""
LENGTH_LOOKS = (1, 1)
"""Iterations after which other starts of the length-scales are compared."""
AT_FIRST, ENOUGH, ROUGHLY = 0.5, 0.1, 1e-3
"""Gain in log evidence that is not worth another evaluation: before the labels have moved once, then for rivals of
what is known already, and for what is the first to be found."""
SLAB_RANGE = (CONSTANT, 1e6)
MAX_GROUPS = 3
NEAR, FAR = 5.0, 20.0
"""A start is followed if its log evidence, before anything is fitted, is no further behind than this."""
MAX_PICKS, DIFFERENT = 3, 0.04
"""How many ends of a search on fewer readings are followed, each with so large a share of its flags its own."""
RIVAL_GAP, RIVAL_DIFFERENCE = 3.0, 0.2
"""A rival's log evidence is no further behind than this, and so large a share of the flags differs."""
LONGER = (2.5, 7.0)
"""Factors by which length-scales are stretched to look for runs of outliers."""
MAX_SHARE = 0.5
"""No start flags more than this: the majority is what the signal is."""
SOME_NOISE = 0.05
"""A variance to start from where the noise was lost, in units of y's robust variance."""
SUSPICION = 8.0
"""Log odds against being an outlier up to which a reading is a suspect."""
IN_THE_LEAST = (1.5, 1.5)
"""Standard errors by which skewness and kurtosis of the residuals differ from noise's, where another start is tried."""


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

    def is_ahead_of(self, labels: Labels, evidence: float) -> bool:
        """Whether a search that came to these labels has nothing new to find, or is too far behind to go on with."""
        same = evidence <= self.evidence + 0.5 and np.array_equal(labels, self.labels)
        return same or evidence < self.evidence - FAR


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

    def __init__(self, X: Array, y: Array, kernel: Kernel, known: Array, slab: Slab, labels: Labels) -> None:
        self.X, self.y, self.kernel, self.known = X, y, kernel, known
        self.mean_precision = 1.0 / slab.mean_variance
        self.Z = slab.indicators(labels)

    def __call__(self, x: Array) -> tuple[float, Array]:
        (n, g), p = self.Z.shape, len(x) - self.Z.shape[1]
        variance, slab_variances = np.exp(x[p - 1]), np.exp(x[p:])
        noise = variance + self.known + self.Z @ slab_variances
        K = DenseCovariance(self.kernel.with_theta(x[: p - 1]), self.X, noise)
        solved = K.solve(np.column_stack([self.y, self.Z]))
        means = np.linalg.solve(self.Z.T @ solved[:, 1:] + self.mean_precision * np.eye(g), self.Z.T @ solved[:, 0])
        alpha = solved[:, 0] - solved[:, 1:] @ means
        fit = (self.y - self.Z @ means) @ alpha + self.mean_precision * means @ means
        by_theta, by_noise = K.gradient(alpha)
        gradient = np.concatenate([by_theta, [variance * by_noise.sum()], slab_variances * (self.Z.T @ by_noise)])
        return 0.5 * float(n * LOG_2PI + K.logdet + fit), gradient


class Search:
    """The data, the moves on them, and the trace of what was tried."""

    def __init__(self, X: Array, y: Array, kernel: Kernel, known: Array) -> None:
        self.X, self.y, self.kernel, self.known = X, y, kernel, known
        self.bounds = covariance_bounds(kernel, X, y)
        self.trace: list[Step] = []
        self.ended: list[State] = []
        self._covariance = np.empty(0), np.empty((0, 0))
        self._latest: tuple[Array, Support | None] = np.empty(0), None

    def refit(
        self,
        x: Array,
        slab: Slab,
        labels: Labels,
        max_iter: int,
        curvature: Array | None = None,
        enough: float = ROUGHLY,
        earlier: Report | None = None,
    ) -> tuple[Array, Slab, Report]:
        """Parameters for given labels, from x, with a guess of the curvature there; or on from an earlier search."""
        rows: Rows = labels == 0 if slab.replaced else EVERYTHING
        objective = LabelledLikelihood(self.X[rows], self.y[rows], self.kernel, self.known[rows], slab, labels[rows])
        bounds, p = self.bounds, len(x)
        if not slab.replaced:
            bounds = np.vstack([bounds, np.log(np.tile(SLAB_RANGE, (slab.n_groups, 1)))])
        if earlier is not None:
            report = go_on(objective, earlier, bounds, max_iter, enough)
        elif slab.replaced:
            report = minimize(objective, x, bounds, max_iter, curvature, enough)
        else:
            if curvature is not None:
                curvature = np.pad(curvature, (0, slab.n_groups)) + np.diag([*np.zeros(p), *informed(x, slab, labels)])
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
        if not np.array_equal(self._covariance[0], theta):
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
        before, earlier = -np.inf, None
        iterations, enough = ROUND_ITERATIONS, AT_FIRST
        for _ in range(MAX_ROUNDS):
            x, slab, report = self.refit(x, slab, labels, iterations, curvature, enough, earlier)
            iterations, enough = (MORE_ITERATIONS, ROUGHLY) if best is None else (ROUND_ITERATIONS, ENOUGH)
            curvature = leading_block(report, len(x))
            support = self.support(x, slab, labels)
            moved = support.climb(len(self.y))
            labels, evidence = support.labels, support.log_evidence() - occam(slab, support.labels)
            self.trace.append(Step(stage, int((labels > 0).sum()), slab.n_groups, slab.replaced, evidence))
            done = not moved and (report.promise <= enough or evidence < before + ENOUGH)
            before, earlier = evidence, None if moved else report
            hopeless = best is not None and not moved and evidence + SANGUINE * report.promise < best.evidence
            if done or hopeless or (best is not None and best.is_ahead_of(labels, evidence)):
                break
        state = State(x, slab, labels.copy(), evidence, report, not moved)
        self.ended.append(state)
        return replace(state, support=support)

    def evidence_at(self, x: Array, slab: Slab, labels: Labels) -> float:
        """log p(y, labels) as it stands, less the cost of the slab's parameters."""
        C, noise = self.covariance(x[:-1]), np.exp(x[-1]) + self.known
        return log_evidence(C, self.y, noise, slab, labels) - occam(slab, labels)

    def better(self, best: State, stage: str, x: Array, slab: Slab, labels: Labels, slack: float) -> State:
        """The better of a state and of what another start leads to, unless that begins too far behind."""
        if self.evidence_at(x, slab, labels) < best.evidence - slack:
            return best
        return max(best, self.alternate(stage, x, slab, labels, best, best.curvature), key=by_evidence)

    def from_constant_bias(self) -> State:
        """From rough constant bias fits: the readings far from them are the first outliers."""
        best: State | None = None
        for i, cob in enumerate(constant_bias.rough_fits(self.X, self.y, self.kernel, self.known, FEW_ITERATIONS)):
            residual = self.y - cob.posterior.mean(self.X)
            # A small k has a small σ; then the residuals' own spread is the better measure.
            spread = max(cob.noise_variance, (MAD_TO_STD * float(np.median(np.abs(residual)))) ** 2)
            far = np.abs(residual) > START_RESIDUAL * np.sqrt(spread + self.known)
            x = np.append(cob.kernel.theta, np.log(cob.noise_variance))
            curvature = leading_block(cob.report, len(x))
            for slab, labels in first_slabs(residual, far, cob.noise_variance):
                if best is not None and self.leads_to(best, labels):
                    continue
                state = self.alternate("constant bias", x, slab, labels, best, curvature)
                best = state if best is None else max(best, state, key=by_evidence)
            if i == 1 and best is not None and not self.is_denied(best, IN_THE_LEAST):
                break  # the lopsided fit is for outliers that are so many that they pass for signal or noise
        assert best is not None
        return best

    def is_denied(self, state: State, limits: tuple[float, float]) -> bool:
        """Whether the readings that a state takes for clean do not look like noise."""
        return not looks_like_noise(self.support_of(state), *limits)

    def leads_to(self, best: State, labels: Labels) -> bool:
        """Whether single moves from these labels, at the parameters of a state, end in that state."""
        if labels.max(initial=0) > best.slab.n_groups:
            return False
        support = self.support(best.x, best.slab, labels)
        support.climb(len(self.y))
        return np.array_equal(support.labels, best.labels)

    def from_other_lengths(self, best: State, rows: Rows = EVERYTHING) -> State:
        """From the usual starts of the length-scales with the same labels: a likelihood has several maxima."""
        if best.slab.replaced:
            return best
        objective = LabelledLikelihood(
            self.X[rows], self.y[rows], self.kernel, self.known[rows], best.slab, best.labels[rows]
        )
        extra = np.log(best.slab.variances)
        bounds = np.vstack([self.bounds, np.column_stack([extra, extra])])
        here = objective(np.append(best.x, extra))[0]
        starts = [np.append(start, extra) for start in covariance_starts(self.kernel)]
        other = screen(objective, starts, bounds, LENGTH_LOOKS)
        other = follow(objective, other, bounds, FEW_ITERATIONS, here, ENOUGH)
        if other.value > here:
            return best
        return self.better(best, "other lengths", other.x[: -len(extra)], best.slab, best.labels, 0.0)

    def from_longer_lengths(self, best: State) -> State:
        """From a smoother f: a run of outliers next to one another looks like a feature to a short length-scale."""
        kernel = self.kernel.with_theta(best.x[:-1])
        for factor in LONGER:
            x = np.append(kernel.stretched(factor).theta, best.x[-1])
            x = np.clip(x, self.bounds[:, 0], self.bounds[:, 1])
            support = self.support(x, best.slab, best.labels)
            support.climb(len(self.y) // 2)
            if np.mean(support.labels > 0) < MAX_SHARE:
                found = self.alternate("longer lengths", x, best.slab, support.labels, best, best.curvature)
                best = max(best, found, key=by_evidence)
        return best

    def from_more_noise(self, best: State) -> State:
        """From the same labels with some noise, where it fell as low as it may: f follows single readings there."""
        if not best.report.at_lower[len(best.x) - 1]:
            return best
        x = np.append(best.x[:-1], np.log(SOME_NOISE))
        return max(best, self.alternate("more noise", x, best.slab, best.labels, best), key=by_evidence)

    def from_no_outlier(self, best: State) -> State:
        """From a plain GP."""
        nobody = np.zeros(len(self.y), dtype=np.intp)
        slab = replace(best.slab, variances=best.slab.variances[:1])
        spread = np.exp(best.x[-1]) + float(np.mean(self.bias(best) ** 2))
        start = np.append(best.x[:-1], np.log(spread))
        x, _, report = self.refit(start, slab, nobody, FIRST_LOOK, best.curvature)
        if self.evidence_at(x, slab, nobody) + SANGUINE * report.promise < best.evidence - FAR:
            return best
        x, _, _ = self.refit(x, slab, nobody, FEW_ITERATIONS, leading_block(report, len(x)))
        return self.better(best, "no outlier", x, slab, nobody, NEAR)

    def bias(self, state: State) -> Array:
        """E δ of each reading for given labels."""
        support = self.support_of(state)
        means, _ = support.posterior_of_means()
        return np.asarray(support.indicators @ means + support.added[state.labels] * (support.Qy - support.U @ means))

    def from_few(self, few: Search, rows: NDArray[np.intp]) -> State:
        """From the best that was found on some of the readings, and from others that differ and are not far behind."""
        self.trace += few.trace
        picked: list[State] = []
        best: State | None = None
        for state in sorted(few.ended, key=by_evidence, reverse=True):
            seen = any(np.mean((state.labels > 0) != (other.labels > 0)) < DIFFERENT for other in picked)
            if seen or (picked and state.evidence < picked[0].evidence - FAR) or len(picked) == MAX_PICKS:
                continue
            picked.append(state)
            slab, labels = self.seen_from(few, state, rows)
            growth = len(self.y) / len(rows)
            curvature = None if state.curvature is None else growth * state.curvature
            found = self.alternate("all readings", state.x, slab, labels, best, curvature)
            best = found if best is None else max(best, found, key=by_evidence)
        assert best is not None
        return best

    def seen_from(self, few: Search, state: State, rows: NDArray[np.intp]) -> tuple[Slab, Labels]:
        """Slab and labels for these readings from a state found on `rows` of them."""
        support = few.support_of(state)
        means, _ = support.posterior_of_means()
        kernel = self.kernel.with_theta(state.x[:-1])
        posterior = AveragedPosterior(kernel, few.X, support.Qy - support.U @ means, support.Q)
        f, variance = posterior.mean_and_variance(self.X)
        noise = variance + np.exp(state.x[-1]) + self.known
        counts = np.bincount(state.labels, minlength=state.slab.n_groups + 1)
        weights = np.log(counts + 1.0)
        columns = [weights[0] + log_normal(self.y - f, noise)]
        for g, extra in enumerate(state.slab.variances):
            columns.append(weights[g + 1] + log_normal(self.y - f - means[g], noise + extra))
        labels: Labels = np.column_stack(columns).argmax(axis=1)
        labels[rows] = state.labels
        return widened(state.slab, self.y - f, noise, labels), labels

    def n_rivals(self, best: State) -> int:
        """How many searches ended almost as well with labels that are quite different."""
        flagged = best.labels > 0
        different = RIVAL_DIFFERENCE * max(int(flagged.sum()), 20)
        return sum(
            state.evidence > best.evidence - RIVAL_GAP and int(((state.labels > 0) != flagged).sum()) > different
            for state in self.ended
        )

    def bounded(self, report: Report) -> list[str]:
        """The noise and the length-scales that sit on their lowest value."""
        names = [*self.kernel.parameter_names, "the noise"]
        low = report.at_lower[: len(names)]
        return [name for name, at_low in zip(names, low, strict=True) if at_low and "variance" not in name]

    def other_slabs(self, best: State) -> State:
        """Replaced readings; or one more group, as long as that is better."""
        shifted, out = best, best.labels > 0
        if out.sum() >= 2 and out.mean() < MAX_SHARE:
            slab = replaced_slab(self.y[out], best.slab.mean_variance)
            best = self.better(best, "replaced", best.x, slab, out.astype(np.intp), NEAR)
        while shifted.slab.n_groups < MAX_GROUPS:
            split = self.split_widest_group(shifted)
            following = best if split is None else self.better(best, "split", shifted.x, *split, NEAR)
            if following is best:
                break
            best = shifted = following
        return best

    def completed(self, state: State) -> State:
        """With the slab and the labels that single moves from a start do not lead to."""
        return self.with_pairs(self.with_suspects(self.other_slabs(state)))

    def with_constant_shifts(self, x: Array, slab: Slab, labels: Labels) -> Slab:
        """The slab with groups whose readings are all shifted by the same, where nothing speaks against it.

        A variance that is fitted to few outliers is too large as often as not, and what lies between them and the
        clean readings would then too often be taken for one of them.
        """
        if slab.replaced:
            return slab
        evidence = None
        for g, variance in enumerate(slab.variances):
            if is_constant(variance) or variance > np.exp(x[-1]):
                continue
            variances = [CONSTANT if other == g else old for other, old in enumerate(slab.variances)]
            simpler = replace(slab, variances=tuple(variances))
            evidence = self.evidence_at(x, slab, labels) if evidence is None else evidence
            found = self.evidence_at(x, simpler, labels)
            if found > evidence:
                slab, evidence = simpler, found
        return slab

    def with_pairs(self, best: State) -> State:
        """With the labels that single moves do not lead to, but moves of two readings at once do."""
        support = self.support_of(best)
        if not climb_in_pairs(support):
            return best
        found = self.alternate("pairs", best.x, best.slab, support.labels, best, best.curvature)
        return max(best, found, key=by_evidence)

    def with_suspects(self, best: State) -> State:
        """From the same labels with every reading flagged that is not quite unlikely to be an outlier.

        Outliers can shield one another: single moves do not free them, but parameters fitted without them do.
        """
        weights = self.support_of(best).log_weights()
        suspect = weights[:, 1:].max(axis=1) > weights[:, 0] - SUSPICION
        labels = np.where(suspect, 1 + weights[:, 1:].argmax(axis=1), 0)
        if suspect.mean() >= MAX_SHARE or np.array_equal(labels, best.labels):
            return best
        found = self.alternate("suspects", best.x, best.slab, labels, best, best.curvature)
        return max(best, found, key=by_evidence)

    def split_widest_group(self, state: State) -> tuple[Slab, Labels] | None:
        """Cut the group of largest variance where that leaves the least within; None if it has no two members."""
        widest = int(np.argmax(state.slab.variances))
        members = np.flatnonzero(state.labels == widest + 1)
        if len(members) < 4:
            return None
        bias = self.bias(state)[members]
        members = members[np.argsort(bias)]
        bias = np.sort(bias)
        within = [bias[:cut].var() * cut + bias[cut:].var() * (len(bias) - cut) for cut in range(2, len(bias) - 1)]
        cut = 2 + int(np.argmin(within))
        labels = state.labels.copy()
        labels[members[cut:]] = state.slab.n_groups + 1
        floor = float(np.exp(state.x[-1]))
        variances = list(state.slab.variances)
        variances[widest] = max(float(bias[:cut].var()), 0.1 * floor)
        variances.append(max(float(bias[cut:].var()), 0.1 * floor))
        slab = replace(state.slab, variances=tuple(variances))
        return slab, labels


def leading_block(report: Report, p: int) -> Array | None:
    """The curvature in the first p unknowns, where it is known."""
    return None if report.curvature is None else report.curvature[:p, :p]


def by_evidence(state: State) -> float:
    """What states are compared by."""
    return state.evidence
