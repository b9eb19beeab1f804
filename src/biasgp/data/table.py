"""Reading the user's table: CSV or Parquet, from a file or standard input. Every refusal is one line that says what to
do, and names the column, row and value where there is one. Rows are counted from 1 below the header."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biasgp._typing import Mask
from biasgp.data.column import UNKNOWN, Column, Format
from biasgp.data.csv_text import Cells, codec_of, read_cells
from biasgp.data.dataset import read_dataset
from biasgp.data.layout import Said, is_value
from biasgp.data.numbers import COMMA, MISSING, POINT
from biasgp.data.parquet import read_columns
from biasgp.data.sources import Content, expanded, open_source
from biasgp.data.workbook import read_workbook
from biasgp.messages import TableError, clip

__all__ = ["Format", "ReadOptions", "Table", "TableError"]

_DECIMALS = {"point": POINT, "dot": POINT, "period": POINT, ".": POINT, "comma": COMMA, ",": COMMA}
_SHOWN_COLUMNS = 12
"""Columns that a refusal lists."""
_SHOWN_FILES = 4
"""Files that a remark names."""
DIGITS = 6
"""Of the numbers in files: what is beyond says nothing, and makes files large."""


@dataclass(frozen=True)
class ReadOptions:
    """What the user says of a table, as by the options of the command; what is left out is found from the cells.

    Examples
    --------
    >>> from biasgp.data.table import ReadOptions
    >>> ReadOptions(sep=";", na=("-999",), decimal="comma", day_first=True).given
    Format(decimal=',', day_first=True, marks=())
    """

    sep: str | None = None
    encoding: str | None = None
    na: tuple[str, ...] = ()
    decimal: str | None = None
    day_first: bool | None = None
    header: bool | None = None
    skip: int | None = None
    units: bool | None = None
    sheet: str | None = None
    marks: bool = True

    @property
    def said(self) -> Said:
        """What was said of where the table begins."""
        return Said(self.skip, self.units, self.header)

    @property
    def given(self) -> Format:
        """What was said of how cells are written."""
        decimal = "" if self.decimal is None else _DECIMALS.get(self.decimal.strip().lower())
        if decimal is None:
            raise TableError(f"--decimal must be point or comma, got {self.decimal!r}.")
        return Format(decimal, self.day_first)


@dataclass(frozen=True)
class Table:
    """Cells as they came (text from CSV, typed from Parquet), with what counts as missing and how they are written.

    `given` is what the user said of all columns; `usual` is how a column of this name was read before, which decides
    where its cells do not. Each column is read once, when it is first asked for.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from biasgp.data.table import ReadOptions, Table
    >>> rows = pd.DataFrame({"time": ["2026-06-01 00:00", "2026-06-01 01:00"], "no2": ["7,5", "8,25"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows.to_csv(f"{folder}/logger.csv", sep=";", index=False)
    ...     table = Table.read(f"{folder}/logger.csv", ReadOptions(decimal="comma"))
    >>> table.columns, table.column("no2").numbers().tolist()
    (['time', 'no2'], [7.5, 8.25])
    """

    name: str
    cells: pd.DataFrame
    na: tuple[str, ...] = ()
    given: Format = UNKNOWN
    usual: Mapping[str, Format] = field(default_factory=dict)
    nameless: frozenset[str] = frozenset()
    units: Mapping[str, str] = field(default_factory=dict)
    """Of columns, where the file says."""
    find_marks: bool = True
    """Whether numbers such as -999 are found to stand for missing readings."""
    notes: tuple[str, ...] = ()
    """What was assumed in reading the file."""
    origin: Origin | None = field(default=None, repr=False, compare=False)
    _read: dict[str, Column] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def read(cls, source: str | Path | Sequence[str | Path], options: ReadOptions | None = None) -> Table:
        """Read a table from a file, from standard input with "-", or from several files one after the other.

        A name may be a pattern such as ``logs/*.csv``.
        """
        options = options or ReadOptions()
        files = expanded([source] if isinstance(source, str | Path) else source)
        tables = [cls._of(open_source(each), options) for each in files]
        for table in tables:
            if len(table) == 0:
                raise TableError(f"{table.name} has a header but no rows.")
        return tables[0] if len(tables) == 1 else _as_one(tables)

    @classmethod
    def _of(cls, source: Content, options: ReadOptions) -> Table:
        """What a file holds, by its kind."""
        if source.kind != "zarr" and not source.data[:1000].strip() and not source.data.strip():
            raise TableError(f"{source.name} is empty. Give a table with a header line and a row for each reading.")
        cells, origin = _cells_of(source, options)
        own: dict[str, Any] = {"nameless": cells.nameless, "units": cells.units, "notes": cells.notes}
        own["find_marks"] = options.marks
        table = cls(source.name, cells.frame, options.na, options.given, origin=origin, **own)
        if source.kind not in ("csv", "excel"):
            return table
        if options.header is None:
            _refuse_reading_as_header(table)
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
                name, self.cells[name], self.na, self.given, usual, lambda: self._common_decimal, self.find_marks
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
        shown = ", ".join(repr(clip(other)) for other in self.columns[:_SHOWN_COLUMNS])
        return f"There is {shown}{' and more' if len(self.columns) > _SHOWN_COLUMNS else ''}."

    def formats(self, names: Iterable[str]) -> dict[str, Format]:
        """How columns were read, so that other tables of the same origin are read alike."""
        found = {name: self.column(name).format for name in names if name in self.cells.columns}
        return {name: form for name, form in found.items() if form != UNKNOWN}

    def part(self, name: str, rows: np.ndarray, columns: Iterable[str]) -> Table:
        """Some rows under a name of their own, read as these columns were read in the whole table."""
        cells = self.cells.iloc[rows].reset_index(drop=True)
        origin = None if self.origin is None else self.origin.of_part()
        return replace(self, name=name, cells=cells, origin=origin, usual={**self.usual, **self.formats(columns)})

    def with_columns(self, columns: dict[str, Any]) -> pd.DataFrame:
        """The cells with more columns; a name that is taken gets ``biasgp_`` before it."""
        taken = set(self.columns)
        renamed = {f"biasgp_{name}" if name in taken else name: values for name, values in columns.items()}
        return self.cells.assign(**{name: _few_digits(values) for name, values in renamed.items()})

    def rows_where(self, expression: str) -> Mask:
        """Rows for which a condition on the columns holds; `biasgp.data.where` describes its language."""
        # Imported here, as that module needs this one.
        from biasgp.data.where import rows_where

        return rows_where(self, expression)


def _as_one(tables: Sequence[Table]) -> Table:
    """Tables of the same columns, one after the other."""
    first = tables[0]
    for other in tables[1:]:
        missing = [name for name in first.columns if name not in other.columns]
        more = [name for name in other.columns if name not in first.columns]
        if missing or more:
            what = f"has no column {missing[0]!r}" if missing else f"has a column {more[0]!r}"
            has = "has one" if missing else "has none"
            raise TableError(f"{other.name} {what}, and {first.name} {has}: files of one record have the same columns.")
    kinds = [table.cells.dtypes.astype(str).to_dict() for table in tables]
    parts = [table.cells[first.columns] for table in tables]
    if any(kind != kinds[0] for kind in kinds):
        parts = [part.astype(object).where(part.notna(), None) for part in parts]
        parts = [part.map(lambda cell: None if cell is None else str(cell)) for part in parts]
    ends = np.cumsum([len(table) for table in tables]).tolist()
    bounds = zip(tables, [0, *ends[:-1]], ends, strict=True)
    places = [f"{table.name} (rows {start + 1:,} to {stop:,})" for table, start, stop in bounds]
    shown = ", ".join(places[:_SHOWN_FILES]) + (" and so on" if len(places) > _SHOWN_FILES else "")
    notes = dict.fromkeys([f"{len(tables)} files as one record: {shown}.", *(n for t in tables for n in t.notes)])
    return replace(
        first,
        name=f"{first.name} and {len(tables) - 1} more",
        cells=pd.concat(parts, ignore_index=True),
        nameless=frozenset.intersection(*(table.nameless for table in tables)),
        notes=tuple(notes),
        origin=None if first.origin is None else first.origin.of_part(),
    )


@dataclass(frozen=True)
class Origin:
    """Where a table came from, so that results can be written in its form."""

    source: Content
    sep: str = ""
    encoding: str = ""
    """Of text, as the separator."""
    dimension: str = ""
    """Along which the variables of a NetCDF file were read."""
    whole: bool = True
    """Whether the table has all rows of the file, and no others."""

    def of_part(self) -> Origin:
        """The same for other rows, without the content of the file, which may be large."""
        return replace(self, whole=False, source=replace(self.source, data=b""))


def _cells_of(source: Content, options: ReadOptions) -> tuple[Cells, Origin]:
    """The cells of a file, by its kind."""
    if source.kind in ("parquet", "feather"):
        return Cells(read_columns(source)), Origin(source)
    if source.kind == "excel":
        return read_workbook(source, options.sheet, options.said), Origin(source)
    if source.kind in ("netcdf", "zarr"):
        cells, dimension = read_dataset(source)
        return cells, Origin(source, dimension=dimension)
    cells = read_cells(source.data, source.name, options.sep, options.encoding, options.said)
    return cells, Origin(source, cells.sep, codec_of(source.data, options.encoding))


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
