"""Columns of labels in X, which are computed with as codes: those that a kernel names with `Same`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from biasgp._typing import Array
from biasgp.estimators.times import as_table, replaced
from biasgp.kernels import Column

_SHOWN = 12
"""Labels that a refusal lists."""
_NONE = -1.0
"""The code of what has no error of its own: the reference, and f itself."""


@dataclass(frozen=True)
class CategoryColumn:
    """A column of X that holds labels.

    Attributes
    ----------
    index : int
        Which column it is.
    labels : tuple of str
        The labels of fit, in order. The code of each is its place among those that are not the reference.
    reference : str or None
        The label that has no error of its own.
    """

    index: int
    labels: tuple[str, ...]
    reference: str | None = None

    def codes(self, texts: Sequence[str]) -> Array:
        """−1 for the reference; labels that were not in fit have a code of their own, after the others."""
        own = [label for label in self.labels if label != self.reference]
        places = {label: float(code) for code, label in enumerate(own)}
        if self.reference is not None:
            places[self.reference] = _NONE
        return np.array([places.get(text, float(len(own))) for text in texts])


@dataclass(frozen=True)
class Categories:
    """All columns of labels of a fit."""

    columns: tuple[CategoryColumn, ...]

    @classmethod
    def of(cls, X: Any, columns: Sequence[Column], reference: str | None) -> tuple[Any, Categories]:
        """X of a fit with labels as codes, and the columns that hold them; `reference` is a label of one of them."""
        if not columns:
            if reference is not None:
                raise ValueError(
                    f"reference={reference!r} names a sensor, but no kernel says which column that is: use Same, as in "
                    "Matern32() + Same('sensor') * Matern32()."
                )
            return X, cls(())
        table = _table(X)
        names = _names(table)
        found = {}
        for column in columns:
            j = _place(column, table.shape[1], names)
            texts = _texts(table, j, names)
            found[CategoryColumn(j, tuple(sorted(set(texts))))] = texts
        of = _holds_reference(list(found), reference, names)
        told = {CategoryColumn(c.index, c.labels, reference if c is of else None): texts for c, texts in found.items()}
        return replaced(table, {c.index: c.codes(texts) for c, texts in told.items()}), cls(tuple(told))

    def coded(self, X: Any, *, shared: bool) -> Any:
        """X with the codes of the fit; with `shared`, at no label, where f is what all of them share."""
        if not self.columns:
            return X
        table = _table(X)
        names = _names(table)
        if any(column.index >= table.shape[1] for column in self.columns):
            return X  # its width is refused later on
        codes = {
            column.index: np.full(len(table), _NONE) if shared else column.codes(_texts(table, column.index, names))
            for column in self.columns
        }
        return replaced(table, codes)

    def at_no_label(self, X: Array) -> Array:
        """Coded points where f is what all labels share."""
        X = X.copy()
        X[:, [column.index for column in self.columns]] = _NONE
        return X

    def series(self, X: Array) -> Any:
        """A number for each sensor at coded points, −1 for the reference; None where there are no labels."""
        if not self.columns:
            return None
        codes = X[:, [column.index for column in self.columns]]
        series = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)
        referred = [k for k, column in enumerate(self.columns) if column.reference is not None]
        return np.where((codes[:, referred] < 0.0).any(axis=1), -1, series)

    def sensor_at(self, row: Array) -> str:
        """The labels of a coded point that was in fit."""
        found = []
        for column in self.columns:
            code = int(row[column.index])
            own = [label for label in column.labels if label != column.reference]
            found.append(own[code] if code >= 0 else str(column.reference))
        return ", ".join(found)


def _table(X: Any) -> Any:
    """A frame, or an array of two dimensions."""
    table = as_table(X)
    table = np.asarray(X) if table is None else table
    if table.ndim != 2 if isinstance(table, np.ndarray) else False:
        raise ValueError(f"X must have rows and columns, of which one holds labels; got {table.ndim} dimensions.")
    return table


def _names(table: Any) -> list[str] | None:
    return [str(name) for name in table.columns] if hasattr(table, "columns") else None


def _place(column: Column, width: int, names: Sequence[str] | None) -> int:
    """The index of a column that Same names."""
    if isinstance(column, str):
        if names is None or column not in names:
            known = "X has no column names; use an index" if names is None else f"X has {', '.join(map(repr, names))}"
            raise ValueError(f"Same({column!r}) asks for a column that is not there: {known}.")
        return list(names).index(column)
    if not -width <= column < width:
        raise ValueError(f"Same({column}) asks for a column that is not there: X has {width} columns.")
    return int(column) % width


def _texts(table: Any, j: int, names: Sequence[str] | None) -> list[str]:
    """Labels as text; one that is missing is refused."""
    column = table.iloc[:, j] if hasattr(table, "iloc") else table[:, j]
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    texts = [_text(value) for value in values]
    if "" in texts:
        row, more = texts.index(""), texts.count("") - 1
        raise ValueError(
            f"X, column {j if names is None else repr(names[j])}, has no label at row {row}"
            f"{f' (and {more} more rows)' if more else ''}. Drop these rows or fill them in first."
        )
    return texts


def _text(value: Any) -> str:
    """A label as text, the same for 3 and 3.0; empty where it is missing."""
    if isinstance(value, float | np.floating):
        value = int(value) if np.isfinite(value) and value == int(value) else value
    text = str(value).strip()
    return "" if value is None or text in ("nan", "NaN", "NaT", "<NA>") else text


def _holds_reference(
    found: Sequence[CategoryColumn], reference: str | None, names: Sequence[str] | None
) -> CategoryColumn | None:
    """The one column that has the label of the reference."""
    if reference is None:
        return None
    text = _text(reference)
    having = [column for column in found if text in column.labels]
    if len(having) == 1:
        return having[0]
    if having:
        where = " and ".join(repr(column.index if names is None else names[column.index]) for column in having)
        raise ValueError(f"reference={reference!r} is a label of the columns {where}: rename it in one of them.")
    labels = [repr(label) for column in found for label in column.labels]
    more = " and more" if len(labels) > _SHOWN else ""
    raise ValueError(f"reference={reference!r} is no label in X: there is {', '.join(labels[:_SHOWN])}{more}.")
