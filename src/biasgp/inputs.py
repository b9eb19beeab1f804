"""What the inputs say about themselves: spread, spacing, and representative subsets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.stats import rankdata

from biasgp._typing import Array

GAP = 5.0
"""Median distances between neighbouring readings from which on it is a gap."""
MAX_GAPS, POINTS = 60, 48
"""Gaps over which a curve is drawn, the longest, and points in each."""
_ROUNDING = 1e-12
"""Standard deviation of a column, as a share of its largest value, that is rounding error."""

STRETCH = 40
"""Rows of a stretch: a day and a half of hourly readings, and ten of them for each of a few parameters."""
_ALIKE = 0.5
"""Neighbours are alike where their ranks differ by less than this share of what two rows at random do."""
_DISTINCT = 0.5
"""Share of a column's values that must differ for it to have an order."""


def column_scales(columns: Array) -> Array:
    """Standard deviation of each column; 1, or the range if that is larger, for one that varies by rounding alone."""
    spread, ranges = columns.std(axis=0), np.ptp(columns, axis=0)
    constant = spread <= _ROUNDING * np.abs(columns).max(axis=0, initial=0.0)
    return np.asarray(np.where(constant, np.maximum(ranges, 1.0), spread))


def neighbour_gap(columns: Array, *, jointly: bool = False) -> Array:
    """Median distance between neighbouring distinct values, a column at a time or (one number) jointly; 1 for none."""
    if jointly and columns.shape[1] > 1:
        distinct = np.unique(columns, axis=0)
        if len(distinct) == 1:
            return np.ones(1)
        return np.array([np.median(cKDTree(distinct).query(distinct, k=2)[0][:, 1])])
    gaps = np.ones(columns.shape[1])
    for j in range(columns.shape[1]):
        distinct = np.unique(columns[:, j])
        if len(distinct) > 1:
            gaps[j] = np.median(np.diff(distinct))
    return gaps


def representative_rows(X: Array, y: Array, size: int) -> NDArray[np.intp]:
    """`size` rows spread over X, the same ones whatever the order of the rows."""
    order = np.lexsort((y, *X.T[::-1]))
    chosen = np.random.default_rng(0).permutation(len(X))[:size]
    return np.sort(order[chosen])


def stretches_of_rows(X: Array, y: Array, size: int, seed: int = 0) -> NDArray[np.intp] | None:
    """`size` rows in stretches of neighbours along the column in which neighbours are most alike; the seed says which.

    None where they are not much alike in any column. A reading an hour later tells most of this one, and rows that are
    spread over X have hardly any such neighbours: f then looks like noise.
    """
    along, serial = serial_order(X, y)
    if not serial:
        return None
    count = max(1, round(size / STRETCH))
    rng = np.random.default_rng(seed)
    chosen = []
    for share, kept in zip(np.array_split(along, count), np.array_split(np.arange(size), count), strict=True):
        # At random within its share, so that not all stretches have the same hours.
        first = rng.integers(max(1, len(share) - len(kept) + 1))
        chosen.append(share[first : first + len(kept)])
    return np.sort(np.concatenate(chosen))


def serial_order(X: Array, y: Array) -> tuple[NDArray[np.intp], bool]:
    """Rows along the column in which neighbours are most alike, and whether there is one; else along the first.

    It is the same whatever the order of the rows.
    """
    order = np.lexsort((y, *X.T[::-1]))
    column = _serial_column(X[order], y[order])
    return (order, False) if column is None else (order[np.argsort(X[order, column], kind="stable")], True)


def _serial_column(X: Array, y: Array) -> int | None:
    """The column along which neighbours' y differ least, by ranks; None where no column is much better than chance."""
    rank = rankdata(y)  # equal readings have equal ranks
    shuffled = rank[np.random.default_rng(0).permutation(len(y))]
    # Means, not medians: ranks are bounded, and the median of differences most of which are 0 is 0 along any column.
    by_chance = float(np.mean(np.abs(rank - shuffled)))
    steps = np.full(X.shape[1], np.inf)
    for j in range(X.shape[1]):
        # In a column of few distinct values nobody has a neighbour.
        if len(np.unique(X[:, j])) > _DISTINCT * len(X):
            steps[j] = np.mean(np.abs(np.diff(rank[np.argsort(X[:, j], kind="stable")])))
    best = int(np.argmin(steps))
    return best if steps[best] < _ALIKE * by_chance else None


def neighbouring_rows(X: Array, y: Array, size: int) -> NDArray[np.intp]:
    """`size` rows spread over X in pairs of nearest neighbours, which show how y changes from one to the next."""
    order = np.lexsort((y, *X.T[::-1]))
    Z = X[order] / column_scales(X[order])
    nearest = cKDTree(Z).query(Z, k=2)[1]
    neighbour = np.where(nearest[:, 0] == np.arange(len(Z)), nearest[:, 1], nearest[:, 0])
    spread = np.random.default_rng(0).permutation(len(X))
    pairs = np.column_stack([spread, neighbour[spread]]).ravel()
    _, first = np.unique(pairs, return_index=True)
    return np.sort(order[pairs[np.sort(first)[:size]]])


def places_in_gaps(places: Array) -> Array:
    """Values inside the gaps between sorted places, POINTS in each of the longest."""
    steps = np.diff(places)
    if len(steps) < 2:
        return np.empty(0)
    wide: NDArray[np.intp] = np.flatnonzero(steps > GAP * np.median(steps))
    wide = wide[np.argsort(-steps[wide], kind="stable")[:MAX_GAPS]]
    inside = np.arange(1, POINTS + 1) / (POINTS + 1)
    return np.sort((places[wide, None] + steps[wide, None] * inside).ravel())


def rows_between(X: Array, along: int, values: Array) -> Array:
    """Rows at values of one input; the others are interpolated linearly between the rows on both sides."""
    X = X[np.argsort(X[:, along], kind="stable")]
    found = np.column_stack([np.interp(values, X[:, along], column) for column in X.T])
    found[:, along] = values
    return found
