"""Models that answer for single readings: loaded in the background, since that takes longer than a person waits."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from biasgp.estimators.explaining import ReadingExplanation
from biasgp.persistence import ModelFileError, load_model

KEPT = 2
"""Models in memory: those of exact fits hold matrices of all readings."""
Explain = Callable[[int], ReadingExplanation]


class Explainers:
    """For each model file, a function that explains its readings; None where the model cannot."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="explain")
        self._lock = Lock()
        self._found: OrderedDict[Path, Future[Explain | None]] = OrderedDict()

    def prepare(self, path: Path) -> Future[Explain | None]:
        """Begin to load one, where that has not been begun."""
        with self._lock:
            if path not in self._found:
                self._found[path] = self._pool.submit(_loaded, path)
                while len(self._found) > KEPT:
                    self._found.popitem(last=False)[1].cancel()
            self._found.move_to_end(path)
            return self._found[path]

    def explain(self, path: Path, i: int) -> ReadingExplanation | None:
        """Why reading i of a fit was flagged or was not, with its witnesses, when the model is there."""
        explain = self.prepare(path).result()
        return None if explain is None else explain(i)


def _loaded(path: Path) -> Explain | None:
    try:
        model: Any = load_model(path)
    except ModelFileError:
        return None
    if not hasattr(model, "explain"):
        return None
    found: Explain = model._explaining()
    return found
