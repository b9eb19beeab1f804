"""Which readings each one is conditioned on: an order, the nearest before each in it, and the nearest at all.

Points of one coordinate go in its own order, as streams do. Others go in random order, in which the first points are
far apart and the last close together, so that every scale is conditioned on.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from biasgp._typing import Array

Rows = NDArray[np.intp]
Index = NDArray[np.int32]

FIRST = 1024
"""The first points' predecessors are found without a tree."""
GROWTH = 1.3
"""Trees hold prefixes of the order that grow by this factor."""
SPARE = 8
"""Neighbours asked for beyond those expected to be needed."""
TIE = 1e-9
"""Equal points are moved apart by this share of the spread for the search alone: a tree cannot split them."""
QUERY_ROWS = 2**16


def threads() -> int:
    """How many threads to use: what the environment says, or the cores that this process may run on."""
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        if os.environ.get(name, "").isdigit():
            return max(1, int(os.environ[name]))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread_ties(coordinates: Array) -> Array:
    """The coordinates with equal points moved apart by next to nothing."""
    span = float(np.ptp(coordinates, axis=0).max(initial=0.0)) or 1.0
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, coordinates.shape)
    return np.asarray(coordinates + TIE * span * noise)


def ordering(coordinates: Array) -> Rows:
    """The rows in the order in which they are conditioned; the same points whatever the order of the rows."""
    canonical = np.lexsort(coordinates.T[::-1])
    if coordinates.shape[1] == 1:
        return canonical
    return np.asarray(canonical[np.random.default_rng(0).permutation(len(coordinates))])


def predecessors(ordered: Array, m: int, positions: Rows | None = None) -> Index:
    """The m nearest of those before each position (of all, if left out), nearest first; −1 where there are fewer."""
    positions = np.arange(len(ordered)) if positions is None else positions
    found = np.full((len(positions), m), -1, dtype=np.int32)
    if ordered.shape[1] == 1:
        before = positions[:, None] - np.arange(1, m + 1)
        return np.where(before >= 0, before, -1).astype(np.int32)
    start, stop = 0, min(len(ordered), max(FIRST, 2 * m))
    while start < len(ordered):
        inside = np.flatnonzero((positions >= start) & (positions < stop))
        search = _by_brute_force if start == 0 else _by_tree
        if len(inside):
            found[inside] = search(ordered[:stop], m, positions[inside])
        start, stop = stop, min(len(ordered), int(GROWTH * stop) + 1)
    return found


def _by_brute_force(prefix: Array, m: int, positions: Rows) -> Index:
    out = np.full((len(positions), m), -1, dtype=np.int32)
    k = min(m, len(prefix))
    everyone = np.arange(len(prefix))
    for begin in range(0, len(positions), 256):
        rows = positions[begin : begin + 256]
        gaps = ((prefix[rows, None, :] - prefix[None, :, :]) ** 2).sum(axis=-1)
        gaps[everyone >= rows[:, None]] = np.inf
        near = np.argsort(gaps, axis=1, kind="stable")[:, :k]
        out[begin : begin + 256, :k] = np.where(np.isfinite(np.take_along_axis(gaps, near, axis=1)), near, -1)
    return out


def _by_tree(prefix: Array, m: int, positions: Rows) -> Index:
    tree = cKDTree(prefix)
    out = np.full((len(positions), m), -1, dtype=np.int32)
    rank = np.empty(len(prefix), dtype=np.intp)
    rank[tree.indices] = np.arange(len(prefix))
    # Leaf after leaf: the parts of the tree that a query walks through are still in the cache from the one before.
    left, asked = np.argsort(rank[positions]), int(GROWTH * m) + SPARE
    while len(left):
        asked = min(asked, len(prefix))
        missing = []
        for begin in range(0, len(left), QUERY_ROWS):
            rows = left[begin : begin + QUERY_ROWS]
            near = tree.query(prefix[positions[rows]], asked, workers=threads())[1].reshape(len(rows), -1)
            before = near < positions[rows, None]
            complete = before.sum(axis=1) >= min(m, asked) if asked < len(prefix) else np.ones(len(rows), dtype=bool)
            out[rows[complete]] = first_where(near[complete], before[complete], m)
            missing.append(rows[~complete])
        left, asked = np.concatenate(missing), 2 * asked
    return out


def first_where(near: NDArray[np.integer], keep: NDArray[np.bool_], m: int) -> Index:
    """The first m entries of each row that are to be kept, −1 where there are fewer."""
    out = np.full((len(near), m), -1, dtype=np.int32)
    place = np.cumsum(keep, axis=1) - 1
    rows, columns = np.nonzero(keep & (place < m))
    out[rows, place[rows, columns]] = near[rows, columns]
    return out


def nearest_to_each(tree: cKDTree, m: int) -> Index:
    """`nearest` to every point of the tree itself, itself among them."""
    out = np.empty((tree.n, m), dtype=np.int32)
    leaf_after_leaf = np.asarray(tree.indices)
    out[leaf_after_leaf] = nearest(tree, np.asarray(tree.data)[leaf_after_leaf], m)
    return out


def nearest(tree: cKDTree, queries: Array, m: int) -> Index:
    """The m points of a tree nearest to each query, nearest first; −1 where there are fewer."""
    out = np.full((len(queries), m), -1, dtype=np.int32)
    k = min(m, tree.n)
    for begin in range(0, len(queries), QUERY_ROWS):
        rows = slice(begin, begin + QUERY_ROWS)
        out[rows, :k] = tree.query(queries[rows], k, workers=threads())[1].reshape(-1, k)
    return out
