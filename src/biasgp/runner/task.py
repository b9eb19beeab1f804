"""What goes to a worker and what comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

OK, FAILED, TIMEOUT = "ok", "failed", "timeout"


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
            fields = json.loads(line)
            return Outcome(**fields)
        except TypeError as error:
            raise ValueError(str(error)) from None


Function = Callable[[Any], Any]
Call = Callable[[Task], Outcome]


def plain(value: Any) -> Any:
    """The value as JSON has it: what a run returns is what a later run reads from disk."""
    return json.loads(json.dumps(value, default=_unbox))


def _unbox(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"A task's value must be numbers, strings, lists and dicts, not {type(value).__name__}.")
