"""What was said of readings, in the order in which it was said: a file that only grows, so that nothing is lost.

Each line is one action, on disk before it is answered. A line that a crash cut short is dropped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biasgp.messages import WrongUseError

OPEN, GOOD, BAD = 0, 1, 2
WORDS = {"open": OPEN, "good": GOOD, "bad": BAD}
MARK, UNDO, REDO = "mark", "undo", "redo"
Codes = NDArray[np.int8]


@dataclass
class History:
    """The actions on one column of one table: those done, and those undone that can be done again."""

    marks: list[dict[str, Any]] = field(default_factory=list)
    done: int = 0

    def take(self, entry: dict[str, Any]) -> None:
        """One more action."""
        if entry["action"] == MARK:
            self.marks[self.done :] = [entry]
            self.done += 1
        elif entry["action"] == UNDO:
            self.done = max(self.done - 1, 0)
        else:
            self.done = min(self.done + 1, len(self.marks))

    @property
    def can_undo(self) -> bool:
        return self.done > 0

    @property
    def can_redo(self) -> bool:
        return self.done < len(self.marks)

    def verdicts(self, n: int) -> Judgements:
        """What they come to for each of n rows."""
        codes, source = np.zeros(n, dtype=np.int8), np.full(n, -1, dtype=np.int32)
        passed = []
        for i, mark in enumerate(self.marks[: self.done]):
            rows = np.concatenate([np.arange(first - 1, min(last, n)) for first, last in mark["rows"]])
            if mark["verdict"] == "open" and not codes[rows].any():
                passed.append(rows)
            codes[rows], source[rows] = WORDS[mark["verdict"]], i
        return Judgements(codes, source, self.marks[: self.done], tuple(passed))


@dataclass(frozen=True)
class Judgements:
    """What is said of each row, the first of which is 0, and by which action."""

    codes: Codes
    source: NDArray[np.int32]
    marks: Sequence[dict[str, Any]]
    passed: tuple[NDArray[np.intp], ...] = ()
    """Rows that were open and were said to be undecided: somebody has looked, and need not be asked again."""

    def about(self, row: int) -> dict[str, str]:
        """The verdict on a row, by whom, when and why; empty texts where it is open."""
        if self.codes[row] == OPEN:
            return {"verdict": "", "who": "", "when": "", "why": ""}
        mark = self.marks[self.source[row]]
        return {"verdict": mark["verdict"], "who": mark["who"], "when": mark["when"], "why": mark["why"]}

    @property
    def rows(self) -> NDArray[np.intp]:
        """Rows that have been judged."""
        return np.flatnonzero(self.codes != OPEN)

    def digest(self, rows: NDArray[np.intp] | None = None) -> str:
        """The same for the same verdicts on the same rows, however they came about."""
        chosen = self.codes if rows is None else self.codes[rows]
        return sha256(chosen.tobytes()).hexdigest()[:16]


class Journal:
    """The file, and what is in it; or in its first lines, where it is only read."""

    def __init__(self, path: Path, version: int | None = None) -> None:
        self._path = path
        self._entries = _read(path, repair=version is None)[:version]
        self._histories: dict[tuple[str, str], History] = {}
        for entry in self._entries:
            self._history(entry).take(entry)

    @property
    def version(self) -> int:
        """Actions so far: it grows with each."""
        return len(self._entries)

    def history(self, table: str, target: str) -> History:
        """The actions on a column of a table, which its checksum names."""
        return self._histories.setdefault((table, target), History())

    def append(self, entry: dict[str, Any]) -> None:
        """Write an action; it is on disk when this returns."""
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"
        with self._path.open("ab") as file:
            start = file.tell()
            try:
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
            except OSError:  # a full disk: nothing of the line may stay
                file.truncate(start)
                raise
        self._entries.append(entry)
        self._history(entry).take(entry)

    def _history(self, entry: dict[str, Any]) -> History:
        return self.history(entry["table"], entry["target"])


def ranges(rows: NDArray[np.intp]) -> list[list[int]]:
    """Rows, the first of which is 0, as pairs of a first and a last row, counted from 1."""
    rows = np.unique(rows)
    breaks = np.flatnonzero(np.diff(rows) > 1)
    firsts, lasts = rows[np.r_[0, breaks + 1]], rows[np.r_[breaks, len(rows) - 1]]
    return [[int(first) + 1, int(last) + 1] for first, last in zip(firsts, lasts, strict=True)]


def _read(path: Path, *, repair: bool) -> list[dict[str, Any]]:
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    # The process ended in the middle of a line, which nobody was told of; or it is writing it, where we only read.
    if repair and len(whole) < len(data):
        with path.open("r+b") as file:
            file.truncate(len(whole))
            os.fsync(file.fileno())
    entries = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            entry = json.loads(line)
            _check(entry)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise WrongUseError(
                f"Line {number} of {str(path)!r} is not what biasgp writes there. Correct it, or remove it."
            ) from None
        entries.append(entry)
    return entries


def _check(entry: dict[str, Any]) -> None:
    texts = [entry["table"], entry["target"]]
    if entry["action"] == MARK:
        texts += [entry["why"], entry["who"], entry["when"]]
        if entry["verdict"] not in WORDS:
            raise ValueError
        for first, last in entry["rows"]:
            if not (type(first) is type(last) is int and 1 <= first <= last):
                raise ValueError
    elif entry["action"] not in (UNDO, REDO):
        raise ValueError
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
