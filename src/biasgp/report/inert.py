"""Tables that a spreadsheet may open: text in them is never run as a formula."""

from __future__ import annotations

import re

import pandas as pd

FORMULA = re.compile(r"^[=+\-@\t\r\n＝＋－＠]")
NUMBER_LIKE = re.compile(r"^[+-]?[\d.,\s:eE%+-]*$")


def inert(frame: pd.DataFrame) -> pd.DataFrame:
    """The same table, with an apostrophe before text that a spreadsheet would run as a formula; in the header too."""
    tamed = frame.copy(deep=False)
    for name, cells in frame.items():
        if pd.api.types.is_string_dtype(cells) or pd.api.types.is_object_dtype(cells):
            tamed[name] = cells.map(lambda cell: _inert(cell) if isinstance(cell, str) else cell)
    tamed.columns = [_inert(str(name)) for name in frame.columns]
    return tamed


def _inert(cell: str) -> str:
    # -3.2, +5 and 10-03-2004 are no formulas, and must stay numbers.
    risky = FORMULA.match(cell) and (cell[0] in "=@＝＋－＠\t\r\n" or not NUMBER_LIKE.match(cell))
    return f"'{cell}" if risky else cell
