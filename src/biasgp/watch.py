"""Time limits and progress of a fit: when it has to end, what it is doing, and how much is left of it."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass, field

MEMORY = 0.9
"""Weight of earlier measurements against the latest: early work is on few readings, where overheads dominate."""

Changed = Callable[["Ledger"], None]


class Ledger:
    """Work done and work ahead, by kind. What is left is the latter times the seconds that each unit took so far.

    Time counts towards the work that is reported next, if work of that kind is expected. Some kinds come in sizes whose
    units differ in cost (predictions from more or fewer neighbours): `settle` says which size is ahead.
    """

    def __init__(self, changed: Changed | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._changed, self._clock = changed, clock
        self._last = clock()
        self._ahead: dict[str, float] = {}
        self._size: dict[str, int] = {}
        self._seconds: dict[tuple[str, int], float] = defaultdict(float)
        self._units: dict[tuple[str, int], float] = defaultdict(float)
        self.stage = ""

    def expect(self, kind: str, units: float) -> None:
        """This much work of a kind is ahead from now on; with 0, it is not measured any more."""
        self.mark()
        self._ahead.pop(kind, None)
        if units > 0.0:
            self._ahead[kind] = units

    def expects(self, kind: str) -> bool:
        """Whether work of a kind is expected."""
        return kind in self._ahead

    def settle(self, kind: str, size: int) -> None:
        """The work ahead of a kind is of this size."""
        self._size[kind] = size

    def mark(self) -> None:
        """Time before this is not counted."""
        self._last = self._clock()

    def did(self, kind: str, units: float, size: int = 0) -> None:
        """This much of it was done since the last report or mark."""
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
    """Ends searches at a deadline (of time.monotonic), and is told of their progress.

    Those inside `with watch:` are under it, however deep they are. The ledger of a watch around it is kept up.
    """

    deadline: float = math.inf
    listener: Callable[[str], None] | None = None
    expired: bool = False
    ledger: Ledger | None = None
    _tokens: list[Token[Watch | None]] = field(default_factory=list, init=False, repr=False, compare=False)

    def __enter__(self) -> Watch:
        outside = _watch.get()
        self.ledger = self.ledger or (outside.ledger if outside else None)
        self._tokens.append(_watch.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _watch.reset(self._tokens.pop())


_watch: ContextVar[Watch | None] = ContextVar("biasgp_watch", default=None)


def out_of_time() -> bool:
    """Whether a search has to end with the best so far."""
    watch = _watch.get()
    if watch is None:
        return False
    watch.expired |= time.monotonic() > watch.deadline
    return watch.expired


def tell(text: str) -> None:
    """Report the progress of a search, if it is watched."""
    watch = _watch.get()
    if watch and watch.listener:
        watch.listener(text)


def stage(text: str) -> None:
    """Report which part of a fit begins, in words for a user."""
    tell(text)
    ledger().stage = text


def ledger() -> Ledger:
    """The ledger of the current watch, or one that is thrown away where none is kept."""
    watch = _watch.get()
    return watch.ledger if watch and watch.ledger else Ledger()
