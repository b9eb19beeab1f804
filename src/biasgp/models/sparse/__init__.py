"""Sparse bias: most biases are exactly zero, the others come from a slab N(m, τ²). This joins the paper's two models.

The label of a reading is 0 where δᵢ = 0, and otherwise the group whose N(m, τ²) its δᵢ comes from. Given the labels
this is a plain GP with several noise levels and means. The recipe: a search for the labels on some of the readings,
then on all of them (`starts`, `search`); then a short Gibbs run over the labels that stay in doubt (`average`). Without
all of K⁻¹ the same on few readings, then labels from leave-one-out odds (`leave_one_out`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from biasgp._typing import Array, Mask
from biasgp.covariance.threads import blas_threads_for
from biasgp.models import diagnosis
from biasgp.models.episodes import CROWD, STUCK, Episode, Ordering, outside
from biasgp.models.noise_tails import Tails
from biasgp.models.problem import Problem, Rows
from biasgp.models.sparse import leave_one_out
from biasgp.models.sparse.crowds import for_all, without_crowds
from biasgp.models.sparse.episode_fits import with_dropped, with_episodes
from biasgp.models.sparse.episode_search import EpisodeSearch
from biasgp.models.sparse.episode_windows import episodes_in_windows
from biasgp.models.sparse.finish import Complete, Finish
from biasgp.models.sparse.kinds import PRIOR, Labels, Slab
from biasgp.models.sparse.left_out import Exact, exact, flags_and_levels, residuals, residuals_of
from biasgp.models.sparse.recipe import RECIPE, Recipe
from biasgp.models.sparse.search import POLICY, Candidate, Search, SearchPolicy, SparseBiasFit, State
from biasgp.models.sparse.starts import OtherLengths
from biasgp.models.strategy import EXACT, Strategy, stages
from biasgp.models.varying_noise import CONSTANT, LEAST_BIAS, Noise, beside, with_noise_model
from biasgp.models.varying_noise import POLICY as NOISE
from biasgp.watch import stage

__all__ = ["Recipe", "RoughFit", "SparseBiasFit", "fit", "refit", "rough_fit"]
_STAGES_OF_FEW = 2
"""Some of the readings, and all of them."""


def fit(
    problem: Problem,
    max_iter: int,
    rng: np.random.Generator,
    strategy: Strategy = EXACT,
    recipe: Recipe = RECIPE,
    ordering: Ordering | None = None,
) -> SparseBiasFit:
    """The whole recipe. Readings beyond the fence are moved to it for the fit; their biases are not.

    With an ordering of the readings, biases that last are looked for as well; without one, crowds of readings at one
    place that are wrong together.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import SquaredExponential
    >>> from biasgp.models.problem import Problem
    >>> from biasgp.models.sparse import fit
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.05 * np.cos(40.0 * X[:, 0])
    >>> y[[7, 20]] += 4.0
    >>> found = fit(Problem(X, y, SquaredExponential().bind(X), np.zeros(30)), 200, np.random.default_rng(0))
    >>> np.flatnonzero(found.probability > 0.5).tolist()
    [7, 20]
    """
    found = _fit_to(problem, max_iter, rng, strategy, recipe, ordering)
    if found.known is None or ordering is not None:
        return found
    return without_crowds(found, problem, lambda each: _fit_to(each, max_iter, rng, strategy, recipe, None))


def _fit_to(
    problem: Problem,
    max_iter: int,
    rng: np.random.Generator,
    strategy: Strategy,
    recipe: Recipe,
    ordering: Ordering | None,
) -> SparseBiasFit:
    """The same, with all readings at their places."""
    found = _fit(problem, max_iter, rng, strategy, recipe, ordering)
    # Where that is not exact, few of the readings have shown how the noise varies, and whether outliers are credible.
    # And what somebody says against the readings is no reason for another noise.
    if found.known is None or any(note.code == "contradicted-verdict" for note in found.notes):
        return _to_keep(found)
    finish = Finish(recipe, max_iter, rng)
    found = _with_noise_model(found, problem, ordering, finish)
    left = exact(beside(problem, found.noise, found.posterior).clipped(recipe.fence), found, ordering)
    if diagnosis.are_peaks(*flags_and_levels(left)):
        problem = replace(problem, labelled=False)
        found = _with_noise_model(_without_labels(found, problem, ordering, finish), problem, ordering, finish)
        left = exact(beside(problem, found.noise, found.posterior).clipped(recipe.fence), found, ordering)
    return _to_keep(_with_tails(found, left))


def _with_noise_model(
    found: SparseBiasFit, problem: Problem, ordering: Ordering | None, finish: Finish
) -> SparseBiasFit:
    """The fit with the noise that has the most evidence."""
    return with_noise_model(
        finish.recipe.noise_model,
        problem,
        found,
        lambda each, before, noise, best: _with_noise(before, noise, best, each, ordering, finish),
        lambda each, model: residuals(each.clipped(finish.recipe.fence), model, ordering),
    )


def _to_keep(found: SparseBiasFit) -> SparseBiasFit:
    """A fit without the N×N numbers that the noise model may ask for."""
    return found if found.known is None else replace(found, known=found.known.without_supports())


def _fit(
    problem: Problem,
    max_iter: int,
    rng: np.random.Generator,
    strategy: Strategy,
    recipe: Recipe,
    ordering: Ordering | None,
) -> SparseBiasFit:
    """The same with the noise as it is."""
    told = _Told(problem, ordering, recipe.fence)
    problem = told.problem
    if not strategy.exact:
        stage("few readings")
        rows = strategy.first_rows(problem)
        few = _fit_to(problem[rows], max_iter, rng, EXACT, recipe, None)
        told.everything = replace(told.everything, labelled=few.labelled)
        told.problem = problem = replace(beside(problem, few.noise, few.posterior), labelled=few.labelled)
        found = replace(_extended(few, rows, told, max_iter, strategy), noise=few.noise)
        if told.ordering is None:
            return found
        # With the parameters of all readings: a few hundred may have misled.
        known = replace(few, kernel=found.kernel, noise_variance=found.noise_variance)
        lasting = episodes_in_windows(problem, told.ordering, known)
        if not lasting:
            return found
        return replace(_extended(few, rows, told.without(lasting), max_iter, strategy), noise=few.noise)
    search, state, complete = _searched(problem, recipe)
    return _concluded(told, search, state, complete, Finish(recipe, max_iter, rng))


def _with_noise(
    before: SparseBiasFit,
    noise: Noise,
    best: SparseBiasFit | None,
    problem: Problem,
    ordering: Ordering | None,
    finish: Finish,
) -> SparseBiasFit | None:
    """The fit to the same readings with what varies of their noise known, from where one with another noise ended.

    Where the noise is larger than that was, readings have been taken for outliers: it begins without small biases, too.
    In a further round, which the best fit is given for, labels move one by one only; it is given up where it falls
    behind.
    """
    assert before.known is not None
    told, state = _Told(problem, ordering, finish.recipe.fence), before.known.without_episodes
    search, to_beat = Search(told.problem, _policy(told.problem)), None
    if best is not None and best.known is not None and best.known.none is None:
        rival = best.known.without_episodes
        own_prior = 0.0 if best.noise is None else best.noise.log_prior
        # That the labels are the same says nothing: it is the noise that is new.
        labels = np.full_like(rival.labels, -1)
        evidence = rival.evidence + own_prior - noise.log_prior + NOISE.settled
        to_beat = replace(rival, labels=labels, support=None, evidence=evidence)
    x = np.clip(np.append(state.x[:-1], np.log(noise.own)), *search.bounds.T)
    with blas_threads_for(len(told.problem)):
        found = search.improve("noise that varies", Candidate(x, state.slab, state.labels, state.curvature), to_beat)
        if found is to_beat:
            return None
        if best is None:
            found = search.improve("large biases", _with_large_biases(search, found), found)
    recipe = finish.recipe if best is None else replace(finish.recipe, with_all=())
    return _concluded(told, search, found, Complete(recipe, looks_again=False), finish)


def _with_large_biases(search: Search, state: State) -> Candidate:
    """Where a search begins that takes small biases for noise."""
    bias = search.bias(state) if not state.slab.replaced else search.y
    large = (state.labels > 0) & (np.abs(bias) > LEAST_BIAS)
    spread = max(float(np.var(bias[large])), PRIOR.lowest_variance) if large.any() else state.slab.variances[0]
    return Candidate(state.x, Slab((spread,), state.slab.mean_variance), large.astype(np.intp), state.curvature)


def _with_tails(found: SparseBiasFit, left: Exact) -> SparseBiasFit:
    """With the tails that the noise has; what stands for a censored reading says nothing of them."""
    return found if left.problem.censored is not None else replace(found, tails=Tails.of(residuals_of(left, found)))


def _without_labels(
    before: SparseBiasFit, problem: Problem, ordering: Ordering | None, finish: Finish
) -> SparseBiasFit:
    """The fit to readings none of which is an outlier by itself, from where one with outliers ended."""
    assert before.known is not None
    told, state = _Told(problem, ordering, finish.recipe.fence), before.known.without_episodes
    search = Search(told.problem, _policy(told.problem))
    slab = Slab(state.slab.variances[:1], state.slab.mean_variance)
    labels = np.zeros(len(told.problem), dtype=np.intp)
    with blas_threads_for(len(labels)):
        # From a noise that takes all for it.
        x = np.clip(np.append(state.x[:-1], 0.0), *search.bounds.T)
        found = search.improve("no outlier", Candidate(x, slab, labels))
        found = OtherLengths()(search, found)
    recipe = replace(finish.recipe, with_all=())
    return _concluded(told, search, found, Complete(recipe, looks_again=False), replace(finish, recipe=recipe))


def _concluded(told: _Told, search: Search, state: State, complete: Complete, finish: Finish) -> SparseBiasFit:
    """The fit to all readings from where the search for labels is."""
    with blas_threads_for(len(told.problem)):
        if told.ordering is None:
            found, _ = finish(search, complete(search, state), True)
        else:
            found = with_episodes(EpisodeSearch(search, state, told.ordering), complete, finish, finish.rng)
    return told.everywhere(found)


def _policy(problem: Problem) -> SearchPolicy:
    """How much work all readings are worth: no more than adjusting to them where a part has shown all in full."""
    return POLICY.quick(POLICY.max_rounds) if len(stages(problem)) > _STAGES_OF_FEW else POLICY


def _searched(problem: Problem, recipe: Recipe) -> tuple[Search, State, Complete]:
    """The search on all readings by way of some of them: where it is then, and all that is left to be tried."""
    rows, *more = stages(problem) if len(problem) >= recipe.few_from else [np.arange(len(problem))]
    policy = _policy(problem)
    search = Search(problem[rows])
    with blas_threads_for(len(rows)):
        state = recipe.first(search, beam=recipe.beam if recipe.over_parameters.up_to >= len(problem) else 1)
    for wider in more:
        few_search, few_labels, known_rows = search, state.labels, np.searchsorted(wider, rows)
        rough = wider is more[-1] and policy is not POLICY
        search, rows = Search(problem[wider], policy if rough else POLICY), wider
        with blas_threads_for(len(rows)):
            gap = search.policy.rival_gap if rough else search.policy.hopeless_gap
            state = recipe.add_readings(search, few_search, known_rows, gap)
            if np.mean(state.labels[known_rows] != few_labels) > recipe.add_readings.different:
                state = recipe.where_labels_moved(search, state, known_rows)
            if wider is not more[-1]:
                state = Complete(recipe, looks_again=True)(search, state)
    return search, state, Complete(recipe, looks_again=len(more) == 1)


@dataclass(frozen=True)
class RoughFit:
    """What kernels and transforms are compared by: log p(yᵢ | the others), labels, and log p(y, labels).

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.models.sparse import RoughFit
    >>> RoughFit(log_density=np.array([-1.0, -3.0]), labels=np.array([0, 1]), log_evidence=-5.0).labels.tolist()
    [0, 1]
    """

    log_density: Array
    labels: Labels
    log_evidence: float


def rough_fit(problem: Problem, max_iter: int, recipe: Recipe) -> RoughFit:
    """The best labels and parameters, without the averages that predictions need.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import SquaredExponential
    >>> from biasgp.models.problem import Problem
    >>> from biasgp.models.sparse import Recipe, rough_fit
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.05 * np.cos(40.0 * X[:, 0])
    >>> y[[7, 20]] += 4.0
    >>> found = rough_fit(Problem(X, y, SquaredExponential().bind(X), np.zeros(30)), 30, Recipe())
    >>> np.flatnonzero(found.labels).tolist()
    [7, 20]
    """
    problem = problem.clipped(recipe.fence)
    search, state, complete = _searched(problem, recipe)
    with blas_threads_for(len(problem)):
        state = search.converged(complete(search, state), max_iter)
        log_density = logsumexp(search.support(state).log_weights(), axis=1)
    return RoughFit(log_density, state.labels, state.evidence)


def refit(
    before: SparseBiasFit,
    problem: Problem,
    max_iter: int,
    rng: np.random.Generator,
    strategy: Strategy = EXACT,
    ordering: Ordering | None = None,
) -> SparseBiasFit:
    """The fit to the readings of an earlier one with other verdicts, from where that ended.

    Labels move to where the verdicts lead, then parameters and episodes; where no label moves, nothing does. It is a
    fit from the beginning where other readings than before are left out as those of a stuck sensor. Among many readings
    an episode with a good reading is given up, and no others are looked for.

    Examples
    --------
    >>> import numpy as np
    >>> from biasgp.kernels import SquaredExponential
    >>> from biasgp.models.problem import Problem
    >>> from biasgp.models.sparse import fit, refit
    >>> from dataclasses import replace
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.05 * np.cos(40.0 * X[:, 0])
    >>> y[[7, 20]] += 4.0
    >>> problem, rng = Problem(X, y, SquaredExponential().bind(X), np.zeros(30)), np.random.default_rng(0)
    >>> bad = np.where(np.arange(30) == 3, 1.0, np.nan)
    >>> found = refit(fit(problem, 200, rng), replace(problem, verdict=bad), 200, rng)
    >>> np.flatnonzero(found.probability > 0.5).tolist()
    [3, 7, 20]
    """
    problem = replace(problem, labelled=before.labelled)
    told, known = _Told(problem, ordering, RECIPE.fence), before.known
    if not strategy.exact:
        good = np.zeros(len(problem), dtype=bool) if problem.verdict is None else problem.verdict == 0.0
        number, few = np.cumsum(told.kept) - 1, replace(before, labels=before.labels[told.kept])
        held = [each for each in before.episodes if each.kind != STUCK and not good[list(each.rows)].any()]
        lasting = [replace(each, rows=tuple(number[list(each.rows)].tolist())) for each in held]
        return _extended(few, np.arange(len(few.labels)), told.without(lasting), max_iter, strategy)
    # The noise is known, as it was: what varies of it is among the known variances.
    anew = replace(RECIPE, noise_model=CONSTANT)
    crowds = [each for each in before.episodes if each.kind == CROWD]
    if crowds and known is not None:
        kept = outside(crowds, len(problem))
        if problem.verdict is not None and np.any(problem.verdict[~kept] == 0.0):
            return fit(problem, max_iter, rng, strategy, anew)
        before = replace(before, known=replace(known, kept=None), episodes=())
        return for_all(refit(before, problem[kept], max_iter, rng, strategy), problem, crowds)
    if known is None or not np.array_equal(told.kept, np.ones_like(told.kept) if known.kept is None else known.kept):
        return fit(problem, max_iter, rng, strategy, anew, ordering)
    search, finish = Search(told.problem), Finish(RECIPE, max_iter, rng, known)
    search.trace, search.ended = list(before.trace), [s for s in known.rivals if _agrees(told.problem, s)]
    with blas_threads_for(len(told.problem)):
        if told.ordering is None:
            found, _ = finish(search, search.recalled(known.without_episodes)[0], True)
        else:
            found = with_episodes(EpisodeSearch(search, known.without_episodes, told.ordering), before, finish, rng)
    found = told.everywhere(found)
    return _to_keep(_with_tails(found, exact(problem.clipped(RECIPE.fence), found, ordering)))


def _agrees(problem: Problem, state: State) -> bool:
    """Whether a state has the labels that the verdicts want."""
    return np.array_equal(problem.held(state.labels), state.labels)


def _extended(few: SparseBiasFit, rows: Rows, told: _Told, max_iter: int, strategy: Strategy) -> SparseBiasFit:
    """The fit to many readings from one to those of them in `rows`; some may have been left out since."""
    inside = told.inside
    few = replace(few, labels=few.labels[inside[rows]])
    found = leave_one_out.extend(few, _renumbered(rows, inside), told.problem, max_iter, strategy)
    return told.everywhere(replace(found, tails=few.tails))


class _Told:
    """All readings; those that say nothing of f, which are of stuck sensors at first; and the others, for a fit."""

    def __init__(self, problem: Problem, ordering: Ordering | None, fence: float) -> None:
        self.everything, self.order = problem, None if ordering is None else ordering.values
        self.dropped = [] if ordering is None else ordering.stuck_runs(problem.y)
        self.kept = outside(self.dropped, len(problem))
        if self.dropped and ordering is not None:
            problem, ordering = problem[self.kept], ordering.part(self.kept)
        self.ordering = None if ordering is None or ordering.too_short else ordering
        self.excess = problem.y - np.clip(problem.y, -fence, fence)
        self.problem = problem.clipped(fence)
        self.inside = np.ones(len(problem), dtype=bool)
        """Which of the readings that were kept at first still are."""

    def without(self, lasting: list[Episode]) -> _Told:
        """Itself, with the readings of more episodes left out."""
        index, self.inside = np.flatnonzero(self.kept), outside(lasting, len(self.problem))
        self.dropped += [replace(each, rows=tuple(index[list(each.rows)].tolist())) for each in lasting]
        self.kept[index[~self.inside]] = False
        self.problem, self.excess = self.problem[self.inside], self.excess[self.inside]
        return self

    def everywhere(self, found: SparseBiasFit) -> SparseBiasFit:
        """The fit to the others, for all readings."""
        found = replace(found, bias=found.bias + self.excess, order=self.order)
        if found.known is not None and self.dropped:
            found = replace(found, known=replace(found.known, kept=self.kept))
        found = with_dropped(found, self.everything, self.dropped, self.kept)
        if not self.everything.labelled:
            found = replace(found, labelled=False, findings=(diagnosis.NO_LABELS, *found.findings))
        verdict = self.everything.verdict
        if verdict is None:
            return found
        return replace(found, probability=np.where(np.isnan(verdict), found.probability, verdict))


def _renumbered(rows: Rows, kept: Mask) -> NDArray[np.intp]:
    """Indices of the rows that are kept, among those that are."""
    number = np.cumsum(kept) - 1
    return np.asarray(number[np.arange(len(kept))[rows][kept[rows]]])
