"""What the inputs say about themselves: spread, spacing, columns, and a representative subset."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from biasgp._typing import Array


def column_scales(columns: Array) -> Array:
    """Standard deviation of each column; 1, or the range if that is larger, for one that varies by rounding alone."""
    spread, ranges = columns.std(axis=0), np.ptp(columns, axis=0)
    constant = spread <= 1e-12 * np.abs(columns).max(axis=0, initial=0.0)
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


def resolve_columns(columns: Sequence[int | str], width: int, names: Sequence[str] | None) -> tuple[int, ...]:
    """Column names and negative indices as indices from 0."""
    return tuple(_resolve(column, width, names) for column in columns)


def _resolve(column: int | str, width: int, names: Sequence[str] | None) -> int:
    if isinstance(column, str):
        if names is None:
            raise ValueError(f"The kernel asks for column {column!r}, but X has no column names; use an index.")
        if column not in names:
            raise ValueError(f"The kernel asks for column {column!r}, but X has {', '.join(map(repr, names))}.")
        return list(names).index(column)
    if not -width <= column < width:
        raise ValueError(f"The kernel asks for column {column}, but X has {width} columns (0 to {width - 1}).")
    return int(column) % width


def representative_rows(X: Array, y: Array, size: int) -> NDArray[np.intp]:
    """`size` rows spread over X, the same ones whatever the order of the rows."""
    order = np.lexsort((y, *X.T[::-1]))
    chosen = np.random.default_rng(0).permutation(len(X))[:size]
    return np.sort(order[chosen])


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
