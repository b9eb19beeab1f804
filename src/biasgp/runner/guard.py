"""What surrounds a task where it runs: a time limit, one BLAS thread, and no exception that gets away."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TextIO

from threadpoolctl import threadpool_limits

from biasgp.runner.task import OK, TIMEOUT, Function, Outcome, Task

PARENT_INTERVAL = 1.0
"""Seconds between two checks that the parent process is alive."""
GRACE_SHARE, GRACE_SECONDS = 0.1, 2.0
"""A process whose task ignores its time limit is ended after this share of the limit and these seconds more."""


class _TimeLimitExceeded(BaseException):
    """Not an Exception, so that no `except Exception` in a fit handles it."""


def perform(
    task: Task,
    function: Function,
    timeout: float | None = None,
    *,
    in_worker: bool = False,
    expendable: bool = False,
) -> Outcome:
    """Run one task and return how it ended, whatever happens in it.

    in_worker: this process is there for tasks only. expendable: it may be ended if nothing else stops the task (its
    parent handles that).
    """
    if in_worker:
        _limit_blas()
    try:
        with _time_limit(timeout, expendable):
            # The value as JSON has it: what a run returns is what a later run reads from disk.
            return Outcome(task.key, OK, json.loads(json.dumps(function(task.payload), default=_unbox)))
    except _TimeLimitExceeded:
        return Outcome(task.key, TIMEOUT, message=f"stopped after {timeout:g} s")
    except Exception as error:
        return Outcome.failed(task.key, error)


def end_with(parent: int) -> None:
    """Have this worker end when its parent has ended in any way, as its results would be lost.

    A thread checks, which compiled code does not delay once it has released the interpreter's lock. (Windows does not
    tell a process of its parent's end.)
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_INTERVAL)
        os._exit(1)

    threading.Thread(target=watch, name="end with the parent", daemon=True).start()


@cache
def _limit_blas() -> None:
    """Once per process and for good: workers with several threads would undo each other's limits."""
    threadpool_limits(1, user_api="blas")


def _unbox(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"A task's value must be numbers, strings, lists and dicts, not {type(value).__name__}.")


@contextmanager
def _time_limit(seconds: float | None, expendable: bool) -> Iterator[None]:
    """_TimeLimitExceeded is raised inside after that many seconds.

    Python raises it between two of its own steps. Compiled code that does not come back is ended with the process, a
    little later and only if that is expendable.
    """
    if seconds is None:
        yield
        return
    in_main = threading.current_thread() is threading.main_thread()
    alarm = _by_signal if in_main and hasattr(signal, "setitimer") else _by_thread
    if expendable:
        hard_limit = (1.0 + GRACE_SHARE) * seconds + GRACE_SECONDS
        faulthandler.dump_traceback_later(hard_limit, exit=True, file=_nowhere())
    try:
        with alarm(seconds):
            yield
    finally:
        if expendable:
            faulthandler.cancel_dump_traceback_later()


@contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: Any) -> None:
        raise _TimeLimitExceeded

    before = signal.signal(signal.SIGALRM, ring)
    # It rings again every second, should a callback from compiled code swallow the first.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _by_thread(seconds: float) -> Iterator[None]:
    """For threads other than the main one, as a Dask worker's, and where there are no signals."""
    lock, over = threading.Lock(), threading.Event()
    target = ctypes.c_ulong(threading.get_ident())

    def ring() -> None:
        with lock:
            if not over.is_set():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(target, ctypes.py_object(_TimeLimitExceeded))

    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            over.set()
        timer.cancel()


@cache
def _nowhere() -> TextIO:
    return open(os.devnull, "w")  # noqa: PTH123  (kept open: the watchdog writes to it as the process ends)
