"""How many tasks are done: a live bar on a terminal, a line at intervals elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from biasgp.messages import printable
from biasgp.runner.task import OK, Execution, Outcome

SECONDS_BETWEEN_LINES = 15.0
RATE_WINDOW = 600.0
"""Seconds over which the bar averages its rate. Tasks differ a lot in length: a long window steadies the time left."""
MINUTE, HOUR = 60.0, 3600.0

Report = Callable[[Outcome], None]


@contextmanager
def reporting(execution: Execution, done: int, total: int) -> Iterator[Report]:
    """A function to call with each finished task, which shows it as suits the console."""
    if not execution.progress:
        yield lambda outcome: None
        return
    console = execution.console or Console(stderr=True)
    with (_bar if console.is_terminal else _lines)(console, done, total) as report:
        yield report


@contextmanager
def _bar(console: Console, done: int, total: int) -> Iterator[Report]:
    """A live bar with the time left."""
    failures = 0
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    left = (TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *left, console=console, speed_estimate_period=RATE_WINDOW) as progress:
        bar = progress.add_task("", total=total, completed=done)

        def report(outcome: Outcome) -> None:
            nonlocal failures
            failures += outcome.status != OK
            description = escape(printable(outcome.key)) + (f"  [red]{failures} not ok[/]" if failures else "")
            progress.update(bar, advance=1, description=description)

        yield report


@contextmanager
def _lines(console: Console, before: int, total: int) -> Iterator[Report]:
    """A line at the start, at intervals, for each failure, and at the end."""
    done = before
    start = last = time.monotonic()

    def say(text: str) -> None:
        console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def report(outcome: Outcome) -> None:
        nonlocal done, last
        done += 1
        if outcome.status != OK:
            say(f"{outcome.key}: {outcome.status}: {outcome.message}")
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES and done < total:
            left = (now - start) / (done - before) * (total - done)
            say(f"{done} of {total} done, about {duration(left)} left")
            last = now

    say(f"{total} tasks" + (f", {before} of them done before" if before else ""))
    try:
        yield report
    finally:
        say(f"{done} of {total} done, {time.monotonic() - start:.0f} s")


def duration(seconds: float) -> str:
    """A length of time in the unit that suits it."""
    if seconds < 1.5 * MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE:.0f} min" if seconds < 1.5 * HOUR else f"{seconds / HOUR:.1f} h"
