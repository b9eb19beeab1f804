"""What goes to a worker and what comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

OK, FAILED, TIMEOUT = "ok", "failed", "timeout"
LONGEST_TIMEOUT = 4e6
"""Seconds (46 days): the clocks of all systems that can stop a task reach so far."""


@dataclass(frozen=True)
class Task:
    """One piece of work: a key that is the same in every run, and what the function is called with."""

    key: str
    payload: Any


@dataclass(frozen=True)
class Outcome:
    """How a task ended: status "ok" with its value, or "failed" or "timeout" with the reason."""

    key: str
    status: str
    value: Any = None
    message: str = ""

    def line(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def of_line(line: str) -> Outcome:
        """Back from the line; ValueError if it is none of ours."""
        try:
            outcome = Outcome(**json.loads(line))
        except (TypeError, RecursionError) as error:
            raise ValueError(str(error)) from None
        if not (isinstance(outcome.key, str) and outcome.status in (OK, FAILED, TIMEOUT)):
            raise ValueError("It has no key, or a status that is none.")
        if not isinstance(outcome.message, str):
            raise ValueError("Its message is not text.")
        return outcome


def check_timeout(timeout: float | None) -> None:
    """ValueError for a time limit that cannot be kept."""
    if timeout is not None and not 0.0 < timeout <= LONGEST_TIMEOUT:
        raise ValueError(
            f"timeout must be None, for no limit, or above 0 and at most {LONGEST_TIMEOUT:,.0f} seconds, got {timeout}."
        )


Function = Callable[[Any], Any]
Call = Callable[[Task], Outcome]


def plain(value: Any) -> Any:
    """The value as JSON has it: what a run returns is what a later run reads from disk."""
    return json.loads(json.dumps(value, default=_unbox))


def _unbox(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"A task's value must be numbers, strings, lists and dicts, not {type(value).__name__}.")
