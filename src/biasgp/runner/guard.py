"""What surrounds a task where it runs: a time limit, one BLAS thread, and no exception that gets away."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TextIO

from threadpoolctl import threadpool_limits

from biasgp.runner.task import FAILED, OK, TIMEOUT, Function, Outcome, Task, plain

BETWEEN_LOOKS = 1.0
"""Seconds between two looks at whether the parent lives."""


class TimeLimitExceeded(BaseException):
    """Not an Exception, so that no `except Exception` in a fit takes it for trouble of its own."""


def perform(function: Function, task: Task, timeout: float | None = None, expendable: bool = False) -> Outcome:
    """Run one task and return how it ended, whatever happens in it.

    expendable: this process may be ended if nothing else stops the task (its parent knows what to do then).
    """
    try:
        with time_limit(timeout, expendable):
            return Outcome(task.key, OK, plain(function(task.payload)))
    except TimeLimitExceeded:
        return Outcome(task.key, TIMEOUT, message=too_long(timeout))
    except Exception as error:
        return Outcome(task.key, FAILED, message=reason(error))


def perform_in_worker(function: Function, task: Task, timeout: float | None, threads: int, expendable: bool) -> Outcome:
    """`perform`, in a process that is there for tasks only."""
    limit_blas(threads)
    return perform(function, task, timeout, expendable)


def end_with(parent: int) -> None:
    """Have this worker end when its parent has, however that ended: nobody would take its results.

    A thread looks, which compiled code does not keep waiting once it has released the interpreter's lock. (Windows
    tells a process nothing of its parent's end.)
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, name="end with the parent", daemon=True).start()


def reason(error: BaseException) -> str:
    """One line about an exception."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__


def too_long(timeout: float | None) -> str:
    return f"stopped after {timeout:g} s"


@cache
def limit_blas(threads: int) -> None:
    """Once a process and for good: workers with several threads would undo each other's limits."""
    threadpool_limits(threads, user_api="blas")


@contextmanager
def time_limit(seconds: float | None, expendable: bool = False) -> Iterator[None]:
    """TimeLimitExceeded is raised inside after that many seconds.

    Python raises it between two of its own steps. Compiled code that does not come back is ended with the process, a
    little later and only if that is expendable.
    """
    if seconds is None:
        yield
        return
    alarm = _by_signal if _can_take_signals() else _by_thread
    if expendable:
        faulthandler.dump_traceback_later(hard_limit(seconds), exit=True, file=_nowhere())
    try:
        with alarm(seconds):
            yield
    finally:
        if expendable:
            faulthandler.cancel_dump_traceback_later()


def hard_limit(seconds: float) -> float:
    """When a process whose task should have been stopped is ended."""
    return 1.1 * seconds + 2.0


def _can_take_signals() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: Any) -> None:
        raise TimeLimitExceeded

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
                ctypes.pythonapi.PyThreadState_SetAsyncExc(target, ctypes.py_object(TimeLimitExceeded))

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
