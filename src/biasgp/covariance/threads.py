"""How many threads the work gets, and how many of them the linear algebra.

NumPy's and SciPy's wheels each bring a BLAS with a thread pool of its own, and the idle threads of one keep the
other's off the cores: a fit of 300 points takes three times as long as on one thread. The factorisations are
SciPy's, so only its pool keeps its threads, and only where the matrices are large enough to gain from them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from threadpoolctl import LibController, ThreadpoolController

SMALL = 500
"""Below this many points one thread is the fastest (measured by benchmarks/speed.py --threads)."""

_taken = threading.RLock()


def thread_count() -> int:
    """How many threads to use: what the environment says, or the cores that this process may run on."""
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        if os.environ.get(name, "").isdigit():
            return max(1, int(os.environ[name]))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pools() -> list[LibController]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def blas_threads_for(n: int) -> Iterator[None]:
    """Inside, BLAS has the threads that suit n points. Nests; a fit in another Python thread meanwhile has no say."""
    if not _taken.acquire(blocking=False):
        yield
        return
    before = [(pool, pool.num_threads) for pool in _pools()]
    try:
        for pool, _ in before:
            is_numpys = not {"numpy", "numpy.libs"}.isdisjoint(Path(pool.filepath).parts)
            if n < SMALL or (len(before) > 1 and is_numpys):
                pool.set_num_threads(1)
        yield
    finally:
        for pool, threads in before:
            pool.set_num_threads(threads)
        _taken.release()
