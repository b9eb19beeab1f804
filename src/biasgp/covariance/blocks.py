"""Readings in blocks of near ones, each with the neighbours that its conditional densities need.

A block is self-contained, so that it can be worked on by any thread or on another machine. The partition and the order
of summation depend on the data alone: results are the same wherever the blocks are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.spatial import cKDTree

from biasgp._typing import Array
from biasgp.covariance.neighbours import Index, Rows, threads

BLOCK = 2048
"""Targets in a block."""


@dataclass(frozen=True)
class Block:
    """Targets and their neighbours (−1: none), as indices into `members`, which are rows of the data.

    X holds the members' inputs.
    """

    members: Rows
    X: Array
    targets: Index
    neighbours: Index


Work = Callable[..., Any]


class Pool(Protocol):
    """Something that applies a function to every block, and keeps their order."""

    @property
    def blocks(self) -> Sequence[Block]: ...

    def map(self, work: Work, shared: tuple[Any, ...], each: Iterable[tuple[Any, ...]]) -> list[Any]:
        """[work(block, *shared, *own) for each block and its own arguments]."""


class Threads:
    """Blocks in this process; the work releases the interpreter's lock while it computes."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = blocks

    def map(self, work: Work, shared: tuple[Any, ...], each: Iterable[tuple[Any, ...]]) -> list[Any]:
        jobs = zip(self.blocks, each, strict=True)
        if threads() == 1 or len(self.blocks) == 1:
            return [work(block, *shared, *own) for block, own in jobs]
        with ThreadPoolExecutor(threads()) as pool:
            return list(pool.map(lambda job: work(job[0], *shared, *job[1]), jobs))


MakePool = Callable[[Sequence[Block]], Pool]


def make_blocks(X: Array, coordinates: Array, rows: Rows, neighbours: Index, size: int = BLOCK) -> list[Block]:
    """Blocks of the targets `rows`; neighbours (as rows of X) are those of each target, in the same order."""
    return [_block(X, rows[part], neighbours[part]) for part in _near_together(coordinates[rows], size)]


def _near_together(coordinates: Array, size: int) -> Iterator[Rows]:
    """Parts of at most `size` points that lie together: a k-d tree lists its points leaf after leaf."""
    if len(coordinates) <= size:
        yield np.arange(len(coordinates))
        return
    order = np.asarray(cKDTree(coordinates, leafsize=256).indices)
    for start in range(0, len(order), size):
        yield np.sort(order[start : start + size])


def _block(X: Array, rows: Rows, neighbours: Index) -> Block:
    distinct, inverse = np.unique(np.concatenate([rows, neighbours.ravel()]), return_inverse=True)
    missing = int(distinct[0] == -1)
    place: Index = (inverse - missing).astype(np.int32)
    members = distinct[missing:].astype(np.intp)
    return Block(members, X[members], place[: len(rows)], place[len(rows) :].reshape(neighbours.shape))
