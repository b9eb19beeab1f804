"""The feature in whose order biases may last, and the times at which somebody serviced the sensor."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from biasgp._typing import Array
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


def serviced(events: Table, table: Table, features: Sequence[Feature]) -> Array:
    """Values of the ordering feature in a table of events: in the columns of its name, else in the first column."""
    values, column = _values(events, table, features)
    values = values[np.isfinite(values)]
    if not len(values):
        name = features[needed_order(features)].name
        raise TableError(f"{events.name}: column {column!r} is empty. It should hold values of {name!r}.")
    return values


def serviced_by_group(
    events: Table, table: Table, features: Sequence[Feature], by: str, groups: Sequence[str]
) -> dict[str, Table]:
    """The events of each group that has some, from a table of events whose column `by` names the group of each.

    What cannot be read, and a group that is not among those of the table, is refused.
    """
    column = events.column(by)
    if len(events.columns) == 1:
        raise TableError(f"{events.name} has the column {by!r} only. It should hold the times of the events too.")
    rest = replace(events, cells=events.cells.drop(columns=[by]))
    times = list(_columns(rest, features[needed_order(features)]))
    rest = replace(rest, cells=rest.cells[times], usual=_alike(rest, table, features))
    serviced(rest, table, features)
    known = np.isfinite(_values(rest, table, features)[0])
    nameless = np.flatnonzero(known & column.missing)
    if len(nameless):
        raise TableError(f"{events.name}: Column {by!r}, row {nameless[0] + 1}: an event without a group. Name it.")
    names = np.array([str(name) for name in column.cells], dtype=object)
    for row in np.flatnonzero(known):
        if names[row] not in groups:
            close = difflib.get_close_matches(names[row], groups, n=1)
            more = " and more" if len(groups) > SHOWN_GROUPS else ""
            there = ", ".join(repr(name) for name in groups[:SHOWN_GROUPS])
            hint = f"Did you mean {close[0]!r}?" if close else f"There is {there}{more}."
            raise TableError(
                f"{events.name}: Column {by!r}, row {row + 1}: the table has no group {names[row]!r}. {hint}"
            )
    found = {name: np.flatnonzero(known & (names == name)) for name in groups}
    return {name: rest.part(events.name, rows, times) for name, rows in found.items() if len(rows)}


def _values(events: Table, table: Table, features: Sequence[Feature]) -> tuple[Array, str]:
    """Values of the ordering feature for every event, NaN where there is none, and the column that has them."""
    feature = features[needed_order(features)]
    columns = _columns(events, feature)
    try:
        read = replace(events, usual={**_alike(events, table, features), **events.usual})
        return replace(feature, columns=columns).values(read), columns[0]
    except TableError as error:
        raise TableError(f"{events.name}: {error}") from error


def _columns(events: Table, feature: Feature) -> tuple[str, ...]:
    return feature.columns if set(feature.columns) <= set(events.columns) else (events.columns[0],)


def _alike(events: Table, table: Table, features: Sequence[Feature]) -> dict[str, Format]:
    """How the columns of times are written in the table of readings, where the cells of the events do not tell."""
    feature = features[needed_order(features)]
    columns = _columns(events, feature)
    return {name: table.column(theirs).format for name, theirs in zip(columns, feature.columns, strict=False)}
