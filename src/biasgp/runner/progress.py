"""How far a run is: a live bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from biasgp.messages import printable
from biasgp.runner.task import OK, Outcome

SECONDS_BETWEEN_LINES = 15.0


class Reporter(Protocol):
    """Told of each finished task, between entering and leaving."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...
    def finished(self, outcome: Outcome) -> None: ...


def reporter(show: bool, done: int, total: int, console: Console | None = None) -> Reporter:
    """The one that suits the terminal, or its absence."""
    if not show:
        return Silent()
    console = console or Console(stderr=True)
    return Bar(console, done, total) if console.is_terminal else Lines(console, done, total)


class Silent(AbstractContextManager["Silent"]):
    """Says nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def finished(self, outcome: Outcome) -> None:
        return None


class Bar(AbstractContextManager["Bar"]):
    """A live bar with the time left."""

    def __init__(self, console: Console, done: int, total: int) -> None:
        self._bad = 0
        self._progress = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            # Tasks differ a lot in length: a long window steadies the time left.
            speed_estimate_period=600.0,
        )
        self._task = self._progress.add_task("", total=total, completed=done)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def finished(self, outcome: Outcome) -> None:
        self._bad += outcome.status != OK
        description = escape(printable(outcome.key)) + (f"  [red]{self._bad} not ok[/]" if self._bad else "")
        self._progress.update(self._task, advance=1, description=description)


class Lines(AbstractContextManager["Lines"]):
    """A line at the start, every now and then, for each failure, and at the end."""

    def __init__(self, console: Console, done: int, total: int) -> None:
        self._console, self._done, self._total = console, done, total
        self._here, self._start, self._last = 0, 0.0, 0.0

    def __enter__(self) -> Self:
        self._start = self._last = time.monotonic()
        already = f", {self._done} of them done before" if self._done else ""
        self._say(f"{self._total} tasks{already}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._say(f"{self._done} of {self._total} done, {time.monotonic() - self._start:.0f} s")

    def finished(self, outcome: Outcome) -> None:
        self._done += 1
        self._here += 1
        if outcome.status != OK:
            self._say(f"{outcome.key}: {outcome.status}: {outcome.message}")
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES and self._done < self._total:
            left = (now - self._start) / self._here * (self._total - self._done)
            self._say(f"{self._done} of {self._total} done, about {duration(left)} left")
            self._last = now

    def _say(self, text: str) -> None:
        self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """As a person says it."""
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"
