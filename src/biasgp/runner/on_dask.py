"""Tasks on a Dask cluster.

Through Dask's own client and not joblib's Dask backend: that one waits for ever for a task whose workers have died too
often.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from uuid import uuid4

from distributed import Client, as_completed

from biasgp.runner.guard import perform_in_worker, reason
from biasgp.runner.task import FAILED, Function, Outcome, Task


def carry_on_dask(
    tasks: Iterable[Task], function: Function, timeout: float | None, threads: int, scheduler: str
) -> Generator[Outcome, None, None]:
    """On the cluster of that scheduler, on however many workers it has or gets.

    Dask runs the tasks of a lost worker on another one. A worker is not ours to end: compiled code that hangs stays.
    """
    call = partial(_in_worker, function, timeout, threads)
    run = uuid4().hex
    with Client(scheduler, set_as_default=False) as client:  # type: ignore[no-untyped-call,unused-ignore]
        futures = {client.submit(call, task, key=f"biasgp-{run}-{task.key}", pure=False): task for task in tasks}
        try:
            finished = as_completed(  # type: ignore[no-untyped-call,unused-ignore]
                list(futures), loop=client.loop, with_results=True, raise_errors=False
            )
            for future, result in finished:
                task = futures.pop(future)
                yield _outcome(future.status, result, task)
        finally:
            if futures:
                client.cancel(list(futures))


def _outcome(status: str, result: object, task: Task) -> Outcome:
    if isinstance(result, Outcome):
        return result
    if status == "error" and isinstance(result, tuple):
        return Outcome(task.key, FAILED, message=reason(result[1]))
    raise ConnectionError(f"The cluster gave up task {task.key} ({status}). Is its scheduler still there?")


def _in_worker(function: Function, timeout: float | None, threads: int, task: Task) -> Outcome:
    return perform_in_worker(function, task, timeout, threads, expendable=False)
