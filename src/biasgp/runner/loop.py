"""The loop that every run goes through: each outcome is on disk before the next one is looked at."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing

from threadpoolctl import threadpool_limits

from biasgp.runner.guard import perform
from biasgp.runner.on_this_machine import carry_on_loky
from biasgp.runner.progress import reporting
from biasgp.runner.store import Store
from biasgp.runner.task import OK, SERIAL, Execution, Function, Outcome, Task


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
        yield from carry_on_loky(tasks, function, execution.timeout, execution.jobs)
    else:
        # Compiled code that hangs cannot be stopped here.
        with threadpool_limits(1, user_api="blas"):
            for task in tasks:
                yield perform(task, function, execution.timeout)
