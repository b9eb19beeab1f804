"""From where a search for labels is to the fit: what is still tried, the averages, and the reasons not to use it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logsumexp

from biasgp._typing import Array
from biasgp.covariance.posterior import AveragedPosterior, MixturePosterior, mixture_moments
from biasgp.models import diagnosis
from biasgp.models.sparse.average import LabelAverage, Moments
from biasgp.models.sparse.kinds import PRIOR, Group
from biasgp.models.sparse.recipe import Recipe
from biasgp.models.sparse.search import Known, Search, SparseBiasFit, State, at_lower_bound


@dataclass(frozen=True)
class Complete:
    """All that is tried from the best state so far; `looks_again` where that began with fewer readings."""

    recipe: Recipe
    looks_again: bool

    def __call__(self, search: Search, state: State) -> State:
        recipe = self.recipe
        state = recipe.complete(search, state)
        # The first starts know nothing of episodes.
        limits = recipe.second_look if self.looks_again and search.problem.shared is None else None
        if limits is not None and search.looks_non_gaussian(state, limits):
            # Few of the readings may have been too few to follow f: the residuals of all of them are not noise.
            again = recipe.complete(search, recipe.begin(search)[0])
            state = again if again.evidence > state.evidence else state
        return state


@dataclass(frozen=True)
class Finish:
    """From the state where a search ended to the fit; one that is known from an earlier fit has converged."""

    recipe: Recipe
    max_iter: int
    rng: np.random.Generator
    known: Known | None = None

    def __call__(self, search: Search, state: State, over_parameters: bool) -> tuple[SparseBiasFit, State]:
        """The fit, averaged over the parameters as well or not, and its state."""
        over_parameters = over_parameters and self.recipe.over_parameters.is_for(search.problem)
        if self.known is None or not self.known.is_at(state):
            state = self.recipe.over_parameters.beginning(search, state) if over_parameters else state
            state = search.converged(state, self.max_iter)
        found = _fit_of(search, state, self.recipe.average, self.rng)
        if over_parameters:
            found = _over_parameters(found, *self.recipe.over_parameters(search, state, self.rng))
        return _judged(found, search, state), state


def _judged(found: SparseBiasFit, search: Search, state: State) -> SparseBiasFit:
    """With the reasons not to use a fit: how much of the uncertainty of f is doubt about the labels."""
    support, places = search.support(state), _between_readings(search)
    known = _given_labels(search, state, places)
    variance = found.posterior.mean_and_variance(places)[1]
    for rival in search.rivals(state):
        odds = expit(rival.evidence - state.evidence)
        variance = variance + odds * (1.0 - odds) * (_given_labels(search, rival, places)[0] - known[0]) ** 2
    with_labels, least = float(np.mean(known[1])), np.finfo(float).eps * float(support.C.diagonal().mean())
    # Where f itself hardly varies (a linear kernel at its centre), nothing can be in doubt.
    doubt = float(np.mean(variance)) / with_labels if with_labels > least else 1.0
    flagged = found.probability > 0.5
    findings = diagnosis.doubts(flagged, support.nearest_flagged(flagged), doubt)
    rivals = tuple(replace(rival, support=None) for rival in search.rivals(state))
    alone = replace(state, support=support)
    return replace(found, doubt=doubt, findings=tuple(findings), known=Known((((), alone),), rivals=rivals))


def _between_readings(search: Search) -> Array:
    """Places half-way between two readings: at one itself, f is known to its noise, which may be none."""
    X = search.X
    if search.kernel.category_columns:
        return X
    chosen = np.random.default_rng(len(X)).permutation(len(X))[: diagnosis.POLICY.most_places]
    return np.asarray(0.5 * (X[chosen] + X[np.roll(chosen, 1)]))


def _given_labels(search: Search, at: State, places: Array) -> tuple[Array, Array]:
    """Mean and variance of f there, if labels and parameters of a state were the true ones."""
    support, kernel = search.support(at), search.kernel.with_theta(at.x[:-1])
    means, covariance = support.posterior_of_means()
    cross = kernel(places, search.X)
    by_means = cross @ support.U
    variance = kernel.diag(places) - np.einsum("ij,ij->i", cross @ support.Q, cross)
    variance += np.einsum("ij,jk,ik->i", by_means, covariance, by_means)
    return cross @ (support.Qy - support.U @ means), np.maximum(variance, 0.0)


def _over_parameters(found: SparseBiasFit, each: list[Moments], parameters: list[Array]) -> SparseBiasFit:
    """A fit averaged over draws of its parameters. Its kernel is the best one, its noise variance the mean."""
    weights = (1.0 / len(each),) * len(each)
    kernels = [found.kernel.with_theta(x[:-1]) for x in parameters]
    X = found.posterior.X
    parts = [AveragedPosterior(k, X, m.alpha, m.precision) for k, m in zip(kernels, each, strict=True)]
    bias, variance = mixture_moments(weights, [(moments.bias, moments.bias_variance) for moments in each])
    return replace(
        found,
        noise_variance=float(np.mean([np.exp(x[-1]) for x in parameters])),
        posterior=MixturePosterior(weights, tuple(parts)),
        probability=np.mean([moments.probability for moments in each], axis=0),
        bias=bias,
        bias_variance=variance,
    )


def _fit_of(search: Search, state: State, average: LabelAverage, rng: np.random.Generator) -> SparseBiasFit:
    """The fit of a converged state: averaged over the labels in doubt, with what it has to say against itself."""
    support, slab, labels, x = search.support(state), state.slab, state.labels, state.x
    means, covariance = support.posterior_of_means()
    variances = slab.variances + covariance.diagonal()
    if slab.replaced:
        means, variances = np.array(slab.means), np.array(slab.variances)
    shares = PRIOR.shares(slab.counts(labels), len(labels))[1:]
    log_density = logsumexp(support.log_weights(), axis=1)
    moments = average(support, rng)
    # The readings that are reported as outliers: by the average over labels.
    flagged = moments.probability > 0.5
    residuals = np.full(len(labels), np.nan)
    residuals[labels == 0] = support.standardised_residuals()
    bounded, noise = at_lower_bound(search.kernel, state.report), float(support.clean_noise.min())
    against, said = support.log_odds_against_verdict(), search.problem.verdict
    if against is not None:
        against[np.ones(len(labels), dtype=bool) if said is None else np.isnan(said)] = np.nan
    notes = diagnosis.notes(residuals, flagged, support.nearest_flagged(flagged), noise, bounded, against)
    kernel = search.kernel.with_theta(x[:-1])
    return SparseBiasFit(
        kernel=kernel,
        noise_variance=float(np.exp(x[-1])),
        posterior=AveragedPosterior(kernel, search.X, moments.alpha, moments.precision),
        report=state.report,
        labels=labels,
        probability=moments.probability,
        bias=moments.bias,
        bias_variance=moments.bias_variance,
        groups=tuple(Group(*each) for each in np.column_stack([shares, means, variances]).tolist()),
        slab=slab,
        log_evidence=state.evidence,
        leave_one_out=float(log_density.sum()),
        trace=tuple(search.trace),
        findings=(),
        notes=tuple(notes),
    )
