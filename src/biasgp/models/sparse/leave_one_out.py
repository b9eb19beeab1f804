"""Sparse bias on many readings, without K⁻¹: labels by leave-one-out odds, on any engine.

The exact model on a few hundred readings finds what kinds of outlier there are. Then, in turn: labels, of all readings
at once, by the odds of each given the nearest others that are not flagged; and the parameters (θ, σ²), from the
readings that are not flagged, first by a sample of the conditionals. Flagged readings are dropped, not shifted back:
among many readings what they would add is not worth the cost. Readings in doubt count less, by the chance that they
are clean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaln, logsumexp

from biasgp._typing import Array, Mask
from biasgp.covariance.protocol import Posterior
from biasgp.covariance.threads import blas_threads_for
from biasgp.covariance.vecchia_posterior import PREDICTIONS
from biasgp.kernels import Kernel
from biasgp.models.diagnosis import Finding, findings
from biasgp.models.gaussian import Likelihood
from biasgp.models.problem import Problem
from biasgp.models.sparse import exact
from biasgp.models.sparse.exact import FENCE, SparseBiasFit
from biasgp.models.sparse.kinds import LOWEST_VARIANCE, PRIOR_CLEAN, PRIOR_OUTLIERS, Kinds, Labels, Slab, shares_of
from biasgp.models.sparse.search import Step, leading_block
from biasgp.models.strategy import EVALUATIONS, SOME_TERMS, TERMS, Found, Strategy, Surroundings, covariance_bounds
from biasgp.optimize import Report
from biasgp.watch import did, expect, expects, out_of_time, stage

MAX_ROUNDS, MAX_PASSES = 6, 8
"""Of parameters and labels in turn; and over the labels at given parameters."""
PASSES, PASSES_EACH = "passes", 3
"""Kind of work (readings whose odds are taken), and how often all of them are until the labels settle, as a rule
(benchmarks/command.py --long)."""
STILL = 1e-3
"""Rounds on a sample of the conditionals end when no larger share of the labels moves."""
SETTLED_SHARE = 1e-4
"""Labels have settled when no larger share of them moves in a pass."""
MIN_CLEAN = 0.5
"""No pass flags more than this: the majority is what the signal is."""
MOST_DOUBT = 0.99
"""An unflagged reading counts as if the chance that it is an outlier were no more than this."""


@dataclass(frozen=True)
class Odds:
    """Each reading without itself: what is left of it, that prediction's variance (noise included), and its chances.

    `chance` has a column for clean and one for each kind; `log_odds` are those of being an outlier; `log_density` is
    log p(yᵢ | the others).
    """

    residual: Array
    variance: Array
    chance: Array
    log_odds: Array
    log_density: Array

    @property
    def flagged(self) -> Mask:
        """More likely an outlier than not; never the majority."""
        # By odds: many probabilities may be 1 to working precision, and are then no order.
        return np.asarray(self.log_odds > max(0.0, float(np.quantile(self.log_odds, MIN_CLEAN))))


def odds(y: Array, mean: Array, variance: Array, noise: Array, kinds: Kinds) -> Odds:
    """The chances of every kind, from the prediction of f at each reading without it."""
    total = variance + noise
    weights = kinds.log_joint(y, mean, total)
    log_density = np.asarray(logsumexp(weights, axis=1))
    log_odds = np.asarray(logsumexp(weights[:, 1:], axis=1) - weights[:, 0])
    return Odds(y - mean, total, np.exp(weights - log_density[:, None]), log_odds, log_density)


def updated(kinds: Kinds, found: Odds, y: Array) -> Kinds:
    """A step of expectation maximisation for the shares, means and variances."""
    members = found.chance[:, 1:]
    counts = members.sum(axis=0)
    shares = shares_of(counts, len(y))
    if kinds.replaced:
        weights = members / np.maximum(counts, 1.0)
        means = np.where(counts > 1.0, y @ weights, kinds.means)
        spread = ((y[:, None] - means) ** 2 * weights).sum(axis=0) + LOWEST_VARIANCE
        return Kinds(shares, means, np.where(counts > 1.0, spread, kinds.variances), True)
    precision = members / (found.variance[:, None] + kinds.variances)
    enough = counts > 1.0
    weight = np.where(enough, precision.sum(axis=0), 1.0)
    means = np.where(enough, found.residual @ precision / weight, kinds.means)
    excess = (found.residual[:, None] - means) ** 2 - found.variance[:, None]
    spread = (precision * excess).sum(axis=0) / weight
    return Kinds(shares, means, np.where(enough, np.maximum(spread, LOWEST_VARIANCE), kinds.variances), False)


def settle(
    around: Surroundings, kernel: Kernel, y: Array, noise: Array, flagged: Mask, kinds: Kinds
) -> tuple[Odds, Mask, Kinds, int]:
    """Passes over all readings until the flags settle: the odds, the flags they were taken with, and how many moved."""
    moved = 0
    for _ in range(MAX_PASSES):
        mean, variance = around.leave_one_out(kernel, y, noise, ~flagged)
        did(PASSES, len(y))
        found = odds(y, mean, variance, noise, kinds)
        kinds = updated(kinds, found, y)
        change = int((found.flagged != flagged).sum())
        moved += change
        flagged = found.flagged
        if change <= SETTLED_SHARE * len(y):
            break
    return found, flagged, kinds, moved


def moments(found: Odds, kinds: Kinds) -> tuple[Array, Array]:
    """Posterior mean and variance of each bias, over what it may be."""
    each = found.chance[:, 1:]
    if kinds.replaced:
        means = np.broadcast_to(found.residual[:, None], each.shape)
        variances = np.broadcast_to(found.variance[:, None], each.shape)
    else:
        keep = kinds.variances / (kinds.variances + found.variance[:, None])
        means = kinds.means + keep * (found.residual[:, None] - kinds.means)
        variances = keep * found.variance[:, None]
    mean = (each * means).sum(axis=1)
    return mean, (each * (variances + means**2)).sum(axis=1) - mean**2


def log_prior(flagged: Mask) -> float:
    """log p(flags), the share of outliers integrated out."""
    n_out = int(flagged.sum())
    a, b = n_out + PRIOR_OUTLIERS, len(flagged) - n_out + PRIOR_CLEAN
    return float(betaln(a, b) - betaln(PRIOR_OUTLIERS, PRIOR_CLEAN))


class OddsSearch:
    """The readings, the best flags and parameters so far, and the trace."""

    def __init__(self, problem: Problem, strategy: Strategy) -> None:
        self.problem, self.strategy = problem, strategy
        self.X, self.y, self.kernel, self.known = problem.X, problem.y, problem.kernel, problem.known
        self.bounds = covariance_bounds(problem)
        self.flagged = np.zeros(len(problem), dtype=bool)
        self.trace: list[Step] = []
        self.around: Surroundings | None = None

    def begin(self, max_iter: int, rng: np.random.Generator) -> None:
        """Parameters, kinds of outlier and first flags from the exact model on few readings."""
        stage("few readings")
        rows = self.strategy.first_rows(self.problem)
        part = self.problem[rows]
        with blas_threads_for(len(part)):
            few = exact.fit(part, max_iter, rng)
        self.trace += few.trace
        # Without them the first predictions would follow outliers that are known already.
        self.flagged[rows] = few.labels > 0
        self.n_few, self.report = len(part), _without_slab(few, len(self.bounds))
        self.kinds = Kinds.of(few.groups, few.slab.replaced)

    @property
    def noise(self) -> Array:
        return np.asarray(np.exp(self.report.x[-1]) + self.known)

    @property
    def fitted(self) -> Kernel:
        return self.kernel.with_theta(self.report.x[:-1])

    def relabel(self, source: str) -> int:
        """Flags at the present parameters; how many moved."""
        stage("which readings are outliers")
        self.around = self.strategy.surroundings(self.fitted, self.X, self.around)
        before = self.flagged
        self.odds, self.flagged, self.kinds, _ = settle(
            self.around, self.fitted, self.y, self.noise, before, self.kinds
        )
        evidence = float(self.odds.log_density.sum())
        n_out = int(self.flagged.sum())
        self.trace.append(Step(source, n_out, len(self.kinds.shares), self.kinds.replaced, evidence))
        return int((before != self.flagged).sum())

    def refit(self, max_iter: int, *, sample: bool) -> None:
        """Parameters from the readings that are not flagged."""
        clean, found = self.problem[~self.flagged], Found(self.report, self.n_few)
        if sample:
            self.report = self.strategy.with_sample_of_terms(Likelihood, clean, found, self.bounds, max_iter)
        else:
            _, self.report = self.strategy.complete(Likelihood, clean, found, self.bounds, max_iter)
        self.n_few = len(clean)

    def run(self, max_iter: int) -> None:
        """Labels and parameters in turn, on a sample of the conditionals until little moves, then on all."""
        n = len(self.y)
        sampled = n > 2 * SOME_TERMS
        expect(PASSES, (3 if sampled else 2) * PASSES_EACH * n)
        expect(TERMS, EVALUATIONS * n)
        self.relabel("patches")
        if expects(PREDICTIONS):  # what they will cost is measured where their number of neighbours is chosen
            self.posterior(1.0 - self.odds.chance[:, 0])
        if sampled:
            for _ in range(MAX_ROUNDS):
                expect(PASSES, 2 * PASSES_EACH * n)
                self.refit(max_iter, sample=True)
                if self.relabel("some conditionals") <= STILL * n or out_of_time():
                    break
        for _ in range(MAX_ROUNDS):
            expect(PASSES, PASSES_EACH * n)
            self.refit(max_iter, sample=False)
            if self.relabel("all readings") <= STILL * n or out_of_time():
                break
        expect(PASSES, 0.0)

    def posterior(self, probability: Array) -> Posterior:
        """f given the readings that are not flagged, which count less the more they are in doubt."""
        clean = ~self.flagged
        noise = self.noise / (1.0 - np.minimum(probability, MOST_DOUBT))
        return self.strategy.posterior(self.fitted, self.problem, noise, clean)


def _without_slab(few: SparseBiasFit, p: int) -> Report:
    """The report of (θ, log σ²) alone, without the slab's parameters."""
    report, x = few.report, np.append(few.kernel.theta, np.log(few.noise_variance))
    low, high = report.at_lower[:p], report.at_upper[:p]
    return replace(report, x=x, at_lower=low, at_upper=high, curvature=leading_block(report, p))


def fit(problem: Problem, max_iter: int, rng: np.random.Generator, strategy: Strategy) -> SparseBiasFit:
    """The whole recipe. Readings beyond the fence count as if they were there; their bias is not."""
    excess = problem.y - np.clip(problem.y, -FENCE, FENCE)
    search = OddsSearch(problem.clipped(FENCE), strategy)
    search.begin(max_iter, rng)
    search.run(max_iter)
    return _finish(search, excess)


def _finish(search: OddsSearch, excess: Array) -> SparseBiasFit:
    found, kinds, flagged = search.odds, search.kinds, search.flagged
    probability = 1.0 - found.chance[:, 0]
    bias, variance = moments(found, kinds)
    center = float(kinds.means[0]) if kinds.replaced else 0.0
    labels: Labels = np.where(flagged, 1 + found.chance[:, 1:].argmax(axis=1), 0)
    return SparseBiasFit(
        kernel=search.fitted,
        noise_variance=float(np.exp(search.report.x[-1])),
        posterior=search.posterior(probability),
        report=search.report,
        labels=labels,
        probability=probability,
        bias=bias + excess,
        bias_variance=variance,
        groups=kinds.groups,
        slab=Slab(tuple(kinds.variances.tolist()), 1.0, kinds.replaced, center),
        log_evidence=-search.report.value + log_prior(flagged) + _flagged_density(search, labels),
        leave_one_out=float(found.log_density.sum()),
        trace=tuple(search.trace),
        findings=tuple(_findings(search, found, probability > 0.5)),
    )


def _flagged_density(search: OddsSearch, labels: Labels) -> float:
    """Σ log p(yᵢ | its kind, the clean readings) over the flagged readings."""
    out, odds = np.flatnonzero(labels), search.odds
    y = search.y[out]
    joint = search.kinds.log_joint(y, y - odds.residual[out], odds.variance[out])
    own = labels[out]
    return float((joint[np.arange(len(out)), own] - np.log(search.kinds.shares[own - 1])).sum())


def _findings(search: OddsSearch, found: Odds, flagged: Mask) -> list[Finding]:
    """From all readings that are reported as outliers: also those that are too many for the search to drop."""
    assert search.around is not None
    residuals = np.where(flagged, np.nan, found.residual / np.sqrt(found.variance))
    together = flagged[search.around.nearest[flagged]]
    names = [*search.kernel.parameter_names, "the noise"]
    bounded = [name for name, low in zip(names, search.report.at_lower, strict=True) if low and "variance" not in name]
    return findings(residuals, flagged, together, float(search.noise.min()), bounded, 0)
