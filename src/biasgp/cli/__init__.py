"""The command `biasgp`. This module imports next to nothing: a Ctrl-C during the imports must find a handler."""

from __future__ import annotations

import gc
import os
import signal
import sys

# SIGTERM last: Python has no handler of its own for it, so one shows from outside that both are ours.
REQUESTS = (signal.SIGINT, signal.SIGTERM)
"""How a process is asked to end."""
SELDOM = 100_000
"""Objects made between two looks for garbage."""
received: list[int] = []
"""The requests that a command has been sent; see `requests.py`."""


def main() -> None:
    """The entry point. Before and after a command there is nothing to clean up, and a request ends the process."""
    for number in REQUESTS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    # Imports make objects by the hundred thousand, all of which stay: to look for garbage among them as often as
    # Python does by itself, and once more at the end, takes half a second.
    gc.set_threshold(SELDOM)
    from biasgp.cli.commands import app

    try:
        app()
    finally:
        gc.freeze()
        if received:
            # At once: on its way out Python puts the default handlers back, and a second request would be answered by
            # them; and whatever an interrupted import made of the exception, this is the exit code.
            sys.stdout.flush()
            sys.stderr.flush()
            _end(received[-1], None)


def _end(number: int, _: object) -> None:
    # Not an exception: in the middle of an import it may be dropped, shown or turned into another one.
    os._exit(128 + number)
