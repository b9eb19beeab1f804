"""Reading the user's table: CSV or Parquet, from a file or standard input. Every refusal is one line that says what to
do, and names the column, row and value where there is one. Rows are counted from 1 below the header."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biasgp._typing import Mask
from biasgp.data.column import MISSING, UNKNOWN, Column, Format
from biasgp.data.csv_text import is_value, read_cells
from biasgp.data.numbers import COMMA, POINT
from biasgp.data.parquet import read_parquet
from biasgp.messages import TableError, clip

__all__ = ["Format", "ReadOptions", "Table", "TableError"]

DECIMALS = {"point": POINT, "dot": POINT, "period": POINT, ".": POINT, "comma": COMMA, ",": COMMA}
SHOWN_COLUMNS = 12
"""Columns that a refusal lists."""
DIGITS = 6
"""Of the numbers in files: what is beyond says nothing, and makes files large."""


@dataclass(frozen=True)
class ReadOptions:
    """What the user says of a table, as by the options of the command; what is left out is found from the cells."""

    sep: str | None = None
    encoding: str | None = None
    na: tuple[str, ...] = ()
    decimal: str | None = None
    day_first: bool | None = None
    header: bool | None = None

    @property
    def given(self) -> Format:
        """What was said of how cells are written."""
        decimal = "" if self.decimal is None else DECIMALS.get(self.decimal.strip().lower())
        if decimal is None:
            raise TableError(f"--decimal must be point or comma, got {self.decimal!r}.")
        return Format(decimal, self.day_first)


@dataclass(frozen=True)
class Table:
    """Cells as they came (text from CSV, typed from Parquet), with what counts as missing and how they are written.

    `given` is what the user said of all columns; `usual` is how a column of this name was read before, which decides
    where its cells do not. Each column is read once, when it is first asked for.
    """

    name: str
    cells: pd.DataFrame
    na: tuple[str, ...] = ()
    given: Format = UNKNOWN
    usual: Mapping[str, Format] = field(default_factory=dict)
    nameless: frozenset[str] = frozenset()
    _read: dict[str, Column] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def read(cls, source: str | Path, options: ReadOptions | None = None) -> Table:
        """Read a table from a file, or from standard input with "-"."""
        options = options or ReadOptions()
        given = options.given
        name = "standard input" if str(source) == "-" else Path(source).name
        data = sys.stdin.buffer.read() if str(source) == "-" else _bytes_of(Path(source))
        if not data.strip():
            raise TableError(f"{name} is empty. Give a table with a header line and a row for each reading.")
        if data[:4] == b"PAR1":
            table = cls(name, read_parquet(data, name), options.na, given)
        else:
            cells, nameless = read_cells(data, name, options.sep, options.encoding, options.header)
            table = cls(name, cells, options.na, given, nameless=nameless)
            if options.header is None:
                _refuse_reading_as_header(table)
        if len(table) == 0:
            raise TableError(f"{name} has a header but no rows.")
        return table

    @property
    def columns(self) -> list[str]:
        return list(self.cells.columns)

    def __len__(self) -> int:
        return len(self.cells)

    def column(self, name: str) -> Column:
        """A column that must be there, with what it holds."""
        if name not in self._read:
            if name not in self.cells.columns:
                raise TableError(f"{self.name} has no column {name!r}. {self.nearest(name)}")
            usual = self.usual.get(name, UNKNOWN)
            self._read[name] = Column(
                name, self.cells[name], self.na, self.given, usual, elsewhere=lambda: self._common_decimal
            )
        return self._read[name]

    @cached_property
    def _common_decimal(self) -> str:
        """The decimal mark that all columns agree on that show one; "" where there is none."""
        marks = {self.column(name).evidence for name in self.columns} - {""}
        return marks.pop() if len(marks) == 1 else ""

    def nearest(self, name: str) -> str:
        """A remark that names the column that was probably meant, or lists those that there are."""
        lowered = {other.lower(): other for other in self.columns}
        close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
        if close:
            return f"Did you mean {lowered[close[0]]!r}?"
        shown = ", ".join(repr(clip(other)) for other in self.columns[:SHOWN_COLUMNS])
        return f"There is {shown}{' and more' if len(self.columns) > SHOWN_COLUMNS else ''}."

    def formats(self, names: Iterable[str]) -> dict[str, Format]:
        """How columns were read, so that other tables of the same origin are read alike."""
        found = {name: self.column(name).format for name in names if name in self.cells.columns}
        return {name: form for name, form in found.items() if form != UNKNOWN}

    def part(self, name: str, rows: np.ndarray, columns: Iterable[str]) -> Table:
        """Some rows under a name of their own, read as these columns were read in the whole table."""
        cells = self.cells.iloc[rows].reset_index(drop=True)
        return replace(self, name=name, cells=cells, usual={**self.usual, **self.formats(columns)})

    def with_columns(self, columns: dict[str, Any]) -> pd.DataFrame:
        """The cells with more columns; a name that is taken gets biasgp_ before it."""
        taken = set(self.columns)
        renamed = {f"biasgp_{name}" if name in taken else name: values for name, values in columns.items()}
        return self.cells.assign(**{name: _few_digits(values) for name, values in renamed.items()})

    def rows_where(self, expression: str) -> Mask:
        """Rows for which a condition on the columns holds; `biasgp.data.where` describes its language."""
        # Imported here, as that module needs this one.
        from biasgp.data.where import rows_where

        return rows_where(self, expression)


def _few_digits(values: Any) -> Any:
    """Numbers to a few digits; other values as they are."""
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return array
    digits = DIGITS - 1 - np.floor(np.log10(np.where((array == 0.0) | ~np.isfinite(array), 1.0, np.abs(array))))
    scale = 10.0 ** np.clip(digits, -300, 300)
    return np.round(array * scale) / scale


def _refuse_reading_as_header(table: Table) -> None:
    """Refuse a first line that reads like the rows below it: each name over numbers or times is itself one."""

    def holds_values(name: str) -> bool:
        return table.column(name).kind in ("number", "time", "clock")

    names = [name for name in table.columns if name not in table.nameless and name.lower() not in MISSING]
    like_values = list(filter(is_value, names))
    if any(map(holds_values, like_values)) and not any(map(holds_values, set(names) - set(like_values))):
        shown = ", ".join(repr(clip(name, 20)) for name in table.columns[:3])
        raise TableError(
            f"The first line of {table.name} reads like the rows below it ({shown}). "
            "Say --no-header if it is a reading, --header if these are the names of the columns."
        )


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        folder = path.parent
        there = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        close = difflib.get_close_matches(path.name, there, n=1, cutoff=0.6)
        hint = f"Did you mean {str(folder / close[0])!r}?" if close else "Check the name and the folder."
        raise TableError(f"There is no file {str(path)!r}. {hint}") from None
    except IsADirectoryError:
        raise TableError(f"{str(path)!r} is a folder. Give the file in it.") from None
    except OSError as error:
        raise TableError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from None
