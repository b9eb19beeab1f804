"""Who watches a fit: when it has to end, where it stands, and how much is left of it."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

MEMORY = 0.9
"""Weight of what was measured before, against the latest: early work is on few readings, where all else costs more."""


class Ledger:
    """Work done and work ahead, by kind. What is left is the latter times the seconds that each unit took so far.

    Time is counted as that of the work which is reported next, if anybody foresaw work of that kind. Some kinds come in
    sizes, whose units differ in cost (predictions from more or fewer neighbours): `settle` says which size is ahead.
    """

    def __init__(
        self, changed: Callable[[Ledger], None] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._changed, self._clock = changed, clock
        self._last = clock()
        self._ahead: dict[str, float] = {}
        self._size: dict[str, int] = {}
        self._seconds: dict[tuple[str, int], float] = defaultdict(float)
        self._units: dict[tuple[str, int], float] = defaultdict(float)
        self.stage = ""

    def expect(self, kind: str, units: float) -> None:
        """From now on so much work of a kind; 0 for none, which is then not measured any more."""
        self.mark()
        self._ahead[kind] = units
        if units <= 0.0:
            del self._ahead[kind]

    def expects(self, kind: str) -> bool:
        """Whether work of a kind is foreseen."""
        return kind in self._ahead

    def settle(self, kind: str, size: int) -> None:
        """The work ahead of a kind is of this size."""
        self._size[kind] = size

    def mark(self) -> None:
        """Time before this counts for nothing."""
        self._last = self._clock()

    def did(self, kind: str, units: float, size: int) -> None:
        """So much of it was done since the last report or mark."""
        if kind not in self._ahead:
            return
        key, before = (kind, size), self._last
        self.mark()
        self._seconds[key] = MEMORY * self._seconds[key] + self._last - before
        self._units[key] = MEMORY * self._units[key] + units
        self._ahead[kind] = max(0.0, self._ahead[kind] - units)
        if self._changed is not None:
            self._changed(self)

    @property
    def measured(self) -> bool:
        """Whether the cost of all work ahead has been measured."""
        return all(self._units.get(key, 0.0) > 0.0 for key, _ in self._to_do())

    @property
    def left(self) -> float:
        """Seconds, as far as they have been measured."""
        return sum(units * self._seconds[key] / self._units[key] for key, units in self._to_do() if self._units[key])

    def _to_do(self) -> list[tuple[tuple[str, int], float]]:
        return [((kind, self._size.get(kind, 0)), units) for kind, units in self._ahead.items() if units > 0.0]


@dataclass
class Watch:
    """Ends searches when a time (of time.monotonic) has come, and hears where they stand."""

    deadline: float = math.inf
    listener: Callable[[str], None] | None = None
    expired: bool = False
    ledger: Ledger | None = None


_watch: ContextVar[Watch | None] = ContextVar("biasgp_watch", default=None)


@contextmanager
def watched(watch: Watch) -> Iterator[Watch]:
    """Searches inside are under this watch, however deep they are. A ledger outside of it goes on being kept."""
    outside = _watch.get()
    if watch.ledger is None and outside is not None:
        watch.ledger = outside.ledger
    token = _watch.set(watch)
    try:
        yield watch
    finally:
        _watch.reset(token)


def out_of_time() -> bool:
    """Whether the watch, if there is one, says that it is time to end with the best so far."""
    watch = _watch.get()
    if watch is not None and time.monotonic() > watch.deadline:
        watch.expired = True
    return watch is not None and watch.expired


def tell(text: str) -> None:
    """Say where a search stands to who watches, if anybody does."""
    watch = _watch.get()
    if watch is not None and watch.listener is not None:
        watch.listener(text)


def stage(text: str) -> None:
    """Say which part of a fit begins, in words for a user."""
    tell(text)
    ledger = _ledger()
    if ledger is not None:
        ledger.stage = text


def did(kind: str, units: float, size: int = 0) -> None:
    """`Ledger.did`, if one is kept."""
    ledger = _ledger()
    if ledger is not None:
        ledger.did(kind, units, size)


def expect(kind: str, units: float) -> None:
    """`Ledger.expect`, if one is kept."""
    ledger = _ledger()
    if ledger is not None:
        ledger.expect(kind, units)


def expects(kind: str) -> bool:
    """`Ledger.expects`, if one is kept."""
    ledger = _ledger()
    return ledger is not None and ledger.expects(kind)


def settle(kind: str, size: int) -> None:
    """`Ledger.settle`, if one is kept."""
    ledger = _ledger()
    if ledger is not None:
        ledger.settle(kind, size)


def mark() -> None:
    """`Ledger.mark`, if one is kept."""
    ledger = _ledger()
    if ledger is not None:
        ledger.mark()


def _ledger() -> Ledger | None:
    watch = _watch.get()
    return None if watch is None else watch.ledger
