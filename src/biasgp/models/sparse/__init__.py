"""Sparse bias: most biases are exactly zero, the others come from a slab N(m, τ²). This joins the paper's two models.

The label of a reading is 0 where δᵢ = 0, and otherwise the group whose N(m, τ²) its δᵢ comes from. Given the labels
this is a plain GP with several noise levels and means. The recipe: a search for the labels on some of the readings,
then on all of them (`starts`, `search`); then a short Gibbs run over the labels that stay in doubt (`average`). Without
all of K⁻¹ the same on few readings, then labels from leave-one-out odds (`leave_one_out`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from biasgp._typing import Array, Mask
from biasgp.covariance.posterior import AveragedPosterior, MixturePosterior, mixture_moments
from biasgp.covariance.threads import blas_threads_for
from biasgp.models import diagnosis
from biasgp.models.episodes import Episode, Ordering
from biasgp.models.problem import Problem, Rows
from biasgp.models.sparse import leave_one_out
from biasgp.models.sparse.average import LabelAverage, Moments
from biasgp.models.sparse.episode_fits import with_dropped, with_episodes
from biasgp.models.sparse.episode_search import EpisodeSearch
from biasgp.models.sparse.episode_windows import episodes_in_windows
from biasgp.models.sparse.kinds import PRIOR, Group
from biasgp.models.sparse.search import Search, SparseBiasFit, State, at_lower_bound
from biasgp.models.sparse.starts import RECIPE, Recipe
from biasgp.models.strategy import EXACT, Strategy, stages
from biasgp.watch import stage

__all__ = ["Recipe", "SparseBiasFit", "fit"]


def fit(
    problem: Problem,
    max_iter: int,
    rng: np.random.Generator,
    strategy: Strategy = EXACT,
    recipe: Recipe = RECIPE,
    ordering: Ordering | None = None,
) -> SparseBiasFit:
    """The whole recipe. Readings beyond the fence are moved to it for the fit; their biases are not.

    With an ordering of the readings, biases that last are looked for as well.
    """
    everything, dropped = problem, [] if ordering is None else ordering.stuck_runs(problem.y)
    order = None if ordering is None else ordering.values
    kept = _rows_outside(dropped, len(problem))
    if dropped and ordering is not None:
        problem, ordering = problem[kept], ordering.part(kept)
    excess = problem.y - np.clip(problem.y, -recipe.fence, recipe.fence)
    problem = problem.clipped(recipe.fence)
    if not strategy.exact:
        stage("few readings")
        rows = strategy.first_rows(problem)
        few = fit(problem[rows], max_iter, rng, recipe=recipe)
        if ordering is not None:
            lasting = episodes_in_windows(problem, ordering, few)
            outside, index = _rows_outside(lasting, len(problem)), np.flatnonzero(kept)
            dropped += [replace(each, rows=tuple(index[list(each.rows)].tolist())) for each in lasting]
            kept[index[~outside]] = False
            few, rows = replace(few, labels=few.labels[outside[rows]]), _renumbered(rows, outside)
            problem, excess = problem[outside], excess[outside]
        found = leave_one_out.extend(few, rows, problem, max_iter, strategy)
        return with_dropped(replace(found, bias=found.bias + excess, order=order), everything, dropped, kept)
    rows, *more = stages(problem)
    search = Search(problem[rows])
    with blas_threads_for(len(rows)):
        state = recipe.begin(search)
        for start in recipe.on_few:
            state = start(search, state)
    for wider in more:
        few_search, few_labels, known_rows = search, state.labels, np.searchsorted(wider, rows)
        search, rows = Search(problem[wider]), wider
        with blas_threads_for(len(rows)):
            state = recipe.add_readings(search, few_search, known_rows)
            if np.mean(state.labels[known_rows] != few_labels) > recipe.add_readings.different:
                state = recipe.where_labels_moved(search, state, known_rows)

    def complete(search: Search, state: State) -> State:
        state = recipe.complete(search, state)
        limits = recipe.second_look if more and search.problem.shared is None else None
        # The first starts know nothing of episodes.
        if limits is not None and search.looks_non_gaussian(state, limits):
            # Few of the readings may have been too few to follow f: the residuals of all of them are not noise.
            again = recipe.complete(search, recipe.begin(search))
            state = again if again.evidence > state.evidence else state
        return state

    def finish(search: Search, state: State, over_parameters: bool) -> tuple[SparseBiasFit, State]:
        state = search.converged(state, max_iter)
        found = _finish(search, state, recipe.average, rng)
        if over_parameters and recipe.over_parameters.is_for(problem):
            found = _over_parameters(found, *recipe.over_parameters(search, state, rng))
        return _judged(found, search, state), state

    with blas_threads_for(len(problem)):
        if ordering is None or ordering.too_short:
            found, _ = finish(search, complete(search, state), True)
        else:
            found = with_episodes(EpisodeSearch(search, state, ordering), complete, finish, rng)
    return with_dropped(replace(found, bias=found.bias + excess, order=order), everything, dropped, kept)


def _rows_outside(episodes: list[Episode], n: int) -> Mask:
    """Readings that are in none of these episodes."""
    outside = np.ones(n, dtype=bool)
    outside[[row for episode in episodes for row in episode.rows]] = False
    return outside


def _renumbered(rows: Rows, kept: Mask) -> NDArray[np.intp]:
    """Indices of the rows that are kept, among those that are."""
    number = np.cumsum(kept) - 1
    return np.asarray(number[np.arange(len(kept))[rows][kept[rows]]])


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
    return replace(found, doubt=doubt, findings=tuple(findings))


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


def _finish(search: Search, state: State, average: LabelAverage, rng: np.random.Generator) -> SparseBiasFit:
    """The fit of a converged state: averaged over the labels in doubt, with what it has to say against itself."""
    support, slab, labels, x = search.support(state), state.slab, state.labels, state.x
    means, covariance = support.posterior_of_means()
    variances = slab.variances + covariance.diagonal()
    if slab.replaced:
        means, variances = np.array(slab.means), np.array(slab.variances)
    shares = PRIOR.shares(slab.counts(labels), len(labels))[1:]
    log_predictive = float(support.log_predictive().sum())
    moments = average(support, rng)
    # The readings that are reported as outliers: by the average over labels.
    flagged = moments.probability > 0.5
    residuals = np.full(len(labels), np.nan)
    residuals[labels == 0] = support.standardised_residuals()
    bounded, noise = at_lower_bound(search.kernel, state.report), float(support.clean_noise.min())
    notes = diagnosis.notes(residuals, flagged, support.nearest_flagged(flagged), noise, bounded)
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
        leave_one_out=log_predictive,
        trace=tuple(search.trace),
        findings=(),
        notes=tuple(notes),
    )
