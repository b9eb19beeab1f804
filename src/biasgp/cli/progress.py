"""What is left of a fit: measured as it goes, on one line of a terminal, or now and then on a line of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from rich.status import Status

    from biasgp.watch import Ledger

QUICK = 5.0
"""Seconds before which nothing is said: most fits are over, and little has been measured."""
LONG = 120.0
"""Seconds ahead from which the ways to shorten a fit are told, once."""


@contextmanager
def following(what: str, advice: str, *, quiet: bool = False) -> Iterator[None]:
    """Inside, fits and predictions show how much of them is left; `advice` is how to have it done sooner."""
    from biasgp.watch import Ledger, Watch

    if quiet:
        yield
        return
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    spinner = console.status(what) if console.is_terminal else None
    ledger = Ledger(_Teller(what, advice, console, spinner).hear)
    with spinner or nullcontext(), Watch(ledger=ledger):
        yield


class _Teller:
    """Hears of each piece of work, and says what is left when that is worth saying."""

    def __init__(
        self,
        what: str,
        advice: str,
        console: Console,
        status: Status | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._advice, self._console, self._status, self._clock = what, advice, console, status, clock
        self._began = self._last = clock()
        self._advised = False

    def hear(self, ledger: Ledger) -> None:
        from biasgp.runner.progress import SECONDS_BETWEEN_LINES, duration

        now, left = self._clock(), ledger.left
        if now - self._began < QUICK or left <= 0.0:
            return
        stage = f" ({ledger.stage})" if ledger.stage else ""
        amount = f"{'about' if ledger.measured else 'more than'} {duration(left)}"
        text = f"{self._what}{stage}: {amount} left"
        if self._status is not None:
            self._status.update(Text(text))
        elif now - self._last >= SECONDS_BETWEEN_LINES:
            self._console.print(Text(text, style="dim"))
            self._last = now
        if left > LONG and not self._advised:
            self._advised = True
            self._console.print(Text(f"This takes {amount} more. {self._advice}", style="dim"))
