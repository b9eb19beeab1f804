"""What goes to a worker, how it is run, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

OK, FAILED, TIMEOUT = "ok", "failed", "timeout"
MAX_MESSAGE = 500
"""Characters that are kept of an exception's message."""
LONGEST_TIMEOUT = 4e6
"""Seconds (46 days) that the timers of all supported systems can count."""

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Task:
    """One piece of work: a key that is the same in every run, and what the function is called with.

    Examples
    --------
    >>> from biasgp.runner import Task
    >>> [Task(f"square/{n}", n).key for n in (1, 2)]
    ['square/1', 'square/2']
    """

    key: str
    payload: Any


@dataclass(frozen=True)
class Outcome:
    """How a task ended: status "ok" with its value, or "failed" or "timeout" with the reason.

    Examples
    --------
    >>> from biasgp.runner import Outcome
    >>> Outcome.failed("square/2", ValueError("no number")).message
    'ValueError: no number'
    >>> Outcome.of_line(Outcome("square/1", "ok", 1.0).line()).value
    1.0
    """

    key: str
    status: str
    value: Any = None
    message: str = ""

    @classmethod
    def failed(cls, key: str, error: BaseException | None, before: str = "") -> Outcome:
        """By an exception, which is told in one line."""
        text = " ".join(str(error).split())
        told = f"{type(error).__name__}: {text}"[:MAX_MESSAGE] if text else type(error).__name__
        return cls(key, FAILED, message=before + told)

    def line(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def of_line(line: str) -> Outcome:
        """Back from the line; ValueError if it is not the line of an outcome."""
        try:
            outcome = Outcome(**json.loads(line))
        except (TypeError, RecursionError) as error:
            raise ValueError(str(error)) from None
        if not (isinstance(outcome.key, str) and outcome.status in (OK, FAILED, TIMEOUT)):
            raise ValueError("It has no key, or an unknown status.")
        if not isinstance(outcome.message, str):
            raise ValueError("Its message is not text.")
        return outcome


@dataclass(frozen=True)
class Execution:
    """How tasks are run. None of it changes their results.

    Examples
    --------
    >>> from biasgp.runner import Execution
    >>> Execution(jobs=4, timeout=60.0).check()
    >>> Execution(jobs=0).check()
    Traceback (most recent call last):
    ValueError: jobs must be 1 or more, got 0.
    """

    jobs: int = 1
    """Worker processes on this machine; 1 is this process itself."""
    scheduler: str | None = None
    """Address of a Dask scheduler ("tcp://…") whose workers do the tasks instead."""
    timeout: float | None = None
    """Seconds after which a task is stopped and recorded as such; no limit when left out."""
    retry_failed: bool = False
    """Do tasks that failed or were stopped before again."""
    progress: bool = True
    """Show how many tasks are done."""
    console: Console | None = None
    """Where to show it; standard error when left out."""

    def check(self) -> None:
        """ValueError for settings that make no sense, ConnectionError for a scheduler that does not answer."""
        if self.timeout is not None and not 0.0 < self.timeout <= LONGEST_TIMEOUT:
            raise ValueError(
                f"timeout must be None, for no limit, or above 0 and at most {LONGEST_TIMEOUT:,.0f} seconds, "
                f"got {self.timeout}."
            )
        if self.jobs < 1:
            raise ValueError(f"jobs must be 1 or more, got {self.jobs}.")
        if self.scheduler is not None:
            # Dask is imported only for those who use it.
            from biasgp.runner.on_dask import reach

            reach(self.scheduler)


SERIAL = Execution()
"""One task after the other in this process, without a time limit."""
