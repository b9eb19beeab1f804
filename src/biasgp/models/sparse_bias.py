"""Sparse bias: most biases are exactly zero, the others come from a slab N(m, τ²) with its mean. Joins the paper's two.

zᵢ ~ Bernoulli(π); δᵢ = 0 if zᵢ = 0, δᵢ ~ N(m, τ²) if zᵢ = 1. Given z this is a plain GP with two noise levels and one
mean. The recipe: a search for the labels on some of the readings (`label_search`), then on all of them; then a short
Gibbs run over the labels that stay in doubt (`label_average`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from biasgp._typing import Array
from biasgp.covariance.threads import blas_threads_for
from biasgp.kernels import Kernel
from biasgp.models.diagnosis import Finding, diagnose
from biasgp.models.label_average import Moments, average_over_labels
from biasgp.models.label_search import DIFFERENT, Search, State, Step, by_evidence
from biasgp.models.posterior import AveragedPosterior
from biasgp.models.search import stages
from biasgp.models.slabs import occam
from biasgp.models.support import PRIOR_CLEAN, PRIOR_OUTLIERS
from biasgp.optimize import Report

FINALLY = 1e-3
"""Gain in log evidence that is not worth another evaluation at the end: parameters are then within a twentieth of
their standard errors."""
CLEARLY = (3.0, 4.0)
"""Standard errors by which skewness and kurtosis of the residuals differ from noise's, where the search begins afresh
with all readings. (A kernel that does not suit f moves the kurtosis as well.)"""
FENCE = 1e3
"""How far out, in robust standard deviations of y, a reading can be for its size to matter to the slab."""
SWEEPS, BURN_IN = 30, 5


@dataclass(frozen=True)
class Group:
    """A kind of outlier: its share of all readings; mean and variance of its bias (of its value, if replaced)."""

    share: float
    mean: float
    variance: float


@dataclass(frozen=True)
class SparseBiasFit:
    """A fitted sparse bias model, averaged over labels; `leave_one_out` is Σ log p(yᵢ | the others)."""

    kernel: Kernel
    noise_variance: float
    posterior: AveragedPosterior
    state: State
    moments: Moments
    groups: tuple[Group, ...]
    trace: tuple[Step, ...]
    findings: tuple[Finding, ...]
    leave_one_out: float
    report: Report


def fit(
    X: Array,
    y: Array,
    kernel: Kernel,
    known: Array,
    max_iter: int,
    rng: np.random.Generator,
    *,
    second_look: bool = True,
) -> SparseBiasFit:
    """The whole recipe. Readings beyond the fence count as if they were there; their bias is not.

    Without the second look, a search that leaves more than noise does not begin afresh with all readings.
    """
    beyond = y - np.clip(y, -FENCE, FENCE)
    y = y - beyond
    rows, *more = stages(X, y)
    search = Search(X[rows], y[rows], kernel, known[rows])
    with blas_threads_for(len(rows)):
        state = search.from_constant_bias()
        state = search.from_other_lengths(state)
        state = search.from_longer_lengths(state)
        state = search.from_no_outlier(state)
    for wider in more:
        few, few_labels, known_rows = search, state.labels, np.searchsorted(wider, rows)
        search, rows = Search(X[wider], y[wider], kernel, known[wider]), wider
        with blas_threads_for(len(rows)):
            state = search.from_few(few, known_rows)
            if np.mean(state.labels[known_rows] != few_labels) > DIFFERENT:
                state = search.from_other_lengths(state, known_rows)
    with blas_threads_for(len(y)):
        state = search.completed(search.from_more_noise(state))
        if more and second_look and search.is_denied(state, CLEARLY):
            # Few of the readings may have been too few to follow f: what is left of all of them is not noise.
            state = max(state, search.completed(search.from_constant_bias()), key=by_evidence)
        found = _finish(search, state, max_iter, rng)
    return replace(found, moments=replace(found.moments, bias=found.moments.bias + beyond))


def _finish(search: Search, state: State, max_iter: int, rng: np.random.Generator) -> SparseBiasFit:
    """Converge the parameters, settle the labels once more, and average over those in doubt."""
    earlier = state.report if state.settled else None
    x, slab, report = search.refit(state.x, state.slab, state.labels, max_iter, state.curvature, FINALLY, earlier)
    slab = search.with_constant_shifts(x, slab, state.labels)
    stays = np.array_equal(x, state.x) and slab == state.slab
    support = search.support_of(state) if stays else search.support(x, slab, state.labels)
    support.climb(len(search.y))
    state = State(x, slab, support.labels.copy(), support.log_evidence() - occam(slab, support.labels), report)
    search.trace.append(Step("final", int((state.labels > 0).sum()), slab.n_groups, slab.replaced, state.evidence))
    means, covariance = support.posterior_of_means()
    counts = np.bincount(state.labels, minlength=slab.n_groups + 1)[1:]
    findings = diagnose(support, search.bounded(report), search.n_rivals(state))
    leave_one_out = float(logsumexp(support.log_weights(), axis=1).sum())
    moments = average_over_labels(support, SWEEPS, BURN_IN, rng)
    kernel = search.kernel.with_theta(x[:-1])
    share = (counts.sum() + PRIOR_OUTLIERS) / (len(search.y) + PRIOR_OUTLIERS + PRIOR_CLEAN)
    return SparseBiasFit(
        kernel=kernel,
        noise_variance=float(np.exp(x[-1])),
        posterior=AveragedPosterior(kernel, search.X, moments.alpha, moments.precision),
        state=state,
        moments=moments,
        groups=tuple(
            Group(float(part), float(mean), float(variance))
            for part, mean, variance in zip(
                share * (counts + 1.0) / (counts.sum() + len(counts)),
                [slab.center] if slab.replaced else means,
                slab.variances if slab.replaced else slab.variances + covariance.diagonal(),
                strict=True,
            )
        ),
        trace=tuple(search.trace),
        findings=tuple(findings),
        leave_one_out=leave_one_out,
        report=report,
    )
