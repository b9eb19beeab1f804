"""The feature in whose order biases may last, and the times at which somebody serviced the sensor."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from biasgp._typing import Array, Mask
from biasgp.data.columns import Feature
from biasgp.data.table import Format, Table, TableError
from biasgp.messages import WrongUseError

SHOWN_GROUPS = 10
"""Groups that a refusal lists."""


def order_column(features: Sequence[Feature]) -> int | None:
    """The feature in whose order biases may last: the first time, else the only one there is, else none."""
    times = [j for j, feature in enumerate(features) if feature.is_time]
    return times[0] if times else 0 if len(features) == 1 else None


def needed_order(features: Sequence[Feature]) -> int:
    """The same where there must be one."""
    column = order_column(features)
    if column is None:
        raise WrongUseError(
            "--episodes needs an order of the readings, but none of the features is a time "
            f"({', '.join(feature.name for feature in features)}). Name a column of times in --features, or one column "
            "only."
        )
    return column


@dataclass(frozen=True)
class EventTable:
    """A table of events: when somebody serviced the sensor whose readings, by these features, are in another table."""

    events: Table
    readings: Table
    features: Sequence[Feature]

    @property
    def _feature(self) -> Feature:
        """The one that orders the readings."""
        return self.features[needed_order(self.features)]

    @property
    def _columns(self) -> tuple[str, ...]:
        names = self._feature.columns
        return names if set(names) <= set(self.events.columns) else (self.events.columns[0],)

    def values(self) -> Array:
        """Values of the ordering feature at the events: in the columns of its name, else in the first column."""
        values = self.every_value()
        values = values[np.isfinite(values)]
        if not len(values):
            column, name = self._columns[0], self._feature.name
            raise TableError(f"{self.events.name}: column {column!r} is empty. It should hold values of {name!r}.")
        return values

    def by_group(self, by: str, groups: Sequence[str]) -> dict[str, Table]:
        """The events of each group that has some, where a column `by` names the group of each.

        What cannot be read, and a group that is not among those of the readings, is refused.
        """
        events = self.events
        if len(events.columns) == 1:
            raise TableError(f"{events.name} has the column {by!r} only. It should hold the times of the events too.")
        timed = replace(self, events=replace(events, cells=events.cells.drop(columns=[by])))
        times = list(timed._columns)
        rest = replace(timed.events, cells=timed.events.cells[times], usual=timed._alike)
        timed = replace(timed, events=rest)
        timed.values()
        found = self.rows_by_group(events, by, groups, np.isfinite(timed.every_value()), "an event")
        return {name: rest.part(events.name, rows, times) for name, rows in found.items()}

    @staticmethod
    def rows_by_group(
        table: Table, by: str, groups: Sequence[str], known: Mask, what: str
    ) -> dict[str, NDArray[np.intp]]:
        """The rows (of those that are known to say something) of each group that has some, by the column `by`.

        A row without a group, and a group that is not among those of the readings, is refused.
        """
        column = table.column(by)
        nameless = np.flatnonzero(known & column.missing)
        if len(nameless):
            raise TableError(f"{table.name}: Column {by!r}, row {nameless[0] + 1}: {what} without a group. Name it.")
        names = np.array([str(name) for name in column.cells], dtype=object)
        for row in np.flatnonzero(known):
            if names[row] not in groups:
                close = difflib.get_close_matches(names[row], groups, n=1)
                more = " and more" if len(groups) > SHOWN_GROUPS else ""
                there = ", ".join(repr(name) for name in groups[:SHOWN_GROUPS])
                hint = f"Did you mean {close[0]!r}?" if close else f"There is {there}{more}."
                raise TableError(
                    f"{table.name}: Column {by!r}, row {row + 1}: the table has no group {names[row]!r}. {hint}"
                )
        found = {name: np.flatnonzero(known & (names == name)) for name in groups}
        return {name: rows for name, rows in found.items() if len(rows)}

    def every_value(self) -> Array:
        """Values of the ordering feature for every event, NaN where there is none."""
        try:
            read = replace(self.events, usual={**self._alike, **self.events.usual})
            return replace(self._feature, columns=self._columns).values(read)
        except TableError as error:
            raise TableError(f"{self.events.name}: {error}") from error

    @property
    def _alike(self) -> dict[str, Format]:
        """How the columns of times are written in the table of readings, where the cells of the events do not tell."""
        pairs = zip(self._columns, self._feature.columns, strict=False)
        return {name: self.readings.column(theirs).format for name, theirs in pairs}
