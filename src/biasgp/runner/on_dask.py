"""Tasks on a Dask cluster, through Dask's own client.

joblib's Dask backend would wait for ever for a task whose workers have died too often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import uuid4

import dask
from dask.utils import parse_timedelta
from distributed import Client, Security, as_completed
from distributed.comm.addressing import get_address_host_port
from distributed.comm.core import connect

from biasgp.runner.guard import perform
from biasgp.runner.task import Function, Outcome, Task

LARGEST_PORT = 65535
TROUBLE = (OSError, UnicodeError, TypeError, RuntimeError, ImportError, MemoryError)
"""What Dask raises for an impossible host, a protocol without its library or keys, or an answer by another program,
whose first bytes it takes for a length."""


def reach(scheduler: str) -> None:
    """Return once a scheduler answers at the address; it is waited for as long as Dask itself would.

    Dask's client is made only then: one that cannot connect takes a minute to go, and complains as it does.
    """
    if scheduler.startswith("inproc://"):  # a cluster within this process
        return
    _refuse_no_address(scheduler)
    patience = parse_timedelta(dask.config.get("distributed.comm.timeouts.connect", "30s"))
    try:
        # In a thread of its own: a notebook's has a loop already.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(_greet(scheduler, patience))).result()
    except TROUBLE as error:
        reason = str(error) or "another program answers there"
        raise ConnectionError(
            f"No Dask scheduler answers at {scheduler!r} ({reason}). Check the address, and that it runs; it is waited "
            f"for {patience:g} s."
        ) from None


async def _greet(scheduler: str, patience: float) -> None:
    secured = Security().get_connection_args("client")  # type: ignore[no-untyped-call,unused-ignore]
    greeting = connect(scheduler, timeout=patience, **secured)  # type: ignore[no-untyped-call,unused-ignore]
    comm = await asyncio.wait_for(greeting, patience + 1.0)
    await comm.close()


def _refuse_no_address(scheduler: str) -> None:
    try:
        host, port = get_address_host_port(scheduler, strict=True)  # type: ignore[no-untyped-call,unused-ignore]
        if host and 0 < int(port) <= LARGEST_PORT:
            return
    except (ValueError, TypeError, NotImplementedError):
        pass
    raise ValueError(f"{scheduler!r} is not the address of a Dask scheduler. Write it like tcp://HOST:8786.")


def carry_on_dask(
    tasks: Iterable[Task], function: Function, timeout: float | None, scheduler: str
) -> Generator[Outcome, None, None]:
    """On the cluster of that scheduler, on however many workers it has or gets.

    Dask runs the tasks of a lost worker on another one. A worker is not ours to end: compiled code that hangs stays.
    """
    call = partial(perform, function=function, timeout=timeout, in_worker=True)
    run = uuid4().hex
    try:
        connection = Client(scheduler, set_as_default=False)  # type: ignore[no-untyped-call,unused-ignore]
    except OSError as error:
        raise ConnectionError(f"What answers at {scheduler!r} is not a Dask scheduler ({error}).") from None
    with connection as client:
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
        return Outcome.failed(task.key, result[1])
    raise ConnectionError(f"The cluster gave up task {task.key} ({status}). Is its scheduler still there?")
