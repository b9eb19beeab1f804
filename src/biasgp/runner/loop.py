"""Every run goes through one loop; the tasks are done here, in joblib's loky workers, or on a Dask cluster."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial
from typing import Any

from joblib import Parallel, delayed, parallel_config  # type: ignore[import-untyped,unused-ignore]
from threadpoolctl import threadpool_limits

from biasgp.runner.guard import end_with, perform
from biasgp.runner.progress import reporting
from biasgp.runner.store import Store
from biasgp.runner.task import OK, SERIAL, TIMEOUT, Execution, Function, Outcome, Task

DEATHS = 3
"""A task whose worker has died this many times, the last time with no other task around, is not tried again."""


def run(tasks: Iterable[Task], function: Function, store: Store, execution: Execution = SERIAL) -> dict[str, Outcome]:
    """Do every task that the open store does not have, and return the outcomes of all of them by key.

    Parameters
    ----------
    tasks : iterable of Task
        Their keys must differ. They are begun in this order.
    function : callable
        From a task's payload to numbers, strings, lists and dicts. It and the payloads may be defined in a script.
    store : Store
        Receives each outcome as soon as the task has ended.
    execution : Execution
        Workers, time limit and progress.

    Examples
    --------
    >>> import math
    >>> import tempfile
    >>> from biasgp.runner import Execution, Store, Task, run
    >>> tasks = [Task(f"root/{n}", n) for n in (4, -1)]
    >>> with tempfile.TemporaryDirectory() as folder, Store(f"{folder}/tasks.jsonl") as store:
    ...     found = run(tasks, math.sqrt, store, Execution(progress=False))
    >>> {key: outcome.status for key, outcome in found.items()}
    {'root/4': 'ok', 'root/-1': 'failed'}
    """
    execution.check()
    every: dict[str, Task] = {}
    for task in tasks:
        if task.key in every:
            raise ValueError(f"Two tasks have the key {task.key!r}.")
        every[task.key] = task
    accepted = {key for key, outcome in store.outcomes.items() if outcome.status == OK or not execution.retry_failed}
    outstanding = [task for key, task in every.items() if key not in accepted]
    outcomes = _carry(outstanding, function, execution)
    with reporting(execution, len(every) - len(outstanding), len(every)) as report, closing(outcomes):
        for outcome in outcomes:
            store.add(outcome)
            report(outcome)
    return {key: store.outcomes[key] for key in every}


def _carry(tasks: list[Task], function: Function, execution: Execution) -> Generator[Outcome, None, None]:
    if execution.scheduler is not None:
        from biasgp.runner.on_dask import carry_on_dask

        yield from carry_on_dask(tasks, function, execution.timeout, execution.scheduler)
    elif execution.jobs > 1:
        yield from _carry_on_loky(tasks, function, execution.timeout, execution.jobs)
    else:
        # Compiled code that hangs cannot be stopped here.
        with threadpool_limits(1, user_api="blas"):
            for task in tasks:
                yield perform(task, function, execution.timeout)


def _carry_on_loky(
    tasks: list[Task], function: Function, timeout: float | None, jobs: int
) -> Generator[Outcome, None, None]:
    """On this many worker processes. A worker that dies costs nothing but the time: its tasks are run again."""
    waiting, suspects = tasks, list[Task]()
    deaths: Counter[str] = Counter()
    while waiting or suspects:
        # A suspect runs with no other task beside it, so that a death of the worker is its own doing.
        batch = [suspects.pop()] if suspects else waiting
        call = partial(perform, function=function, timeout=timeout, in_worker=True, expendable=True)
        flight = _Flight(batch, call, jobs)
        yield from flight
        waiting = [task for task in waiting if task.key not in flight.sent]
        for task, seconds in flight.lost():
            deaths[task.key] += 1
            # The guard ends the process of a task that cannot be stopped otherwise.
            was_ended = timeout is not None and seconds > timeout and "EXIT(1)" in str(flight.trouble)
            if len(batch) == 1 and was_ended:
                yield Outcome(task.key, TIMEOUT, message=f"stopped after {timeout:g} s, with its worker")
            elif len(batch) == 1 and deaths[task.key] >= DEATHS:
                yield Outcome.failed(task.key, flight.trouble, f"its worker died {deaths[task.key]} times: ")
            elif was_ended or deaths[task.key] >= DEATHS - 1:
                suspects.append(task)
            else:
                waiting.append(task)


class _Flight:
    """One call of joblib: iterate for the outcomes; ends early with `trouble` when a worker dies."""

    def __init__(self, tasks: list[Task], call: partial[Outcome], jobs: int) -> None:
        self._tasks, self._call, self._jobs = tasks, call, jobs
        self.sent: dict[str, tuple[Task, float]] = {}
        self._landed: set[str] = set()
        self.trouble: BaseException | None = None

    def __iter__(self) -> Iterator[Outcome]:
        # Two workers at least: joblib would run a single job in this process, where a crash is ours.
        end = {"initializer": end_with, "initargs": (os.getpid(),)}
        with parallel_config(backend="loky", inner_max_num_threads=1, **end):
            parallel = Parallel(
                n_jobs=max(2, self._jobs), return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs"
            )
        try:
            with closing(parallel(self._feed())) as outcomes:
                for outcome in outcomes:
                    self._landed.add(outcome.key)
                    yield outcome
        except BrokenProcessPool as error:
            self.trouble = error

    def _feed(self) -> Iterator[Any]:
        for task in self._tasks:
            self.sent[task.key] = task, time.monotonic()
            yield delayed(self._call)(task)

    def lost(self) -> list[tuple[Task, float]]:
        """Tasks sent out that never came back, and for how many seconds they were away."""
        now = time.monotonic()
        return [(task, now - since) for key, (task, since) in self.sent.items() if key not in self._landed]
