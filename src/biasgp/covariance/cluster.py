"""Blocks on the workers of a Dask cluster: parameters go out, sums come back.

The partition, and the order in which blocks are summed, are those of one machine, so the result is the same to the bit.
This process keeps the blocks. When a worker dies, whether blocks are being placed or evaluated, they are sent to the
workers that are there then, and the evaluation is repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from biasgp.covariance.blocks import Block, MakePool, Work

ATTEMPTS = 6
"""How often one evaluation is tried; a worker that dies costs one or two."""
PAUSE = 0.2
"""Seconds before the second attempt, doubled for each further one: a dead worker is listed for a moment."""
PATIENCE = 120.0
"""Seconds to wait for a worker to come back, when there is none."""


def on_cluster(client: Any) -> MakePool:
    """Pools on a Dask client, for the models."""
    if not (callable(getattr(client, "submit", None)) and callable(getattr(client, "scatter", None))):
        raise TypeError(f"client must be a dask.distributed Client, got {type(client).__name__}.")
    return partial(_Cluster, client)


class _Cluster:
    """A pool on a Dask client."""

    def __init__(self, client: Any, blocks: Sequence[Block]) -> None:
        self.client, self.blocks = client, blocks
        self._forget()

    def __call__(self, work: Work, shared: tuple[Any, ...], each: Iterable[tuple[Any, ...]]) -> list[Any]:
        columns = [list(column) for column in zip(*each, strict=True)]
        shards = self._map(work, shared, columns)
        for shard in shards:
            if isinstance(shard, Exception):
                raise shard
        return [result for shard in shards for result in shard]

    def _map(self, work: Work, shared: tuple[Any, ...], columns: list[list[Any]]) -> list[Any]:
        """Of each shard its blocks' results, or the exception that the work ended in.

        When a worker is lost on the way, everything is sent anew.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                if not self.held:
                    self._place()
                arguments = [self._send(place, column) for place, column in enumerate(columns)]
                futures = [
                    self.client.submit(_work_on, held, work, shared, *own, pure=False)
                    for held, *own in zip(self.held, *arguments, strict=True)
                ]
                return list(self.client.gather(futures))
            except _failures() as error:
                self._forget()
                last = error
                time.sleep(PAUSE * 2 ** (attempt - 1) if attempt < ATTEMPTS else 0.0)
        reason = f"{type(last).__name__}: {last}"
        raise RuntimeError(f"The cluster lost its workers {ATTEMPTS} times in a row ({reason}).") from last

    def _forget(self) -> None:
        """Nothing is on the workers, as far as this process is concerned."""
        self.shards: list[slice] = []
        self.held: list[Any] = []
        self.sent: dict[int, tuple[list[Any], list[Any]]] = {}

    def _place(self) -> None:
        """Send the blocks out: near ones together, one shard per thread."""
        try:
            self.client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise RuntimeError(f"The cluster has had no worker for {PATIENCE:g} s.") from error
        n_shards = max(1, min(len(self.blocks), sum(self.client.nthreads().values())))
        edges = np.linspace(0, len(self.blocks), n_shards + 1).astype(int).tolist()
        self.shards = [slice(start, stop) for start, stop in pairwise(edges)]
        self.held = self._scatter([list(self.blocks[shard]) for shard in self.shards])

    def _scatter(self, parts: list[Any]) -> list[Any]:
        parcels = [_Parcel(part) for part in parts]
        return list(self.client.scatter(parcels, hash=False, direct=True, timeout=PATIENCE))

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


class _Constant(NamedTuple):
    """An array of one value."""

    value: Any
    size: int


def _light(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 1 and len(value) and (value == value[0]).all():
        return _Constant(value[0], len(value))
    return value


def _same(old: list[Any], new: list[Any]) -> bool:
    return all(
        a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in zip(old, new, strict=True)
    )


def _work_on(held: _Parcel, work: Work, shared: tuple[Any, ...], *arguments: _Parcel) -> list[Any] | Exception:
    """The work on one shard's blocks, on the worker that has them.

    Its exception is returned, not raised: what is raised is trouble of the cluster's, of whatever type.
    """
    columns = [
        [np.full(part.size, part.value) if isinstance(part, _Constant) else part for part in parcel.content]
        for parcel in arguments
    ]
    try:
        return [work(block, *shared, *own) for block, *own in zip(held.content, *columns, strict=True)]
    except Exception as error:
        return error


def _failures() -> tuple[type[BaseException], ...]:
    """What a dying worker looks like from here, by where it is noticed."""
    from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError

    lost_results = (CancelledError, asyncio.CancelledError, KilledWorker, NoValidWorkerError, NoWorkerError)
    # CommClosedError and TimeoutError are OSErrors; KeyError: the scheduler has just removed the address from its list.
    return (*lost_results, OSError, KeyError)
