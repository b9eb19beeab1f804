"""Cells of a table that can be sorted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import SupportsFloat


@dataclass(frozen=True)
class Cell:
    """What is read, what it is sorted by where that is a number ("" for a missing one), and where it leads."""

    text: str
    sort: str | None = None
    href: str = ""


def number_cell(value: SupportsFloat | None, form: str) -> Cell:
    """A number in a format, or a dash for none."""
    number = math.nan if value is None else float(value)
    return Cell(form.format(number), f"{number:.7g}") if math.isfinite(number) else Cell("–", "")
