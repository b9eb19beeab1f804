"""Blocks on the workers of a Dask cluster: parameters go out, sums come back.

The partition, and the order in which blocks are summed, are those of one machine, so the result is the same to the bit.
This process keeps the blocks. When a worker dies they are sent again, and the evaluation is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from biasgp.covariance.blocks import Block, MakePool, Work

ATTEMPTS = 6
PATIENCE = 120.0
"""Seconds to wait for a worker to come back."""


class Cluster:
    """`Pool` on a Dask client."""

    def __init__(self, client: Any, blocks: Sequence[Block]) -> None:
        self.client, self.blocks = client, blocks
        self._place()

    def _place(self) -> None:
        """Send the blocks out: near ones together, one shard a thread."""
        self.client.wait_for_workers(1, timeout=PATIENCE)
        n_shards = max(1, min(len(self.blocks), sum(self.client.nthreads().values())))
        edges = np.linspace(0, len(self.blocks), n_shards + 1).astype(int).tolist()
        self.shards = [slice(start, stop) for start, stop in pairwise(edges)]
        self.held = self._scatter([list(self.blocks[shard]) for shard in self.shards])
        self.sent: dict[int, tuple[list[Any], list[Any]]] = {}

    def _scatter(self, parts: list[Any]) -> list[Any]:
        return list(self.client.scatter([_Parcel(part) for part in parts], hash=False, direct=True))

    def map(self, work: Work, shared: tuple[Any, ...], each: Iterable[tuple[Any, ...]]) -> list[Any]:
        columns = [list(column) for column in zip(*each, strict=True)]
        for attempt in range(ATTEMPTS):
            try:
                return self._map_once(work, shared, columns)
            except _failures() as error:
                if attempt == ATTEMPTS - 1:
                    raise RuntimeError(f"The cluster lost its workers {ATTEMPTS} times in a row: {error}.") from error
                self._place()
        raise AssertionError

    def _map_once(self, work: Work, shared: tuple[Any, ...], columns: list[list[Any]]) -> list[Any]:
        arguments = [self._send(place, column) for place, column in enumerate(columns)]
        futures = [
            self.client.submit(_work_on, held, work, shared, *own, pure=False)
            for held, *own in zip(self.held, *arguments, strict=True)
        ]
        return [result for results in self.client.gather(futures) for result in results]

    def _send(self, place: int, column: list[Any]) -> list[Any]:
        """One argument of every block, on the workers; what has not changed since the last time stays there."""
        if place in self.sent and _same(self.sent[place][0], column):
            return self.sent[place][1]
        futures = self._scatter([[_light(value) for value in column[shard]] for shard in self.shards])
        self.sent[place] = (column, futures)
        return futures


class _Parcel:
    """Something sent as it is: Dask would look for tasks inside a list."""

    def __init__(self, content: Any) -> None:
        self.content = content


class _Constant:
    """An array of one value."""

    def __init__(self, value: Any, size: int) -> None:
        self.value, self.size = value, size

    def array(self) -> Any:
        return np.full(self.size, self.value)


def _light(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 1 and len(value) and (value == value[0]).all():
        return _Constant(value[0], len(value))
    return value


def _same(old: list[Any], new: list[Any]) -> bool:
    return all(
        a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in zip(old, new, strict=True)
    )


def _work_on(held: _Parcel, work: Work, shared: tuple[Any, ...], *arguments: _Parcel) -> list[Any]:
    """The work on one shard's blocks, on the worker that has them."""
    columns = [
        [value.array() if isinstance(value, _Constant) else value for value in parcel.content] for parcel in arguments
    ]
    return [work(block, *shared, *own) for block, *own in zip(held.content, *columns, strict=True)]


def _failures() -> tuple[type[BaseException], ...]:
    """What a dead worker looks like from here."""
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    return (CancelledError, KilledWorker, CommClosedError, TimeoutError, OSError)


def on_cluster(client: Any) -> MakePool:
    """Pools on a Dask client, for the models."""
    if not (callable(getattr(client, "submit", None)) and callable(getattr(client, "scatter", None))):
        raise TypeError(f"client must be a dask.distributed Client, got {type(client).__name__}.")
    make: Callable[[Sequence[Block]], Cluster] = partial(Cluster, client)
    return make
