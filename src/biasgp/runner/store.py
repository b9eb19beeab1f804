"""The finished tasks on disk: a file with one line of JSON per task, written and synced as each ends."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from biasgp.runner.task import Outcome
from biasgp.staging import lock


class StoreError(RuntimeError):
    """The file of finished tasks cannot be used; the message says why.

    Examples
    --------
    >>> from biasgp.runner import Outcome, Store
    >>> Store("tasks.jsonl").add(Outcome("a", "ok"))
    Traceback (most recent call last):
    biasgp.runner.store.StoreError: tasks.jsonl is not open.
    """


class Store:
    """Finished tasks by key. Open it with `with`; one run at a time has it (another gets an InUseError).

    A line that was cut off in the middle by a crash is dropped on opening, and its task is run again. Where a key
    occurs twice (a failed task that was tried again) the later line holds.

    Examples
    --------
    >>> import tempfile
    >>> from biasgp.runner import Outcome, Store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store(f"{folder}/tasks.jsonl") as store:
    ...         store.add(Outcome("a", "ok", 1.5))
    ...     with Store(f"{folder}/tasks.jsonl") as store:
    ...         store.outcomes["a"].value
    1.5
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.outcomes: dict[str, Outcome] = {}
        self._file: int | None = None
        self._held = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as held:
            held.enter_context(lock(self.path.with_name(f".{self.path.name}.lock"), self.path.parent))
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            held.callback(os.close, file)
            self.outcomes, whole = _read(self.path)
            if whole < self.path.stat().st_size:
                os.ftruncate(file, whole)
            _sync_folder(self.path.parent)
            self._file, self._held = file, held.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._file = None
        self._held.close()

    def add(self, outcome: Outcome) -> None:
        """On disk when this returns."""
        if self._file is None:
            raise StoreError(f"{self.path} is not open.")
        data = (outcome.line() + "\n").encode()
        # One write: an interrupt of Python comes before it or after it. The rest of a short write (a full disk) is
        # half a line, which the next run drops.
        if os.write(self._file, data) < len(data):
            raise StoreError(f"{self.path} could not be written to the end; is the disk full?")
        os.fsync(self._file)
        self.outcomes[outcome.key] = outcome


def _read(path: Path) -> tuple[dict[str, Outcome], int]:
    """The outcomes, and the size of the file up to the end of its last whole line."""
    outcomes: dict[str, Outcome] = {}
    whole = 0
    *lines, _ = path.read_bytes().split(b"\n")  # What follows the last newline is nothing, or half a line.
    for number, line in enumerate(lines, start=1):
        try:
            outcome = Outcome.of_line(line.decode())
        except ValueError:
            if number == len(lines):  # A power cut can leave zeros in the place of the last line.
                break
            raise StoreError(f"Line {number} of {path} is damaged. Remove that line to run its task again.") from None
        outcomes[outcome.key] = outcome
        whole += len(line) + 1
    return outcomes, whole


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
