"""What was understood of a table, to be shown and corrected: columns and their roles, times, marks, separators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from biasgp.app.loaded import Loaded
from biasgp.app.options import on_page
from biasgp.data.columns import Feature, unit_of
from biasgp.data.numbers import WORDS
from biasgp.data.table import Table
from biasgp.messages import clip, duration

SHOWN_ROWS, LONGEST_CELL = 20, 200
"""Of the preview."""
MOST_MARKS = 10
KINDS = {
    "text": "text",
    "empty": "empty",
    "clock": "a time of day",
    "number": "one value only, or mostly missing",
    "time": "a second column of times",
}
"""Why a column is not used, by what it holds."""


def understood(loaded: Loaded) -> dict[str, Any] | None:
    """For the page; None where the table cannot be read."""
    table, readings = loaded.table, loaded.readings
    if table is None or readings is None:
        return None
    origin = table.origin
    used = [readings.target, *(name for feature in readings.features for name in feature.columns)]
    formats = table.formats(used)
    decimals = [WORDS[form.decimal] for form in formats.values() if form.decimal]
    days = [form.day_first for form in formats.values() if form.day_first is not None]
    return {
        "target": readings.target,
        "unit": unit_of(readings.target),
        "features": [_feature(table, feature) for feature in readings.features],
        "unused": [{"name": name, "why": _why_not(loaded, name)} for name in table.columns if name not in used],
        "decimal": max(set(decimals), key=decimals.count) if decimals else None,
        "separator": None if origin is None else origin.sep or None,
        "encoding": None if origin is None else origin.encoding or None,
        "day_first": days[0] if days else None,
        "missing_marks": _marks(loaded, table, used),
        "times": _times(loaded),
        "rows_used": int(readings.kept.sum()),
        "left_out": [{"why": why, "rows": rows} for why, rows in readings.left_out],
        # Sensors of a fleet read at the same times, which is nothing wrong with a clock.
        "notes": [on_page(note) for note in readings.notes if not (loaded.groups and note in readings.clock.notes)],
    }


def preview(table: Table) -> dict[str, Any]:
    """The first rows, as they came."""
    head = table.cells.head(SHOWN_ROWS)
    cells = [
        ["" if pd.isna(cell) else clip(str(cell), LONGEST_CELL) for cell in row] for row in head.itertuples(index=False)
    ]
    return {"columns": table.columns, "rows": cells}


def _feature(table: Table, feature: Feature) -> dict[str, Any]:
    column = table.column(feature.columns[0])
    known = np.flatnonzero(~column.missing)
    example = " ".join(str(table.cells[name].iloc[known[0]]) for name in feature.columns) if len(known) else ""
    return {
        "name": feature.name,
        "columns": list(feature.columns),
        "role": "time" if feature.is_time else "number",
        "unit": unit_of(feature.name),
        "example": clip(example),
    }


def _why_not(loaded: Loaded, name: str) -> str:
    assert loaded.table is not None
    if name == loaded.options.by:
        return "it names the sensors"
    if loaded.options.features:
        return "not chosen"
    column = loaded.table.column(name)
    return column.trouble or KINDS.get(column.kind, "not chosen")


def _marks(loaded: Loaded, table: Table, used: list[str]) -> list[str]:
    """Words that stand for nothing: those given, and those found."""
    found = list(loaded.options.na)
    for name in used:
        column = table.column(name)
        cells = column.cells[column.missing].dropna()
        texts = cells.astype(str).str.strip().unique() if len(cells) else []
        found += [clip(text, 20) for text in texts if text]
    return list(dict.fromkeys(found))[:MOST_MARKS]


def _times(loaded: Loaded) -> dict[str, Any] | None:
    """First and last time, and the usual step between two."""
    assert loaded.readings is not None
    feature = next((each for each in loaded.readings.features if each.is_time), None)
    rows = np.flatnonzero(loaded.readings.kept)
    if feature is None or not len(rows):
        return None
    values = loaded.axis.values[rows]
    ends = loaded.axis.places(rows[[values.argmin(), values.argmax()]])
    steps = np.diff(np.unique(values))
    step = duration(float(np.median(steps)) / 3.6e6) if len(steps) else ""
    hours, minutes = divmod(round(abs(feature.offset_hours) * 60.0), 60)
    zone = f"UTC{'-' if feature.offset_hours < 0 else '+'}{hours:02d}:{minutes:02d}" if feature.zoned else ""
    return {"column": feature.name, "first": ends[0], "last": ends[1], "step": step, "zone": zone}
