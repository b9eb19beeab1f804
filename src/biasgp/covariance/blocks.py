"""Readings in blocks of near ones, each with the neighbours that its conditional densities need.

A block is self-contained, so that it can be worked on by any thread or on another machine. The partition and the order
of summation depend on the data alone: results are the same wherever the blocks are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from biasgp._typing import Array, Mask
from biasgp.covariance.dense import JITTERS, jitters
from biasgp.covariance.neighbours import Index, Rows
from biasgp.covariance.threads import thread_count
from biasgp.kernels import Kernel
from biasgp.messages import CovarianceError

BLOCK = 2048
"""Targets in a block: enough to outweigh the call, few enough to keep all threads busy."""
_LEAF = 256
"""Points in a leaf of the tree that blocks are cut from."""
_DIAGONAL_ROWS = 100
"""Readings whose variance is what jitter is a share of."""


@dataclass(frozen=True)
class Block:
    """Targets and their neighbours (−1: none), as indices into `members`, which are rows of the data.

    X holds the members' inputs; targets that are not readings come after them.
    """

    members: Rows
    X: Array
    targets: Index
    neighbours: Index


Work = Callable[..., Any]
Pool = Callable[[Work, tuple[Any, ...], Iterable[tuple[Any, ...]]], list[Any]]
"""pool(work, shared, each): [work(block, *shared, *own) for each block and its own arguments], in the blocks' order."""
MakePool = Callable[[Sequence[Block]], Pool]


def on_threads(blocks: Sequence[Block]) -> Pool:
    """Blocks in this process; the work releases the interpreter's lock while it computes."""

    def pool(work: Work, shared: tuple[Any, ...], each: Iterable[tuple[Any, ...]]) -> list[Any]:
        jobs = zip(blocks, each, strict=True)
        if thread_count() == 1 or len(blocks) == 1:
            return [work(block, *shared, *own) for block, own in jobs]
        with ThreadPoolExecutor(thread_count()) as executor:
            return list(executor.map(lambda job: work(job[0], *shared, *job[1]), jobs))

    return pool


class Blocks:
    """Blocks, and the pool that works on them."""

    def __init__(self, blocks: Sequence[Block], make_pool: MakePool = on_threads) -> None:
        self.blocks, self.pool = blocks, make_pool(blocks)

    @classmethod
    def of(
        cls, X: Array, coordinates: Array, rows: Rows, neighbours: Index, make_pool: MakePool = on_threads
    ) -> Blocks:
        """Blocks of the targets `rows`; neighbours (as rows of X) are those of each target, in the same order."""
        parts = _near_together(coordinates[rows], BLOCK)
        return cls([_block(X, rows[part], neighbours[part]) for part in parts], make_pool)

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def rows(self) -> Iterator[Rows]:
        """Of each block, its targets as rows of the data."""
        return (block.members[block.targets] for block in self.blocks)

    def evaluate(
        self, work: Work, shared: tuple[Kernel, *tuple[Any, ...]], noise: Array, *arrays: Array | Mask
    ) -> tuple[list[Any], float]:
        """work(block, *shared, noise, *arrays) of every block, with the arrays of its members.

        As little is added to the noise as it takes; how much that was is returned too.
        """
        for jitter in jitters(shared[0].diag(self.blocks[0].X[:_DIAGONAL_ROWS]), noise):
            given = (noise + jitter, *arrays)
            each = (tuple(array[block.members] for array in given) for block in self.blocks)
            try:
                return self.pool(work, shared, each), jitter
            except CovarianceError:
                continue
        raise CovarianceError(
            "The covariance of neighbouring readings is not positive definite, even with jitter "
            f"{JITTERS[-1]:g} of its diagonal. Look for inputs of extreme size, or use a less smooth kernel."
        )


def _near_together(coordinates: Array, size: int) -> Iterator[Rows]:
    """Parts of at most `size` points that lie together: a k-d tree lists its points leaf after leaf."""
    if len(coordinates) <= size:
        yield np.arange(len(coordinates))
        return
    order = np.asarray(cKDTree(coordinates, leafsize=_LEAF).indices)
    for start in range(0, len(order), size):
        yield np.sort(order[start : start + size])


def _block(X: Array, rows: Rows, neighbours: Index) -> Block:
    distinct, inverse = np.unique(np.concatenate([rows, neighbours.ravel()]), return_inverse=True)
    missing = int(distinct[0] == -1)
    place: Index = (inverse - missing).astype(np.int32)
    members = distinct[missing:].astype(np.intp)
    return Block(members, X[members], place[: len(rows)], place[len(rows) :].reshape(neighbours.shape))
