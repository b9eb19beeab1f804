"""Reading the user's table: CSV or Parquet, from a file or standard input. Every refusal is one line that says what to
do, and names the column, row and value where there is one. Rows are counted from 1 below the header."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from biasgp._typing import Array, Mask
from biasgp.data.column import MISSING, UNKNOWN, Column, Format, Manner
from biasgp.data.csv_text import is_value, read_cells
from biasgp.data.numbers import decimal_mark
from biasgp.data.parquet import read_parquet
from biasgp.data.refusal import TableError, nearest
from biasgp.data.refusal import clip as _clip
from biasgp.data.times import Times

__all__ = ["Format", "Table", "TableError", "nearest", "read_table"]


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

    @property
    def columns(self) -> list[str]:
        return list(self.cells.columns)

    def __len__(self) -> int:
        return len(self.cells)

    def reading(self, name: str) -> Column:
        """A column that must be there, with what it holds."""
        if name not in self._read:
            if name not in self.cells.columns:
                raise TableError(f"{self.name} has no column {name!r}. {nearest(name, self.columns)}")
            usual = self.usual.get(name, UNKNOWN)
            manner = replace(self._manner, usual=usual) if usual != UNKNOWN else self._manner
            self._read[name] = Column(name, self.cells[name], manner)
        return self._read[name]

    @cached_property
    def _manner(self) -> Manner:
        return Manner(self.na, self.given, elsewhere=lambda: self._common_decimal)

    @cached_property
    def _common_decimal(self) -> str:
        """The decimal mark that all columns agree on that show one; "" where there is none."""
        marks = {self.reading(name).evidence for name in self.columns} - {""}
        return marks.pop() if len(marks) == 1 else ""

    def column(self, name: str) -> pd.Series:
        """The cells of a column that must be there."""
        return self.reading(name).cells

    def missing(self, name: str) -> Mask:
        """Which cells of a column hold nothing, or a number or word that stands for nothing."""
        return self.reading(name).missing

    def numbers(self, name: str) -> Array:
        """A column as numbers, NaN where missing."""
        return self.reading(name).checked_numbers()

    def times(self, name: str) -> Times:
        """A column of times."""
        return self.reading(name).checked_times()

    def kind(self, name: str) -> str:
        """ "time", "clock" (of day), "number", "text" or "empty"; "number?" and "time?" look like it but are not."""
        return self.reading(name).kind

    def formats(self, names: Iterable[str]) -> dict[str, Format]:
        """How columns were read, so that other tables of the same origin are read alike."""
        found = {name: self.reading(name).format for name in names if name in self.cells.columns}
        return {name: form for name, form in found.items() if form != UNKNOWN}

    def part(self, name: str, rows: np.ndarray, columns: Iterable[str]) -> Table:
        """Some rows under a name of their own, read as these columns were read in the whole table."""
        cells = self.cells.iloc[rows].reset_index(drop=True)
        return replace(self, name=name, cells=cells, usual={**self.usual, **self.formats(columns)})

    def rows_where(self, expression: str) -> Mask:
        """Rows for which a condition on the columns holds; `biasgp.data.where` describes its language."""
        # Imported here, as that module needs this one.
        from biasgp.data.where import rows_where

        return rows_where(self, expression)


def read_table(
    source: str | Path,
    *,
    sep: str | None = None,
    encoding: str | None = None,
    na: Sequence[str] = (),
    decimal: str | None = None,
    day_first: bool | None = None,
    header: bool | None = None,
) -> Table:
    """Read a table from a file, or from standard input with "-". What is left out is found from the cells."""
    given = Format(_decimal(decimal), day_first)
    name = "standard input" if str(source) == "-" else Path(source).name
    data = sys.stdin.buffer.read() if str(source) == "-" else _bytes_of(Path(source))
    if not data.strip():
        raise TableError(f"{name} is empty. Give a table with a header line and a row for each reading.")
    if data[:4] == b"PAR1":
        table = Table(name, read_parquet(data, name), tuple(na), given)
    else:
        found = read_cells(data, name, sep, encoding, header)
        table = Table(name, found.frame, tuple(na), given, nameless=found.nameless)
        if header is None:
            _refuse_reading_as_header(table)
    if len(table) == 0:
        raise TableError(f"{name} has a header but no rows.")
    return table


def _decimal(name: str | None) -> str:
    if name is None:
        return ""
    mark = decimal_mark(name)
    if mark is None:
        raise TableError(f"--decimal must be point or comma, got {name!r}.")
    return mark


def _refuse_reading_as_header(table: Table) -> None:
    """Refuse a first line that reads like the rows below it: each name over numbers or times is itself one."""
    values = 0
    for name in table.columns:
        if name in table.nameless or name.lower() in MISSING or table.kind(name) not in ("number", "time", "clock"):
            continue
        if not is_value(name):
            return
        values += 1
    if values:
        shown = ", ".join(repr(_clip(name, 20)) for name in table.columns[:3])
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
