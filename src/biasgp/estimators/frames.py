"""What came in as a frame goes out as one: a fit as a table of its readings, and readings cleaned in one line."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array

LIBRARIES = ("", "pandas", "polars")
"""Where frames come from; empty for arrays and lists."""
NO_EPISODE = -1
"""In a table of readings, the episode of a reading that is in none."""


@dataclass(frozen=True)
class Given:
    """The readings of a fit as they were given: in y's unit, their known variances in the model's (None: zero)."""

    y: Array
    known: Array | None
    library: str

    @classmethod
    def of(cls, X: Any, y: Any, readings: Array, known: Array) -> Given:
        """`readings` and `known` are what X and y, as the user passed them, were made into."""
        return cls(readings, known if known.any() else None, _library(X) or _library(y))

    @property
    def variances(self) -> Array:
        """The known variances."""
        return np.zeros(len(self.y)) if self.known is None else self.known


def row_labels(X: Any, y: Any) -> Any:
    """The index of a pandas frame or series, unless it just counts the rows."""
    for table in (X, y):
        if _library(table) == "pandas":
            index = table.index
            counts = type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)
            return None if counts and index.name is None else index
    return None


def frame_of(estimator: Any, columns: dict[str, NDArray[Any]]) -> Any:
    """Columns as a frame of the library that the readings of a fit came in."""
    library = estimator._given.library or "pandas"
    if find_spec(library) is None:
        came = f"came as a {library} frame" if estimator._given.library else "came as arrays"
        raise ImportError(f"A table of readings that {came} needs {library}: pip install {library}.")
    if library == "polars":
        import polars

        return polars.DataFrame(
            {name: values.tolist() if values.dtype == object else values for name, values in columns.items()}
        )
    import pandas

    return pandas.DataFrame(columns, index=getattr(estimator, "_index", None))


def episode_numbers(estimator: Any, n: int) -> NDArray[np.int64]:
    """The index in `episodes_` of each reading's episode."""
    number = np.full(n, NO_EPISODE, dtype=np.int64)
    for i, episode in enumerate(getattr(estimator, "episodes_", ())):
        number[list(episode.rows)] = i
    return number


def as_inputs(X: Any) -> Any:
    """X, or a single input as the only column of one: a series, an index, a list of times or numbers."""
    if type(X).__name__.endswith("Index") and hasattr(X, "to_frame"):  # of pandas
        return X.to_frame(index=False)
    if _library(X) and not hasattr(X, "columns"):
        return X.to_frame()
    if isinstance(X, np.ndarray | list | tuple) and np.ndim(np.asarray(X, dtype=object)) == 1:
        return np.asarray(X).reshape(-1, 1)
    return X


def in_the_form_of(y: Any, values: Array) -> Any:
    """Values as y is: a pandas series with its index and name, a polars series with its name, or an array."""
    library = _library(y)
    if library == "pandas":
        return type(y)(values, index=y.index, name=y.name)
    return type(y)(y.name, values) if library == "polars" else values


def _library(table: Any) -> str:
    """Which library a frame or series is of."""
    package = type(table).__module__.partition(".")[0]
    is_table = hasattr(table, "columns") or hasattr(table, "to_frame")
    return package if is_table and package in LIBRARIES else ""
