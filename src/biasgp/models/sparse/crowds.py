"""Readings at one place that agree with one another and not with the others, as if somebody had been wrong there.

Labels are exchangeable: each of these readings would be an outlier by itself, and cost as much, so that an f that dips
there has more evidence. As a whole they cost little. They are a crowd among the inputs, so that nothing is looked for
where readings lie in order or at random. They are left out where the others, and values around a level of their own,
have far more evidence than a fit to all; but not where values vary smoothly within the crowd: somebody looked there
more closely because of what the signal is, as at an optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from biasgp._typing import Array
from biasgp.kernels import SquaredExponential
from biasgp.models import gaussian
from biasgp.models.diagnosis import POLICY as DIAGNOSIS
from biasgp.models.diagnosis import Finding
from biasgp.models.episodes import CROWD, Episode, outside
from biasgp.models.problem import LOG_2PI, Problem
from biasgp.models.sparse.episode_fits import with_dropped
from biasgp.models.sparse.kinds import PRIOR, log_normal
from biasgp.models.sparse.search import SparseBiasFit


@dataclass(frozen=True)
class _CrowdPolicy:
    expected: float = 0.01
    """Chance that somebody was wrong at one place."""
    sure: float = 10.0
    """Nats by which it must be ahead of a fit to all; with fewer, or with any lead, it is named."""
    nearer: float = 0.8
    """Times as near to one another as a reading's nearest neighbour usually is."""
    fewest: int = 5
    """Readings of a crowd; fewer are single outliers."""
    largest_share: float = 0.5
    most: int = 3
    """Crowds that are looked at, the largest first."""
    beyond_chance: float = 3.0
    """Times as large as the largest of the others, which are what chance makes of inputs like these."""
    spreads: float = 10.0
    """Nats: the standard deviation around their level is known to a factor of e¹⁰."""
    structured: float = 5.0
    """Nats from which values vary smoothly within a crowd. Of optima that readings crowd at all had more than 12 where
    readings are at several distances, and those of focused outliers at most 3.5 (docs/sparse-bias.md)."""


POLICY = _CrowdPolicy()


def without_crowds(found: SparseBiasFit, problem: Problem, fit: Callable[[Problem], SparseBiasFit]) -> SparseBiasFit:
    """A fit to all readings, or one to those outside crowds that are wrong together."""
    kept, dropped, doubtful = np.ones(len(problem), dtype=bool), list[Episode](), list[Episode]()
    for rows in _crowds(problem):
        others = kept.copy()
        others[rows] = False
        values = problem.y[rows]
        if _structure(problem.X[rows], values) > POLICY.structured:
            continue
        rival = fit(problem[others])
        log_odds = rival.evidence + _log_evidence(values) + float(np.log(POLICY.expected)) - found.evidence
        crowd = Episode(CROWD, tuple(rows.tolist()), log_odds)
        if log_odds > POLICY.sure:
            found, kept = rival, others
            dropped.append(crowd)
        elif log_odds > 0.0:
            doubtful.append(crowd)
    found = for_all(found, problem, dropped)
    text = "they may be wrong together. They are taken for the truth, which is then different there."
    return replace(found, notes=(*found.notes, *(_note(each, text) for each in doubtful)))


def for_all(found: SparseBiasFit, problem: Problem, crowds: list[Episode]) -> SparseBiasFit:
    """A fit to the readings outside crowds, for all of them."""
    if not crowds:
        return found
    kept = outside(crowds, len(problem))
    assert found.known is not None
    found = with_dropped(replace(found, known=replace(found.known, kept=kept)), problem, crowds, kept)
    text = "they are taken to be wrong together. The readings cannot tell that from a truth that is different there."
    return replace(found, notes=(*found.notes, *(_note(each, text, "judge one good") for each in crowds)))


def _note(crowd: Episode, text: str, *remedy: str) -> Finding:
    agree = f"{len(crowd.rows)} readings at one place agree with one another and not with the others"
    return Finding("crowd", f"{agree}: {text}", remedy, crowd.rows[: DIAGNOSIS.most_rows])


def _crowds(problem: Problem) -> Iterator[NDArray[np.intp]]:
    """Rows of each crowd, the largest first; none where the kernel compares labels, or where readings are censored."""
    if problem.censored is not None or problem.kernel.category_columns or len(problem) < 2 * POLICY.fewest:
        return
    U = _standardised(problem.X)
    if not U.shape[1]:
        return
    tree = KDTree(U)
    usual = float(np.median(tree.query(U, k=2)[0][:, 1]))
    if usual == 0.0:  # most inputs are repeated
        return
    near = tree.sparse_distance_matrix(tree, POLICY.nearer * usual, output_type="coo_matrix")
    of = connected_components(near, directed=False)[1]
    sizes = np.bincount(of)
    order = np.argsort(-sizes, kind="stable")
    by_chance = sizes[order[POLICY.most :]].max(initial=1)
    least = max(POLICY.fewest, POLICY.beyond_chance * by_chance)
    possible = (sizes >= least) & (sizes <= POLICY.largest_share * len(U))
    if problem.verdict is not None:
        possible[of[problem.verdict == 0.0]] = False
    yield from (np.flatnonzero(of == each) for each in order[: POLICY.most] if possible[each])


def _standardised(X: Array) -> Array:
    """Inputs that vary, in units of their standard deviations."""
    spread = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0))[:, spread > 0.0] / spread[spread > 0.0])


def _log_evidence(y: Array) -> float:
    """log p(values around a level of their own), the level and their standard deviation integrated out (Laplace)."""
    n, variance = len(y), float(y.var()) + PRIOR.lowest_variance
    at_best = -0.5 * n * (LOG_2PI + np.log(variance) + y.var() / variance)
    prior = float(log_normal(np.array(y.mean()), PRIOR.mean_std**2)) - np.log(POLICY.spreads)
    # Of the level, and of the logarithm of the standard deviation.
    return float(at_best + prior + LOG_2PI + 0.5 * np.log(variance / n) - 0.5 * np.log(2.0 * n))


def _structure(X: Array, y: Array) -> float:
    """Nats by which values vary smoothly with the inputs rather than at random, by the BIC."""
    U = _standardised(X)
    if not U.shape[1] or not np.ptp(y):
        return 0.0
    n, kernel = len(y), SquaredExponential().bind(U)
    found = gaussian.fit(Problem(U, (y - y.mean()) / y.std(), kernel, np.zeros(n)), max_iter=50)
    at_random = -0.5 * n * (LOG_2PI + 1.0)
    return float(-found.report.value - at_random - 0.5 * len(kernel.theta) * np.log(n))
