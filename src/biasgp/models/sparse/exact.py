"""Sparse bias: most biases are exactly zero, the others come from a slab N(m, τ²) with its mean. Joins the paper's two.

The label of a reading is 0 where δᵢ = 0, and otherwise the group whose N(m, τ²) its δᵢ comes from. Given the labels
this is a plain GP with several noise levels and means. The recipe: a search for the labels on some of the readings,
then on all of them (`starts`, `search`); then a short Gibbs run over the labels that stay in doubt (`average`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from biasgp._typing import Array
from biasgp.covariance.posterior import AveragedPosterior
from biasgp.covariance.threads import blas_threads_for
from biasgp.models import diagnosis
from biasgp.models.problem import FitResult, Problem
from biasgp.models.sparse.average import average_over_labels
from biasgp.models.sparse.kinds import LOWEST_VARIANCE, Group, Kinds, Labels, Slab, bic_penalty, is_constant, shares_of
from biasgp.models.sparse.search import Search, State, Step, by_evidence
from biasgp.models.sparse.starts import RECIPE, Recipe
from biasgp.models.strategy import stages

NON_GAUSSIAN = (3.0, 4.0)
"""Standard errors by which skewness and kurtosis of the residuals differ from a normal's, where the search begins
afresh with all readings. (A kernel that does not suit f moves the kurtosis as well.)"""
FENCE = 1e3
"""How far out, in robust standard deviations of y, a reading can be for its size to matter to the slab."""
SWEEPS, BURN_IN = 30, 5
"""Of the Gibbs run over the labels in doubt."""


@dataclass(frozen=True, kw_only=True)
class SparseBiasFit(FitResult):
    """A fitted sparse bias model: the best labels, and probability, mean and variance of each bias over labels.

    `log_evidence` is log p(y, labels); `leave_one_out` is Σ log p(yᵢ | the others).
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
    findings: tuple[diagnosis.Finding, ...]


def fit(
    problem: Problem,
    max_iter: int,
    rng: np.random.Generator,
    *,
    second_look: bool = True,
    recipe: Recipe = RECIPE,
) -> SparseBiasFit:
    """The whole recipe. Readings beyond the fence count as if they were there; their bias is not.

    Without the second look, a search whose residuals are not noise does not begin afresh with all readings.
    """
    excess = problem.y - np.clip(problem.y, -FENCE, FENCE)
    problem = problem.clipped(FENCE)
    rows, *more = stages(problem.X, problem.y)
    search = Search(problem[rows])
    with blas_threads_for(len(rows)):
        state = recipe.begin(search)
        for start in recipe.on_few:
            state = start(search, state)
    for wider in more:
        few, few_labels, known_rows = search, state.labels, np.searchsorted(wider, rows)
        search, rows = Search(problem[wider]), wider
        with blas_threads_for(len(rows)):
            state = recipe.add_readings(search, few, known_rows)
            if np.mean(state.labels[known_rows] != few_labels) > recipe.add_readings.different:
                state = recipe.where_labels_moved(search, state, known_rows)
    with blas_threads_for(len(problem)):
        state = _completed(search, state, recipe)
        if more and second_look and search.residuals_look_non_gaussian(state, NON_GAUSSIAN):
            # Few of the readings may have been too few to follow f: what is left of all of them is not noise.
            state = max(state, _completed(search, recipe.begin(search), recipe), key=by_evidence)
        found = _finish(search, state, max_iter, rng)
    return replace(found, bias=found.bias + excess)


def _completed(search: Search, state: State, recipe: Recipe) -> State:
    """With the slab and the labels that single moves from a start do not lead to."""
    for start in recipe.with_all:
        state = start(search, state)
    return state


def _finish(search: Search, state: State, max_iter: int, rng: np.random.Generator) -> SparseBiasFit:
    """Converge the parameters, settle the labels once more, and average over those in doubt."""
    earlier = state.report if state.settled else None
    x, slab, report = search.refit(state.x, state.slab, state.labels, max_iter, state.curvature, earlier=earlier)
    slab = _with_constant_shifts(search, x, slab, state.labels)
    stays = np.array_equal(x, state.x) and slab == state.slab
    support = search.support_of(state) if stays else search.support(x, slab, state.labels)
    support.climb(len(search.y))
    labels = support.labels.copy()
    evidence = support.log_evidence() - bic_penalty(slab, labels)
    search.trace.append(Step("final", int((labels > 0).sum()), slab.n_groups, slab.replaced, evidence))
    means, covariance = support.posterior_of_means()
    kinds = Kinds(
        shares_of(np.bincount(labels, minlength=slab.n_groups + 1)[1:].astype(float), len(labels)),
        np.array([slab.center]) if slab.replaced else means,
        np.array(slab.variances) if slab.replaced else slab.variances + covariance.diagonal(),
        slab.replaced,
    )
    state = State(x, slab, labels, evidence, report)
    leave_one_out = float(logsumexp(support.log_weights(), axis=1).sum())
    moments = average_over_labels(support, SWEEPS, BURN_IN, rng)
    # Of the readings that are reported as outliers, which the average over labels decides.
    flagged = moments.probability > 0.5
    residuals = np.full(len(labels), np.nan)
    residuals[labels == 0] = support.standardised_residuals()
    findings = diagnosis.findings(
        residuals,
        flagged,
        support.nearest_flagged(flagged),
        float(support.clean_noise.min()),
        search.bounded(report),
        search.n_rivals(state),
    )
    kernel = search.kernel.with_theta(x[:-1])
    return SparseBiasFit(
        kernel=kernel,
        noise_variance=float(np.exp(x[-1])),
        posterior=AveragedPosterior(kernel, search.X, moments.alpha, moments.precision),
        report=report,
        labels=labels,
        probability=moments.probability,
        bias=moments.bias,
        bias_variance=moments.bias_variance,
        groups=kinds.groups,
        slab=slab,
        log_evidence=evidence,
        leave_one_out=leave_one_out,
        trace=tuple(search.trace),
        findings=tuple(findings),
    )


def _with_constant_shifts(search: Search, x: Array, slab: Slab, labels: Labels) -> Slab:
    """The slab with groups whose readings are all shifted by the same, where nothing speaks against it.

    A variance that is fitted to few outliers is too large as often as not, and what lies between them and the clean
    readings would then too often be taken for one of them.
    """
    if slab.replaced:
        return slab
    evidence = None
    for g, variance in enumerate(slab.variances):
        if is_constant(variance) or variance > np.exp(x[-1]):
            continue
        variances = [LOWEST_VARIANCE if other == g else old for other, old in enumerate(slab.variances)]
        simpler = replace(slab, variances=tuple(variances))
        evidence = search.evidence_at(x, slab, labels) if evidence is None else evidence
        found = search.evidence_at(x, simpler, labels)
        if found > evidence:
            slab, evidence = simpler, found
    return slab
