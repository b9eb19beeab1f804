"""A table that has grown: verdicts on the rows that are still there go with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from biasgp.app.journal import Judgements, ranges
from biasgp.app.loaded import Loaded

SHOWN = 10
"""Rows that are named one by one."""


@dataclass(frozen=True)
class Carried:
    """What became of the verdicts on a table when another took its place."""

    marks: list[dict[str, Any]]
    """For the journal of the new table: as they were said, of the rows that are there."""
    kept: int
    lost: list[int]
    """Rows of the table before, the first of which is 1."""

    def told(self) -> str:
        """In words; empty where there was nothing to carry."""
        if not self.kept and not self.lost:
            return ""
        words = f"{self.kept:,} verdict{'s were' if self.kept != 1 else ' was'} carried over from the table before"
        if not self.lost:
            return f"{words}: time and reading are unchanged."
        named = ", ".join(map(str, self.lost[:SHOWN])) + (" and more" if len(self.lost) > SHOWN else "")
        several = len(self.lost) > 1
        rows = f"row{'s' if several else ''} {named} of that table"
        why = "time or reading are others now, or the row is gone"
        return f"{words}. {len(self.lost):,} {'were' if several else 'was'} not ({rows}): {why}."


def carried(before: Loaded, judgements: Judgements, now: Loaded) -> Carried:
    """Verdicts on rows of one table, on the rows of another that have the same inputs, sensor and reading.

    Where several rows are alike, the one at the same place is meant, if it is among them, and else none.
    """
    mine, theirs = _keys(before), _keys(now)
    where: dict[Any, list[int]] = {}
    for row, key in enumerate(theirs):
        where.setdefault(key, []).append(row)
    found: dict[int, list[int]] = {}
    lost = []
    for row in judgements.rows.tolist():
        rows = where.get(mine[row], []) if mine[row] is not None else []
        at = row if row in rows else rows[0] if len(rows) == 1 else None
        if at is None:
            lost.append(row + 1)
        else:
            found.setdefault(int(judgements.source[row]), []).append(at)
    marks = [
        {name: judgements.marks[source][name] for name in ("verdict", "why", "who", "when")}
        | {"rows": ranges(np.array(rows, dtype=np.intp))}
        for source, rows in sorted(found.items())
    ]
    return Carried(marks, sum(map(len, found.values())), lost)


def _keys(loaded: Loaded) -> list[Any]:
    """What each row is known by; None for those that are not used."""
    readings = loaded.readings
    assert readings is not None
    # Times in X count from the first of the table, which may be another one now.
    inputs = [
        feature.instants(values).astype("M8[ms]").astype(np.int64) if feature.is_time else values
        for feature, values in zip(readings.features, readings.X.T, strict=True)
    ]
    values = np.column_stack([*inputs, readings.y])
    sensors = loaded.sensor_of
    return [
        (*line, sensors[row]) if usable else None
        for row, (line, usable) in enumerate(zip(values.tolist(), loaded.usable.tolist(), strict=True))
    ]
