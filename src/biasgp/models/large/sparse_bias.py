"""Sparse bias on many readings.

The exact model on a few hundred readings finds what kinds of outlier there are. Then, in turn: labels, of all readings
at once, by the odds of each given the nearest others that are not flagged; and the parameters (θ, σ²), from the
readings that are not flagged, first by a sample of the conditionals. Flagged readings are dropped, not shifted back:
among many readings what they would add is not worth the cost. Readings in doubt count less, by the chance that they
are clean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from biasgp._typing import Array, Mask
from biasgp.covariance.kriging import Surroundings
from biasgp.covariance.paired import Nearness
from biasgp.covariance.threads import blas_threads_for
from biasgp.kernels import Kernel
from biasgp.models import sparse_bias
from biasgp.models.diagnosis import Finding, findings
from biasgp.models.label_search import Step
from biasgp.models.large.gaussian import Likelihood
from biasgp.models.large.labels import Kinds, Odds, log_prior, moments, settle
from biasgp.models.large.posterior import VecchiaPosterior
from biasgp.models.large.search import MOVED, SOME_TERMS, Scheme, climb, patches, sample_of_terms
from biasgp.models.search import covariance_bounds
from biasgp.models.sparse_bias import FENCE, Group
from biasgp.models.support import Labels, Slab, log_normal
from biasgp.optimize import Report, out_of_time, tell

MAX_ROUNDS = 6
STILL = 1e-3
"""Rounds on a sample of the conditionals end when no larger share of the labels moves."""


@dataclass(frozen=True)
class LargeMoments:
    """As `label_average.Moments`, for the readings alone."""

    probability: Array
    bias: Array
    bias_variance: Array


@dataclass(frozen=True)
class LargeState:
    """As `label_search.State`: slab, labels and log p(y, labels)."""

    slab: Slab
    labels: Labels
    evidence: float


@dataclass(frozen=True)
class LargeSparseFit:
    """As `sparse_bias.SparseBiasFit`."""

    kernel: Kernel
    noise_variance: float
    posterior: VecchiaPosterior
    state: LargeState
    moments: LargeMoments
    groups: tuple[Group, ...]
    trace: tuple[Step, ...]
    findings: tuple[Finding, ...]
    leave_one_out: float
    report: Report


class Search:
    """The readings, the best flags and parameters so far, and the trace."""

    def __init__(self, X: Array, y: Array, kernel: Kernel, known: Array, scheme: Scheme) -> None:
        self.X, self.y, self.kernel, self.known, self.scheme = X, y, kernel, known, scheme
        self.bounds = covariance_bounds(kernel, X, y)
        self.flagged = np.zeros(len(y), dtype=bool)
        self.trace: list[Step] = []
        self.around: Surroundings | None = None

    def begin(self, max_iter: int, rng: np.random.Generator) -> None:
        """Parameters and kinds of outlier from the exact model on few readings."""
        tell("the exact model on few readings")
        rows = patches(self.kernel, self.X)
        with blas_threads_for(len(rows)):
            few = sparse_bias.fit(self.X[rows], self.y[rows], self.kernel, self.known[rows], max_iter, rng)
        self.trace += few.trace
        self.n_few, self.report = len(rows), replace_x(few.report, len(self.bounds), few)
        self.kinds = Kinds(
            np.array([group.share for group in few.groups]),
            np.array([group.mean for group in few.groups]),
            np.array([group.variance for group in few.groups]),
            few.state.slab.replaced,
        )

    @property
    def noise(self) -> Array:
        return np.asarray(np.exp(self.report.x[-1]) + self.known)

    @property
    def fitted(self) -> Kernel:
        return self.kernel.with_theta(self.report.x[:-1])

    def relabel(self, stage: str) -> int:
        """Flags at the present parameters; how many moved."""
        tell(f"flags at the parameters from {stage}")
        nearness = Nearness.of(self.fitted, self.X)
        if self.around is None or nearness.differs_from(self.around.nearness, MOVED):
            self.around = Surroundings(self.fitted, self.X, self.scheme.neighbours, make_pool=self.scheme.make_pool)
        before = self.flagged
        self.odds, self.flagged, self.kinds, _ = settle(
            self.around, self.fitted, self.y, self.noise, before, self.kinds
        )
        evidence = float(self.odds.log_density.sum())
        n_out = int(self.flagged.sum())
        self.trace.append(Step(stage, n_out, len(self.kinds.shares), self.kinds.replaced, evidence))
        return int((before != self.flagged).sum())

    def refit(self, max_iter: int, *, sample: bool) -> None:
        """Parameters from the readings that are not flagged."""
        clean = ~self.flagged
        X, y, known = self.X[clean], self.y[clean], self.known[clean]
        arguments = (self.kernel, X, self.report, self.n_few, self.bounds, max_iter, self.scheme)
        work = sample_of_terms if sample else climb
        _, self.report = work(lambda vecchia: Likelihood(vecchia, y, self.kernel, known), *arguments)
        self.n_few = len(X)

    def run(self, max_iter: int) -> None:
        """Labels and parameters in turn, on a sample of the conditionals until little moves, then on all."""
        n = len(self.y)
        self.relabel("patches")
        if n > 2 * SOME_TERMS:
            for _ in range(MAX_ROUNDS):
                self.refit(max_iter, sample=True)
                if self.relabel("some conditionals") <= STILL * n or out_of_time():
                    break
        for _ in range(MAX_ROUNDS):
            self.refit(max_iter, sample=False)
            if self.relabel("all readings") <= STILL * n or out_of_time():
                break


def replace_x(report: Report, p: int, few: sparse_bias.SparseBiasFit) -> Report:
    """The report of (θ, log σ²) alone, without the slab's parameters."""
    curvature = None if report.curvature is None else report.curvature[:p, :p]
    x = np.append(few.kernel.theta, np.log(few.noise_variance))
    return replace(report, x=x, at_lower=report.at_lower[:p], at_upper=report.at_upper[:p], curvature=curvature)


def fit(
    X: Array, y: Array, kernel: Kernel, known: Array, max_iter: int, rng: np.random.Generator, scheme: Scheme
) -> LargeSparseFit:
    """The whole recipe. Readings beyond the fence count as if they were there; their bias is not."""
    beyond = y - np.clip(y, -FENCE, FENCE)
    search = Search(X, y - beyond, kernel, known, scheme)
    search.begin(max_iter, rng)
    search.run(max_iter)
    return _finish(search, beyond)


def _finish(search: Search, beyond: Array) -> LargeSparseFit:
    found, kinds, flagged = search.odds, search.kinds, search.flagged
    probability = 1.0 - found.chance[:, 0]
    bias, variance = moments(found, kinds)
    labels: Labels = np.where(flagged, 1 + found.chance[:, 1:].argmax(axis=1), 0)
    evidence = -search.report.value + log_prior(flagged) + _flagged_density(search, labels)
    slab = Slab(tuple(kinds.variances.tolist()), 1.0, kinds.replaced, float(kinds.means[0]) if kinds.replaced else 0.0)
    return LargeSparseFit(
        kernel=search.fitted,
        noise_variance=float(np.exp(search.report.x[-1])),
        posterior=_posterior(search, probability, flagged),
        state=LargeState(slab, labels, evidence),
        moments=LargeMoments(probability, bias + beyond, variance),
        groups=tuple(Group(*map(float, kind)) for kind in zip(kinds.shares, kinds.means, kinds.variances, strict=True)),
        trace=tuple(search.trace),
        findings=tuple(_findings(search, found, flagged)),
        leave_one_out=float(found.log_density.sum()),
        report=search.report,
    )


def _flagged_density(search: Search, labels: Labels) -> float:
    """Σ log p(yᵢ | its kind, the clean readings) over the flagged readings."""
    out = labels > 0
    kind, odds = labels[out] - 1, search.odds
    means, variances = search.kinds.means[kind], search.kinds.variances[kind]
    if search.kinds.replaced:
        return float(log_normal(search.y[out] - means, variances).sum())
    return float(log_normal(odds.residual[out] - means, odds.variance[out] + variances).sum())


def _posterior(search: Search, probability: Array, flagged: Mask) -> VecchiaPosterior:
    clean = ~flagged
    noise = search.noise[clean] / (1.0 - np.minimum(probability[clean], 0.99))
    return VecchiaPosterior.of(search.fitted, search.X[clean], noise, search.y[clean], search.scheme.neighbours)


def _findings(search: Search, found: Odds, flagged: Mask) -> list[Finding]:
    assert search.around is not None
    residuals = found.residual[~flagged] / np.sqrt(found.variance[~flagged])
    together = flagged[search.around.candidates[flagged, 0]]
    names = [*search.kernel.parameter_names, "the noise"]
    bounded = [name for name, low in zip(names, search.report.at_lower, strict=True) if low and "variance" not in name]
    return findings(residuals, flagged, together, float(search.noise.min()), bounded, 0)
