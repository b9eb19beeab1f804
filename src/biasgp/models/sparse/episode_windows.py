"""Episodes among many readings: where the level jumps, the exact model looks at a window of the record.

Three sieves, each dearer and sharper than the one before: medians of neighbouring readings that differ by more than is
usual in this record; every run of the window at the parameters of the whole; the exact search in the window. The cost
is linear in the number of readings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.stats import binom

from biasgp._typing import Array
from biasgp.covariance.threads import blas_threads_for
from biasgp.models.episodes import Episode, Ordering
from biasgp.models.problem import Problem
from biasgp.models.sparse.episode_search import EpisodeSearch
from biasgp.models.sparse.search import Candidate, Search, SparseBiasFit
from biasgp.response import MAD_TO_STD
from biasgp.watch import out_of_time, stage


@dataclass(frozen=True)
class _WindowPolicy:
    """Where windows are and how large. Counts are of readings; benchmarks/faults.py --many says what they find."""

    side: int = 5
    """On each side of a place, at least, of which the medians are compared: single outliers do not move them."""
    by_chance: float = 1e-4
    """Of all places, the share at which most of one side may be single outliers: the more there are, the more readings
    a side has. A run of so few is then no more than chance would bring."""
    jump: float = 4.0
    """Robust standard deviations of such differences from which on a window is looked at."""
    size: int = 500
    """Of a window, which has the jump in its middle."""
    served: int = 100
    """On each side of a jump, those whose jumps the same window serves: it holds episodes of up to size/2 − served."""
    per_window: int = 1000
    """Of the record, per window at most, the largest jumps first: a rough record has jumps everywhere."""

    @property
    def longest(self) -> int:
        """Readings of an episode that every window around one of its ends holds whole."""
        return self.size // 2 - self.served


POLICY = _WindowPolicy()
_AT_ONCE = 2**16
"""Places whose medians are taken at once: each needs a copy of its readings."""


def episodes_in_windows(
    problem: Problem, ordering: Ordering, few: SparseBiasFit, policy: _WindowPolicy = POLICY
) -> list[Episode]:
    """Episodes that the windows of a record hold, at most as long as the policy says; `few` has the parameters."""
    stage("faults that last")
    found: list[Episode] = []
    taken = np.zeros(len(problem), dtype=bool)
    policy = replace(policy, side=_side(float(np.mean(few.labels > 0)), policy))
    for rows, ends in _windows(problem.y, ordering, policy):
        if out_of_time():
            break
        part = ordering.part(rows)
        for episode in () if part.too_short else _episodes(problem[rows], part, few):
            inside = rows[list(episode.rows)]
            # One that reaches the end of its window, but not that of the record, may be longer than windows are.
            cut = (np.isin(rows[part.rows[[0, -1]]], inside) & ~ends).any()
            if not cut and not taken[inside].any():
                taken[inside] = True
                found.append(replace(episode, rows=tuple(inside.tolist())))
    return found


def _side(share: float, policy: _WindowPolicy) -> int:
    """Readings of a side, an odd number, of which more than half are seldom outliers by chance."""
    sizes = range(policy.side, policy.served, 2)
    return next((size for size in sizes if binom.sf(size // 2, size, share) <= policy.by_chance), policy.served - 1)


def _windows(
    y: Array, ordering: Ordering, policy: _WindowPolicy
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.bool_]]]:
    """Readings around each place where the level jumps, and whether each end of them is that of the record."""
    for rows in ordering.rows_of_series():
        if len(rows) < 2 * policy.side:
            continue
        jumps = _jumps(y[rows], policy)
        most = max(len(rows) // policy.per_window, 1)
        served = np.zeros(len(rows), dtype=bool)
        for at in jumps.tolist():
            if served[at] or most == 0:
                continue
            most -= 1
            start = max(min(at - policy.size // 2, len(rows) - policy.size), 0)
            window = slice(start, min(start + policy.size, len(rows)))
            served[max(at - policy.served, 0) : at + policy.served] = True
            yield rows[window], np.array([window.start == 0, window.stop == len(rows)])


def _jumps(y: Array, policy: _WindowPolicy) -> NDArray[np.intp]:
    """Places where the median of the next readings differs from that of the last ones, the largest difference first."""
    sides = sliding_window_view(y, policy.side)
    parts = range(0, len(sides), _AT_ONCE)
    medians = np.concatenate([np.median(sides[start : start + _AT_ONCE], axis=1) for start in parts])
    difference = medians[policy.side :] - medians[: -policy.side]
    centred = np.abs(difference - np.median(difference))
    scale = MAD_TO_STD * float(np.median(centred))
    places = np.flatnonzero(centred > policy.jump * max(scale, np.finfo(float).tiny))
    return np.asarray(policy.side + places[np.argsort(-centred[places], kind="stable")])


def _episodes(problem: Problem, ordering: Ordering, few: SparseBiasFit) -> list[Episode]:
    """Those of a window, from the parameters of the record; where none pays at these, none is looked for."""
    search = Search(problem)
    x = np.clip(np.append(few.kernel.theta, np.log(few.noise_variance)), *search.bounds.T)
    start = Candidate(x, few.slab, np.zeros(len(problem), dtype=np.intp))
    support = search.support(start)
    support.climb(len(problem) // 2)
    start = replace(start, labels=support.labels)
    if not EpisodeSearch.would_find_any(search, start, ordering):
        return []
    with blas_threads_for(len(problem)):
        hunt = EpisodeSearch(search, search.improve("window", start), ordering)
        best, without = hunt.supported(hunt.best())
    return [ordering.episode(run, odds) for run, (_, odds) in zip(best.runs, without, strict=True)]
