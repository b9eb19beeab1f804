"""The one loop: what is not on disk yet is carried out, and each outcome is on disk before the next is looked at."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing

from rich.console import Console

from biasgp.runner.on_this_machine import carry_here, carry_on_loky
from biasgp.runner.progress import reporter
from biasgp.runner.store import Store
from biasgp.runner.task import OK, Function, Outcome, Task, check_timeout


def check_means(jobs: int, scheduler: str | None, timeout: float | None) -> None:
    """ValueError for means that make no sense, ConnectionError for a scheduler that does not answer.

    For callers that would write something before they call `run`.
    """
    check_timeout(timeout)
    if jobs < 1:
        raise ValueError(f"jobs must be 1 or more, got {jobs}.")
    if scheduler is not None:
        # Dask is imported only for those who use it.
        from biasgp.runner.on_dask import reach

        reach(scheduler)


def run(
    tasks: Iterable[Task],
    function: Function,
    store: Store,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    timeout: float | None = None,
    blas_threads: int = 1,
    retry_failed: bool = False,
    progress: bool = True,
    console: Console | None = None,
) -> dict[str, Outcome]:
    """Do every task that the open store does not have, and return the outcomes of all of them by key.

    Parameters
    ----------
    tasks : iterable of Task
        Their keys must differ. They are begun in this order.
    function : callable
        From a task's payload to numbers, strings, lists and dicts. It and the payloads may be defined in a script.
    store : Store
        Where each outcome goes as soon as it is there.
    jobs : int
        Worker processes on this machine; 1 is this process itself.
    scheduler : str, optional
        Address of a Dask scheduler ("tcp://…") whose workers do the tasks instead.
    timeout : float, optional
        Seconds after which a task is stopped and recorded as such; no limit when left out.
    blas_threads : int
        Threads of the linear algebra in each worker.
    retry_failed : bool
        Do tasks that failed or were stopped before again.
    progress : bool
        Show how far it is, on `console` (standard error when left out).
    """
    check_means(jobs, scheduler, timeout)
    todo, keys = _outstanding(tasks, store, retry_failed)
    done = len(keys) - len(todo)
    outcomes = _carry(todo, function, timeout, blas_threads, jobs, scheduler)
    with reporter(progress, done, len(keys), console) as report, closing(outcomes):
        for outcome in outcomes:
            store.add(outcome)
            report.finished(outcome)
    return {key: store.outcomes[key] for key in keys}


def _outstanding(tasks: Iterable[Task], store: Store, retry_failed: bool) -> tuple[list[Task], list[str]]:
    every: dict[str, Task] = {}
    for task in tasks:
        if task.key in every:
            raise ValueError(f"Two tasks have the key {task.key!r}.")
        every[task.key] = task

    def is_done(key: str) -> bool:
        outcome = store.outcomes.get(key)
        return outcome is not None and (outcome.status == OK or not retry_failed)

    return [task for key, task in every.items() if not is_done(key)], list(every)


def _carry(
    tasks: list[Task], function: Function, timeout: float | None, threads: int, jobs: int, scheduler: str | None
) -> Generator[Outcome, None, None]:
    if scheduler is not None:
        from biasgp.runner.on_dask import carry_on_dask

        return carry_on_dask(tasks, function, timeout, threads, scheduler)
    if jobs == 1:
        return carry_here(tasks, function, timeout, threads)
    return carry_on_loky(tasks, function, timeout, threads, jobs)
