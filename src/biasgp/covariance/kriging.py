"""f at points given the readings nearest to them: prediction, and what each reading is without itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from biasgp._typing import Array, Mask
from biasgp.covariance.blocks import BLOCK, Block, MakePool, Pool, Threads, make_blocks
from biasgp.covariance.local import condition, with_jitter
from biasgp.covariance.nearness import Nearness
from biasgp.covariance.neighbours import Index, first_where, nearest, nearest_to_each, spread_ties
from biasgp.kernels import Kernel
from biasgp.watch import did, mark

PREDICTIONS = "predictions"
"""Kind of work, in points; its size is the number of neighbours."""
FEWEST = 100
"""With fewer points, what is measured is the beginning."""
CHUNK = 8 * BLOCK
"""Points predicted at a time: memory does not grow with their number."""
SPARE = 1.5
"""Candidates for each reading's neighbours, as a multiple of those used: some may be flagged."""


def tree_of(nearness: Nearness, X: Array) -> cKDTree:
    """A tree of the readings, for `nearest`."""
    return cKDTree(spread_ties(nearness.coordinates(X)))


def krige(
    kernel: Kernel, nearness: Nearness, tree: cKDTree, X: Array, y: Array, noise: Array, points: Array, m: int
) -> tuple[Array, Array]:
    """Mean and variance of f at each point given the m readings nearest to it."""
    mean, variance = np.empty(len(points)), np.empty(len(points))
    mark()
    for rows in chunks(len(points), CHUNK):
        near = nearest(tree, nearness.coordinates(points[rows]), m)
        blocks = [_block_of(X, points[rows][part], near[part]) for part in chunks(len(near), BLOCK)]
        pieces = conditional_means(Threads(blocks), kernel, y, noise)
        mean[rows], variance[rows] = (np.concatenate(part) for part in zip(*pieces, strict=True))
        if len(near) >= FEWEST:
            did(PREDICTIONS, len(near), m)
    return mean, variance


def chunks(n: int, size: int) -> Iterator[slice]:
    """Slices of at most `size`."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _block_of(X: Array, points: Array, near: Index) -> Block:
    """Points that are not readings, and the readings near them; the points' own rows come last."""
    distinct, place = np.unique(near, return_inverse=True)
    missing = int(distinct[0] == -1)
    members = distinct[missing:].astype(np.intp)
    targets = np.arange(len(members), len(members) + len(points), dtype=np.int32)
    neighbours = (place.reshape(near.shape) - missing).astype(np.int32)
    return Block(members, np.vstack([X[members], points]), targets, neighbours)


def conditional_means(
    pool: Pool, kernel: Kernel, y: Array, noise: Array, usable: Mask | None = None, m: int = 0
) -> list[tuple[Array, Array]]:
    """Mean and variance of f at each block's targets, from their first m neighbours that are usable (or from all)."""

    def work(raised: Array) -> list[tuple[Array, Array]]:
        each = (
            (y[block.members], raised[block.members], None if usable is None else usable[block.members])
            for block in pool.blocks
        )
        return pool.map(conditional_mean, (kernel, m), each)

    return with_jitter(kernel, pool.blocks[0].X, noise, work)[0]


def conditional_mean(
    block: Block, kernel: Kernel, m: int, y: Array, noise: Array, usable: Mask | None
) -> tuple[Array, Array]:
    """One block's share of `conditional_means`."""
    if usable is not None:
        keep = (block.neighbours >= 0) & usable[np.maximum(block.neighbours, 0)]
        block = replace(block, neighbours=first_where(block.neighbours, keep, m))
    # A little noise of the target's own keeps its pivot away from 0; it comes off again. It is at most f's own
    # variance: what is left of that after more was added to it and taken off would be rounding error.
    prior = float(kernel.diag(block.X[block.targets]).mean())
    own = min(float(noise.mean()), prior or np.inf) if len(noise) else 1.0
    padded = np.append(noise, np.zeros(len(block.X) - len(noise)))
    weights, v = condition(block, kernel, padded, np.full(len(block.targets), own))
    values = np.append(y, np.zeros(1))[block.neighbours]  # −1, no neighbour, is the zero at the end
    return np.einsum("tk,tk->t", weights, values), np.maximum(v - own, 0.0)


class NeighbourSurroundings:
    """The readings around each reading, for predictions of each without itself."""

    def __init__(self, kernel: Kernel, X: Array, m: int, *, make_pool: MakePool = Threads) -> None:
        self.n, self.m = len(X), max(1, min(m, len(X) - 1))
        self.nearness = Nearness.of(kernel, X)
        coordinates = self.nearness.coordinates(X)
        tree = cKDTree(spread_ties(coordinates))
        asked = min(int(SPARE * self.m), len(X) - 1)
        near = nearest_to_each(tree, asked + 1)
        everyone = np.arange(len(X))
        self.candidates = first_where(near, near != everyone[:, None], asked)
        self.blocks = make_blocks(X, coordinates, everyone, self.candidates)
        self.pool: Pool = make_pool(self.blocks)

    @property
    def nearest(self) -> Index:
        """Of each reading, the nearest other."""
        return self.candidates[:, 0]

    def leave_one_out(self, kernel: Kernel, y: Array, noise: Array, usable: Mask) -> tuple[Array, Array]:
        """Mean and variance of f at each reading given the nearest usable others."""
        mean, variance = np.empty(self.n), np.empty(self.n)
        parts = conditional_means(self.pool, kernel, y, noise, usable, self.m)
        for block, part in zip(self.blocks, parts, strict=True):
            rows: NDArray[np.intp] = block.members[block.targets]
            mean[rows], variance[rows] = part
        return mean, variance
