"""Which readings are near a point, by the distance that a kernel measures, and which ones come before each in an order.

Points of one coordinate go in its own order, as streams do. Others go in random order, in which the first points are
far apart and the last close together, so that every scale is conditioned on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from biasgp._typing import Array
from biasgp.covariance.threads import thread_count
from biasgp.inputs import column_scales
from biasgp.kernels import Kernel

Rows = NDArray[np.intp]
Index = NDArray[np.int32]


@dataclass(frozen=True)
class _TreePolicy:
    """How k-d trees are asked; the neighbours found are the same whatever these are."""

    first: int = 1024  # points in the first tree of predecessors
    growth: float = 1.3  # the factor by which the next tree is larger, and by which more neighbours are asked for
    spare: int = 8  # neighbours asked for beyond those expected to be needed
    tie: float = 1e-9  # share of the spread by which equal points are moved apart: a tree cannot split them
    query_rows: int = 2**16  # queries at a time, which bounds the memory


_POLICY = _TreePolicy()


@dataclass(frozen=True)
class Nearness:
    """How near the readings X are to a point, as a kernel sees it: the Euclidean distance of their `coordinates`.

    Exact for a stationary kernel. In sums and products the shortest length-scale of a column counts most; a column that
    only a kernel without length-scales sees counts in its own standard deviations, and little.
    """

    kernel: Kernel
    X: Array
    columns: Rows
    center: Array
    factors: Array
    embedded: bool
    """Whether the kernel has coordinates beside the columns; those move with its parameters."""

    @classmethod
    def of(cls, kernel: Kernel, X: Array) -> Nearness:
        """The kernel's own, for these readings."""
        inverse = kernel.inverse_square_lengths(X)
        varies, embedded = np.ptp(X, axis=0) > 0.0, kernel.embedding(X[:1]).size > 0
        if not (inverse[varies].any() or embedded):
            inverse = 1.0 / column_scales(X) ** 2
        columns = np.flatnonzero((inverse > 0.0) & varies)
        return cls(kernel, X, columns, X[:, columns].mean(axis=0), np.sqrt(inverse[columns]), embedded)

    def coordinates(self, X: Array) -> Array:
        """Of the rows of X; one that is 0 everywhere where no input varies."""
        joined = np.hstack([(X[:, self.columns] - self.center) * self.factors, self.kernel.embedding(X)])
        return joined if joined.shape[1] else np.zeros((len(X), 1))

    def differs_from(self, other: Nearness, factor: float) -> bool:
        """Whether one column has come to count more, relative to the others, than it did by this factor."""
        if self.embedded or len(self.factors) < 2 or len(self.factors) != len(other.factors):
            return self.embedded
        return bool(np.ptp(np.log(self.factors / other.factors)) > np.log(factor))

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(_spread_ties(self.coordinates(self.X)))

    def nearest(self, points: Array, m: int) -> Index:
        """The m readings nearest to each point, nearest first; −1 where there are fewer."""
        return self._query(self.coordinates(points), m)

    def nearest_others(self, m: int) -> Index:
        """The m readings nearest to each reading but itself."""
        near, leaf_after_leaf = np.empty((len(self.X), m + 1), dtype=np.int32), np.asarray(self._tree.indices)
        near[leaf_after_leaf] = self._query(np.asarray(self._tree.data)[leaf_after_leaf], m + 1)
        return first_where(near, (near >= 0) & (near != np.arange(len(near))[:, None]), m)

    def _query(self, coordinates: Array, m: int) -> Index:
        out = np.full((len(coordinates), m), -1, dtype=np.int32)
        k = min(m, self._tree.n)
        for begin in range(0, len(out), _POLICY.query_rows):
            rows = slice(begin, begin + _POLICY.query_rows)
            out[rows, :k] = self._tree.query(coordinates[rows], k, workers=thread_count())[1].reshape(-1, k)
        return out

    def predecessors(self, m: int, share: float = 1.0) -> tuple[Rows, Index]:
        """The readings in the order in which they are conditioned, or a random share of them, and their neighbours.

        Neighbours are the m nearest of those before each, nearest first; −1 where there are fewer. It is the same
        readings whatever the order of the rows.
        """
        coordinates, n = self.coordinates(self.X), len(self.X)
        order, positions = np.lexsort(coordinates.T[::-1]), np.arange(n)
        if share < 1.0:
            positions = np.sort(np.random.default_rng(1).permutation(n)[: max(1, round(share * n))])
        if coordinates.shape[1] == 1:
            before = positions[:, None] - np.arange(1, m + 1)
        else:
            order = order[np.random.default_rng(0).permutation(n)]
            before = _nearest_before(_spread_ties(coordinates[order]), positions, m)
        return order[positions], np.where(before >= 0, order[before], -1).astype(np.int32)


def _spread_ties(coordinates: Array) -> Array:
    """The coordinates with equal points moved apart by next to nothing."""
    span = float(np.ptp(coordinates, axis=0).max(initial=0.0)) or 1.0
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, coordinates.shape)
    return np.asarray(coordinates + _POLICY.tie * span * noise)


def _nearest_before(ordered: Array, positions: Rows, m: int) -> Index:
    """The m nearest points before each position, by trees of growing prefixes of the order."""
    found = np.full((len(positions), m), -1, dtype=np.int32)
    start, stop = 0, min(len(ordered), max(_POLICY.first, 2 * m))
    while start < len(ordered):
        inside = np.flatnonzero((positions >= start) & (positions < stop))
        if len(inside):
            found[inside] = _by_tree(ordered[:stop], m, positions[inside])
        start, stop = stop, min(len(ordered), int(_POLICY.growth * stop) + 1)
    return found


def _by_tree(prefix: Array, m: int, positions: Rows) -> Index:
    tree = cKDTree(prefix)
    out = np.full((len(positions), m), -1, dtype=np.int32)
    rank = np.empty(len(prefix), dtype=np.intp)
    rank[tree.indices] = np.arange(len(prefix))
    # Leaf after leaf: the parts of the tree that a query walks through are still in the cache from the one before.
    left, asked = np.argsort(rank[positions]), int(_POLICY.growth * m) + _POLICY.spare
    while len(left):
        asked = min(asked, len(prefix))
        missing = []
        for begin in range(0, len(left), _POLICY.query_rows):
            rows = left[begin : begin + _POLICY.query_rows]
            near = tree.query(prefix[positions[rows]], asked, workers=thread_count())[1].reshape(len(rows), -1)
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
