"""Tasks on this machine: in this process for one job, else in joblib's loky workers."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial
from typing import Any

from joblib import Parallel, delayed, parallel_config  # type: ignore[import-untyped,unused-ignore]
from threadpoolctl import threadpool_limits

from biasgp.runner.guard import end_with, perform, perform_in_worker, reason, too_long
from biasgp.runner.task import FAILED, TIMEOUT, Call, Function, Outcome, Task

DEATHS = 3
"""A task whose worker has died so many times, the last time with no other task around, is not tried again."""


def carry_here(
    tasks: Iterable[Task], function: Function, timeout: float | None, threads: int
) -> Generator[Outcome, None, None]:
    """One after the other in this process; compiled code that hangs cannot be stopped here."""
    with threadpool_limits(threads, user_api="blas"):
        for task in tasks:
            yield perform(function, task, timeout)


def carry_on_loky(
    tasks: Iterable[Task], function: Function, timeout: float | None, threads: int, jobs: int
) -> Generator[Outcome, None, None]:
    """On so many worker processes. A worker that dies costs nothing but the time: its tasks are run again."""
    call = partial(_in_worker, function, timeout, threads)
    waiting = list(tasks)
    deaths: dict[str, int] = {}
    while waiting:
        flight = _Flight(waiting, call, jobs)
        yield from flight
        if flight.trouble is None:
            return
        lost = flight.lost()
        done = flight.landed
        waiting = [task for task in waiting if task.key not in done and task.key not in lost]
        for key, (task, seconds) in lost.items():
            deaths[key] = deaths.get(key, 0) + 1
            # Dead twice, or ended for taking too long: it may well be the culprit. Alone, it shows.
            if deaths[key] >= DEATHS - 1 or flight.was_ended(seconds, timeout):
                yield _alone(task, call, jobs, timeout, deaths[key])
            else:
                waiting.append(task)


def _in_worker(function: Function, timeout: float | None, threads: int, task: Task) -> Outcome:
    return perform_in_worker(function, task, timeout, threads, expendable=True)


def _alone(task: Task, call: Call, jobs: int, timeout: float | None, deaths: int) -> Outcome:
    """The task with no other beside it, so that a death of the worker is its own doing."""
    while True:
        flight = _Flight([task], call, jobs)
        for outcome in flight:
            return outcome
        deaths += 1
        (_, seconds), *_ = flight.lost().values()
        if flight.was_ended(seconds, timeout):
            return Outcome(task.key, TIMEOUT, message=f"{too_long(timeout)}, with its worker")
        if deaths >= DEATHS:
            message = f"its worker died {deaths} times: {reason(flight.trouble)}" if flight.trouble else "no result"
            return Outcome(task.key, FAILED, message=message)


class _Flight:
    """One call of joblib: iterate for the outcomes; ends early with `trouble` when a worker dies."""

    def __init__(self, tasks: list[Task], call: Call, jobs: int) -> None:
        self._tasks, self._call, self._jobs = tasks, call, jobs
        self._started: dict[str, tuple[Task, float]] = {}
        self.landed: set[str] = set()
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
                    self.landed.add(outcome.key)
                    yield outcome
        except BrokenProcessPool as error:
            self.trouble = error

    def was_ended(self, seconds: float, timeout: float | None) -> bool:
        """Whether a task that was away for so long may be one whose process the guard had to end."""
        return timeout is not None and seconds > timeout and "EXIT(1)" in str(self.trouble)

    def _feed(self) -> Iterator[Any]:
        for task in self._tasks:
            self._started[task.key] = task, time.monotonic()
            yield delayed(self._call)(task)

    def lost(self) -> dict[str, tuple[Task, float]]:
        """Tasks sent out that never came back, and for how long they were away."""
        now = time.monotonic()
        away = {key: value for key, value in self._started.items() if key not in self.landed}
        return {key: (task, now - since) for key, (task, since) in away.items()}
