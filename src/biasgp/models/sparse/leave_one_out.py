"""Sparse bias on many readings, without K⁻¹: labels by leave-one-out odds, on any engine.

The exact model on a few hundred readings finds what kinds of outlier there are. Then, in turn: labels of all readings
by the odds of each given the nearest others that are not flagged; and (θ, σ²) from the readings that are not flagged,
first by a sample of the conditionals. Flagged readings are dropped, not shifted back: among many readings what they
would add is not worth the cost. Readings in doubt count less, by the probability that they are clean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.covariance.protocol import Posterior
from biasgp.covariance.vecchia_posterior import PREDICTIONS
from biasgp.kernels import Kernel
from biasgp.models import diagnosis
from biasgp.models.gaussian import Likelihood
from biasgp.models.problem import Problem, Rows
from biasgp.models.sparse.kinds import PRIOR, Group, Labels, Slab
from biasgp.models.sparse.search import SparseBiasFit, Step, at_lower_bound
from biasgp.models.strategy import EVALUATIONS, SOME_TERMS, TERMS, Found, Strategy, Surroundings, covariance_bounds
from biasgp.watch import ledger, out_of_time, stage

PASSES = "passes"
"""Kind of work: readings whose odds are computed."""


@dataclass(frozen=True)
class _OddsPolicy:
    """When labels and parameters have settled. Shares are of all readings."""

    max_rounds: int = 6  # of parameters and labels in turn
    max_passes: int = 8  # over the labels at given parameters
    round_share: float = 1e-3  # rounds end when no larger share of the labels moves in one
    pass_share: float = 1e-4  # passes end when no larger share of the labels moves in one
    passes_foreseen: int = 3  # passes until the labels settle, as a rule (benchmarks/command.py --long)
    least_weight: float = 0.01
    """An unflagged reading in doubt counts with the probability that it is clean, but with no less than this."""


@dataclass(frozen=True)
class Odds:
    """Each reading y given the others: its residual, the variance of that (noise included), and log p(y, label).

    The last is −∞ for labels that verdicts do not allow.
    """

    y: Array
    residual: Array
    variance: Array
    log_joint: Array

    @classmethod
    def of(cls, y: Array, mean: Array, variance: Array, slab: Slab, verdict: Array | None = None) -> Odds:
        """From the prediction of each reading without it."""
        log_joint = slab.log_predictive(y, mean, variance)
        if verdict is not None:
            log_joint[verdict == 0.0, 1:] = -np.inf
            log_joint[verdict == 1.0, 0] = -np.inf
        return cls(y, y - mean, variance, log_joint)

    @cached_property
    def log_density(self) -> Array:
        """log p(yᵢ | the others)."""
        return np.asarray(np.logaddexp.reduce(self.log_joint, axis=1))

    @cached_property
    def chances(self) -> Array:
        """The probability of every label."""
        chances = self.log_joint - self.log_density[:, None]
        return np.asarray(np.exp(chances, out=chances))

    @cached_property
    def flagged(self) -> Mask:
        """More likely an outlier than not; never the majority."""
        # By log odds: many probabilities may be 1 to working precision, and then do not order the readings.
        log_odds = np.logaddexp.reduce(self.log_joint[:, 1:], axis=1) - self.log_joint[:, 0]
        majority = float(np.quantile(log_odds, PRIOR.max_share, method="lower"))
        # Those that are known to be bad are flagged, however many they are.
        return np.asarray((log_odds > max(0.0, majority)) | np.isposinf(log_odds))

    def updated(self, slab: Slab) -> Slab:
        """A step of expectation maximisation for the shares, means and variances."""
        members = self.chances[:, 1:]
        counts = members.sum(axis=0)
        enough = counts > 1.0
        if slab.replaced:
            weights = members / np.maximum(counts, 1.0)
            means = np.where(enough, self.y @ weights, slab.means)
            spread = ((self.y[:, None] - means) ** 2 * weights).sum(axis=0) + PRIOR.lowest_variance
        else:
            precision = members / (self.variance[:, None] + slab.variances)
            weight = np.where(enough, precision.sum(axis=0), 1.0)
            means = np.where(enough, self.residual @ precision / weight, slab.means)
            excess = (self.residual[:, None] - means) ** 2 - self.variance[:, None]
            spread = np.maximum((precision * excess).sum(axis=0) / weight, PRIOR.lowest_variance)
        variances = np.where(enough, spread, slab.variances)
        shares = PRIOR.shares(counts, len(self.y))[1:]
        groups = [Group(*each) for each in np.column_stack([shares, means, variances]).tolist()]
        if slab.unseen is not None and not slab.replaced:
            # What has not been seen may still be anything; its share would grow with the tails of the noise.
            groups[-1] = slab.unseen
        return replace(Slab.of_groups(groups, slab.replaced), unseen=slab.unseen)

    def moments_of_bias(self, slab: Slab) -> tuple[Array, Array]:
        """Posterior mean and variance of each bias, over its labels."""
        each, residual, variance = self.chances[:, 1:], self.residual[:, None], self.variance[:, None]
        # A replaced reading's bias is all of its residual.
        keep = np.ones(1) if slab.replaced else slab.variances / (slab.variances + variance)
        means = slab.means + keep * (residual - slab.means)
        mean = (each * means).sum(axis=1)
        return mean, (each * (keep * variance + means**2)).sum(axis=1) - mean**2


class _OddsSearch:
    """The readings, the best flags and parameters so far, and the trace."""

    def __init__(self, problem: Problem, strategy: Strategy, few: SparseBiasFit, rows: Rows) -> None:
        self.problem, self.strategy, self.policy = problem, strategy, _OddsPolicy()
        # Without them the first predictions would follow outliers that are known already.
        self.flagged = np.zeros(len(problem), dtype=bool)
        self.flagged[rows] = few.labels > 0
        self.flagged = problem.held(self.flagged.astype(np.intp)) > 0
        self.found = Found(few.report, len(few.labels))
        self.slab = Slab.of_groups(few.groups, few.slab.replaced).with_unseen(PRIOR.unseen(len(problem)))
        self.trace = list(few.trace)
        self.around: Surroundings | None = None
        self._odds: Odds | None = None

    @property
    def odds(self) -> Odds:
        """Of the last pass."""
        assert self._odds is not None
        return self._odds

    @property
    def noise(self) -> Array:
        return np.asarray(np.exp(self.found.report.x[-1]) + self.problem.known)

    @property
    def kernel(self) -> Kernel:
        return self.problem.kernel.with_theta(self.found.report.x[:-1])

    def relabel(self, source: str) -> int:
        """Passes over all readings at the present parameters until the flags settle; how many moved in all."""
        stage("which readings are outliers")
        kernel, noise, y, before = self.kernel, self.noise, self.problem.y, self.flagged
        self.around = self.strategy.surroundings(kernel, self.problem.X, self.around)
        for _ in range(self.policy.max_passes):
            self._odds = None  # makes room: of a million readings, they are 100 MB
            mean, variance = self.around.leave_one_out(kernel, y, noise, ~self.flagged)
            ledger().did(PASSES, len(y))
            self._odds = Odds.of(y, mean, variance + noise, self.slab, self.problem.fixed)
            self.slab = self.odds.updated(self.slab)
            moved, self.flagged = int((self.odds.flagged != self.flagged).sum()), self.odds.flagged
            if moved <= self.policy.pass_share * len(y):
                break
        evidence = float(self.odds.log_density.sum())
        self.trace.append(Step(source, int(self.flagged.sum()), self.slab.n_groups, self.slab.replaced, evidence))
        return int((before != self.flagged).sum())

    def refit(self, max_iter: int, *, sample: bool) -> None:
        """Parameters from the readings that are not flagged."""
        self._odds = None
        clean, bounds = self.problem[~self.flagged], covariance_bounds(self.problem)
        if sample:
            report = self.strategy.with_sample_of_terms(Likelihood, clean, self.found, bounds, max_iter)
        else:
            _, report = self.strategy.complete(Likelihood, clean, self.found, bounds, max_iter)
        self.found = Found(report, len(clean))

    def run(self, max_iter: int) -> None:
        """Labels and parameters in turn, on a sample of the conditionals until little moves, then on all."""
        n, policy = len(self.problem), self.policy
        sources = ["some conditionals", "all readings"] if n > 2 * SOME_TERMS else ["all readings"]
        ledger().expect(PASSES, (len(sources) + 1) * policy.passes_foreseen * n)
        ledger().expect(TERMS, EVALUATIONS * n)
        self.relabel("patches")
        if ledger().expects(PREDICTIONS):  # their cost is measured where their number of neighbours is chosen
            self.posterior()
        for left, source in zip(range(len(sources), 0, -1), sources, strict=True):
            for _ in range(policy.max_rounds):
                ledger().expect(PASSES, left * policy.passes_foreseen * n)
                self.refit(max_iter, sample=left > 1)
                if self.relabel(source) <= policy.round_share * n or out_of_time():
                    break
        ledger().expect(PASSES, 0.0)

    def posterior(self) -> Posterior:
        """f given the readings that are not flagged, which count less the more they are in doubt."""
        noise = self.noise / np.maximum(self.odds.chances[:, 0], self.policy.least_weight)
        return self.strategy.posterior(self.kernel, self.problem, noise, ~self.flagged)

    def log_odds_against_verdict(self) -> Array | None:
        """Of each reading given the others; NaN where nothing was said of it, None without any verdict."""
        verdict, odds = self.problem.verdict, self.odds
        if verdict is None:
            return None
        joint = self.slab.log_predictive(odds.y, odds.y - odds.residual, odds.variance)
        return np.asarray((1.0 - 2.0 * verdict) * (np.logaddexp.reduce(joint[:, 1:], axis=1) - joint[:, 0]))

    def log_evidence(self, labels: Labels) -> float:
        """log p(y, flags): of the clean readings, and of each flagged one given those and its label."""
        odds, out, own = self.odds, np.flatnonzero(labels), labels[labels > 0]
        y, expected = odds.y[out], odds.y[out] - odds.residual[out]
        joint = self.slab.log_predictive(y, expected, odds.variance[out])
        density = joint[np.arange(len(out)), own] - np.log(self.slab.shares)[own - 1]
        return float(density.sum()) - self.found.report.value + PRIOR.log_labels(np.array([len(out)]), len(labels))


def _of_the_unseen_kind(slab: Slab, labels: Labels) -> list[Group]:
    """That kind as a group, where there are readings of it after all."""
    share = float(np.mean(labels > len(slab.seen)))
    return [] if slab.unseen is None or share == 0.0 else [replace(slab.unseen, share=share)]


def extend(few: SparseBiasFit, rows: Rows, problem: Problem, max_iter: int, strategy: Strategy) -> SparseBiasFit:
    """The fit to all readings, from the exact fit to those in `rows`."""
    search = _OddsSearch(problem, strategy, few, rows)
    search.run(max_iter)
    odds, slab, report = search.odds, search.slab, search.found.report
    assert search.around is not None
    probability = 1.0 - odds.chances[:, 0]
    bias, variance = odds.moments_of_bias(slab)
    labels: Labels = np.where(search.flagged, 1 + odds.chances[:, 1:].argmax(axis=1), 0)
    # All readings that are reported as outliers: also those that are too many for the search to drop.
    flagged = probability > 0.5
    residuals = np.where(flagged, np.nan, odds.residual / np.sqrt(odds.variance))
    nearest, bounded = flagged[search.around.nearest[flagged]], at_lower_bound(problem.kernel, report)
    search.around = None  # makes room: of a million readings, it is 30 MB
    against = search.log_odds_against_verdict()
    notes = diagnosis.notes(residuals, flagged, nearest, float(search.noise.min()), bounded, against)
    return SparseBiasFit(
        kernel=search.kernel,
        noise_variance=float(np.exp(report.x[-1])),
        posterior=search.posterior(),
        report=report,
        labels=labels,
        probability=probability,
        bias=bias,
        bias_variance=variance,
        groups=(*slab.seen, *_of_the_unseen_kind(slab, labels)),
        slab=slab,
        log_evidence=search.log_evidence(labels),
        leave_one_out=float(odds.log_density.sum()),
        trace=tuple(search.trace),
        findings=tuple(diagnosis.doubts(flagged, nearest, few.doubt)),
        notes=tuple(notes),
        doubt=few.doubt,
        given_others=np.array([odds.y - odds.residual, np.maximum(odds.variance - search.noise, 0.0)]),
    )
