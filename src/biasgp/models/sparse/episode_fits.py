"""Fits with episodes: averaged over explanations that the readings cannot tell apart, and over the ends of episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, softmax

from biasgp._typing import Array, Mask
from biasgp.covariance.posterior import AveragedPosterior, MixturePosterior, PartialPosterior, mixture_moments
from biasgp.models.diagnosis import Finding
from biasgp.models.episodes import Episode
from biasgp.models.problem import Problem
from biasgp.models.sparse.average import LabelAverage, Moments
from biasgp.models.sparse.episode_policy import EpisodePolicy
from biasgp.models.sparse.episode_search import EpisodeSearch
from biasgp.models.sparse.explanations import Explanation, differ
from biasgp.models.sparse.search import Known, Search, SparseBiasFit, State

_WithRows = TypeVar("_WithRows", Episode, Finding)
RELEVANT = 7.0
"""Nats behind the best within which an explanation is averaged over: a weight of a thousandth is the least."""
QUICK = LabelAverage(sweeps=4, burn_in=1)
"""Of the labels in explanations other than the best."""


def with_episodes(
    hunt: EpisodeSearch,
    begin: Callable[[Search, State], State] | SparseBiasFit,
    finish: Callable[[Search, State, bool], tuple[SparseBiasFit, State]],
    rng: np.random.Generator,
) -> SparseBiasFit:
    """The fit with the episodes that the readings support, averaged over explanations that they cannot tell apart.

    `begin` works labels and slab out to the end, or is an earlier fit to the same readings to begin with; `finish`
    converges them and makes the fit, averaged over the parameters as well or not.
    """
    if isinstance(begin, SparseBiasFit):
        best, without, others = _recalled(hunt, begin)
    else:
        best, without, others = _searched(hunt, begin)
    if not best.runs or best.total_evidence <= hunt.none.evidence:
        alternatives = tuple(each.episodes() for each in hunt.almost())
        found, state = finish(hunt.search, hunt.none.state, True)
        return replace(found, alternatives=alternatives, known=_known(found, [replace(hunt.none, state=state)]))
    others = [*(other for other, _ in without), *others, hunt.none, *hunt.ended]
    found, state = finish(best.search, best.state, False)
    best = replace(best, state=state)
    explanations, weights = _weighted(best, others, hunt.policy)
    assert isinstance(found.posterior, AveragedPosterior)
    posterior = found.posterior
    own = Moments(
        posterior.alpha, posterior.precision, found.probability, found.bias, found.bias_variance, found.labels
    )
    each = [own, *(QUICK(other.search.support(other.state), rng) for other in explanations[1:])]
    each = [at.averaged_over_ends(moments) for at, moments in zip(explanations, each, strict=True)]
    named = explanations[1:]
    for other in hunt.possible(best):
        run = other.runs[-1]
        if not any(run.first < one.stop and one.first < run.stop for each in named for one in each.runs):
            named.append(other)
    bias, variance = mixture_moments(weights, [(moments.bias, moments.bias_variance) for moments in each])
    parts = tuple(_posterior(at, moments) for at, moments in zip(explanations, each, strict=True))
    return replace(
        found,
        posterior=parts[0] if len(parts) == 1 else MixturePosterior(weights, parts),
        probability=np.asarray(sum(w * moments.probability for w, moments in zip(weights, each, strict=True))),
        bias=bias,
        bias_variance=variance,
        log_evidence=found.log_evidence + best.evidence - best.state.evidence,
        episodes=best.episodes([odds for _, odds in without]),
        alternatives=tuple(each.episodes() for each in named),
        known=_known(found, explanations, hunt.none.state, [odds for _, odds in without]),
    )


def _searched(
    hunt: EpisodeSearch, complete: Callable[[Search, State], State]
) -> tuple[Explanation, list[tuple[Explanation, float]], list[Explanation]]:
    """The best explanation; without each of its episodes, and the log odds against that; and others."""
    best = hunt.best()
    finished = not best.runs
    if finished:
        hunt.none = hunt.completed(best, complete)
        best = hunt.overlooked()
    others = hunt.others(best) if best.runs else []
    for other in others:
        if other.may_reach(best.total_evidence) and other.total_evidence > best.total_evidence:
            best = other
    if best.runs:
        best = hunt.completed(best, complete)
        if not finished and best.evidence < hunt.none.evidence + hunt.policy.unfinished_gap:
            hunt.none = hunt.completed(hunt.none, complete)
    return *hunt.supported(best), others


def _recalled(
    hunt: EpisodeSearch, before: SparseBiasFit
) -> tuple[Explanation, list[tuple[Explanation, float]], list[Explanation]]:
    """The same from where an earlier fit to the same readings ended, which other verdicts may have moved."""
    known = before.known
    assert known is not None
    hunt.none = replace(hunt.none, state=hunt.search.recalled(known.without_episodes)[0])
    hunt.ended = [hunt.none]
    each = [hunt.recalled(runs, state) for runs, state in known.explanations]
    (best, same), others = each[0], [explanation for explanation, _ in each[1:]]
    if same:
        return best, [(best, odds) for odds in known.log_odds], others
    best = hunt.moved_on(max([best, *others], key=lambda explanation: explanation.evidence))
    return *hunt.supported(best), others


def _known(
    found: SparseBiasFit,
    explanations: Sequence[Explanation],
    none: State | None = None,
    log_odds: Sequence[float] = (),
) -> Known:
    """For a later fit to the same readings."""
    assert found.known is not None
    best, *others = explanations
    states = ((best.runs, best.state), *((each.runs, replace(each.state, support=None)) for each in others))
    none = None if none is None else replace(none, support=None)
    return replace(found.known, explanations=states, none=none, log_odds=tuple(log_odds))


def _weighted(
    best: Explanation, others: list[Explanation], policy: EpisodePolicy
) -> tuple[list[Explanation], tuple[float, ...]]:
    """The explanations that matter, the best first, with their weights."""
    kept = [best]
    for other in sorted(others, key=lambda each: -each.evidence):
        gap = policy.ambiguous_gap if other.of_other_kind_than(best) else RELEVANT
        new = all(differ(other.runs, known.runs) for known in kept)
        if new and other.may_reach(best.total_evidence - gap) and best.total_evidence - other.total_evidence < gap:
            kept.append(other)
    kept[1:] = sorted(kept[1:], key=lambda each: -each.total_evidence)
    evidence = np.array([other.total_evidence - best.total_evidence for other in kept])
    other_kind = np.array([other.of_other_kind_than(best) for other in kept])
    weights = np.empty(len(kept))
    # Within each of the two, by evidence; between them, the difference is known to no more than it says.
    share = float(ndtr(evidence[other_kind].max(initial=-np.inf) / policy.kinds_known_to))
    for rows, total in ((~other_kind, 1.0 - share), (other_kind, share)):
        if rows.any():
            weights[rows] = total * softmax(evidence[rows])
    return kept, tuple(weights.tolist())


def _posterior(at: Explanation, moments: Moments) -> AveragedPosterior:
    kernel = at.search.kernel.with_theta(at.state.x[:-1])
    return AveragedPosterior(kernel, at.search.X, moments.alpha, moments.precision)


def with_dropped(found: SparseBiasFit, problem: Problem, dropped: list[Episode], kept: Mask) -> SparseBiasFit:
    """A fit to the readings that are kept, for all of them: the episodes of the others say nothing about f.

    A sensor that is stuck tells nothing of it; among many readings, what other episodes would tell is not worth the
    cost.
    """
    if not dropped:
        return found
    f, variance = found.posterior.mean_and_variance(problem.X[~kept])
    spread = variance + found.noise_variance + problem.known[~kept]

    def everywhere(values: NDArray[Any], dropped: Array | float) -> NDArray[Any]:
        out = np.empty(len(kept), dtype=values.dtype)
        out[kept], out[~kept] = values, dropped
        return out

    others = found.given_others
    if others is not None:
        others = np.array([everywhere(others[0], f), everywhere(others[1], variance)])
    index = np.flatnonzero(kept)

    def renumbered(about: _WithRows) -> _WithRows:
        return replace(about, rows=tuple(index[list(about.rows)].tolist()))

    return replace(
        found,
        posterior=PartialPosterior(found.posterior, kept),
        labels=everywhere(found.labels, 0),
        probability=everywhere(found.probability, 1.0),
        bias=everywhere(found.bias, problem.y[~kept] - f),
        bias_variance=everywhere(found.bias_variance, spread),
        given_others=others,
        findings=tuple(map(renumbered, found.findings)),
        notes=tuple(map(renumbered, found.notes)),
        episodes=(*map(renumbered, found.episodes), *dropped),
        alternatives=tuple(tuple(map(renumbered, each)) for each in found.alternatives),
    )
