"""Ctrl-C and SIGTERM while a command runs: exceptions, so that half-written files go."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from biasgp.cli import REQUESTS, received

AGAIN = 0.01
"""Seconds after which a request that was lost on the way is made again."""


@contextmanager
def as_exceptions() -> Iterator[Callable[[], int]]:
    """Inside, a request is a KeyboardInterrupt or a SystemExit; the function tells which, or 0.

    Python drops an exception, and shows its traceback, where it finds nobody to give it to (in callbacks, as imports
    have many); then the request is made again. Compiled modules may turn one into an ImportError, which is taken for a
    missing extra: `received` keeps the request, and nothing is written after it (`output.py`).
    """
    if threading.current_thread() is not threading.main_thread():
        yield int
        return
    requests: list[int] = []
    received.clear()
    repeats: list[threading.Timer] = []

    def ask(number: int, _: FrameType | None) -> None:
        requests.append(number)
        received.append(number)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    def dropped(kind: type[BaseException] | None) -> bool:
        if not requests or kind is None or not issubclass(kind, KeyboardInterrupt | SystemExit):
            return False
        repeats.append(threading.Timer(AGAIN, os.kill, (os.getpid(), requests[-1])))
        repeats[-1].start()
        return True

    def unraisable(what: sys.UnraisableHookArgs) -> None:
        if not dropped(what.exc_type):
            hooks[0](what)

    def printed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not dropped(kind):
            hooks[1](kind, error, trace)

    hooks = sys.unraisablehook, sys.excepthook
    # What whoever started this process wants ignored (a shell, in the background) stays so.
    before = {number: signal.getsignal(number) for number in REQUESTS}
    before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, ask)
    sys.unraisablehook, sys.excepthook = unraisable, printed
    try:
        yield lambda: requests[-1] if requests else 0
    finally:
        for repeat in repeats:  # one that is heard by now need not be made again
            repeat.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook, sys.excepthook = hooks
