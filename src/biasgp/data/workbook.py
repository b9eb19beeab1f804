"""Excel workbooks to cells: the header and units found as in a CSV file, columns of numbers and of times typed."""

from __future__ import annotations

import datetime
import io
import warnings
from typing import Any

import pandas as pd

from biasgp.data.csv_text import Cells, named_columns, unit_names
from biasgp.data.layout import COMMENT, LOOKED_AT, Said, find_in_rows
from biasgp.data.sources import Content
from biasgp.messages import TableError, clip

MOST_CELLS = 50_000_000
"""Of a sheet; a workbook can say that it has 17,179,869,184."""
_NUMBERS = (int, float)


def read_workbook(source: Content, sheet: str | None, said: Said) -> Cells:
    """The cells of a sheet: the one named, or the only one that holds anything."""
    try:
        import openpyxl
    except ImportError as error:
        raise TableError(
            f"{source.name} is an Excel workbook, which needs more: pip install 'biasgp[excel]'."
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and extensions that it passes over
            book = openpyxl.load_workbook(io.BytesIO(source.data), read_only=True, data_only=True)
            title, rows = _sheet(book, sheet, source.name)
    except TableError:
        raise
    except Exception as error:  # openpyxl has no error of its own for a damaged file
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise TableError(f"{source.name} is not a whole workbook ({clip(reason, 120)}). Save it again.") from None
    return _cells(rows, said, f"{source.name}, sheet {title!r}")


def _sheet(book: Any, sheet: str | None, name: str) -> tuple[str, list[tuple[Any, ...]]]:
    """The title and the rows of the sheet that is meant."""
    titles = [each.title for each in book.worksheets]
    if sheet is not None:
        if sheet not in titles:
            raise TableError(
                f"{name} has no sheet {sheet!r}. There is {', '.join(map(repr, titles[:12]))}: --sheet NAME."
            )
        return sheet, _rows(book[sheet], name)
    full = [(each.title, rows) for each in book.worksheets if len(rows := _rows(each, name)) > 1]
    if len(full) > 1:
        shown = ", ".join(repr(title) for title, _ in full[:12])
        raise TableError(f"{name} has {len(full)} sheets with rows: {shown}. Say which with --sheet NAME.")
    if not full:
        raise TableError(f"{name} is empty. Give a table with a header line and a row for each reading.")
    return full[0]


def _rows(sheet: Any, name: str) -> list[tuple[Any, ...]]:
    """Its rows, with None for empty cells; empty rows stay, so that lines can be counted."""
    found, cells = [], 0
    sheet.reset_dimensions()  # what the file says of its size may be wrong
    for row in sheet.iter_rows(values_only=True):
        cells += len(row)
        if cells > MOST_CELLS:
            raise TableError(f"{name} has more than {MOST_CELLS:,} cells in a sheet. Save it as CSV or Parquet.")
        found.append(row)
    while found and not any(cell is not None for cell in found[-1]):
        found.pop()
    return found


def _cells(rows: list[tuple[Any, ...]], said: Said, name: str) -> Cells:
    width = max(map(len, rows))
    full = [
        (i, row + (None,) * (width - len(row))) for i, row in enumerate(rows) if any(cell is not None for cell in row)
    ]
    shown = [(i, [_text(cell) or "" for cell in row]) for i, row in full[:LOOKED_AT]]
    layout = find_in_rows(shown, said, name)
    header = next(row for i, row in shown if i == layout.header)
    body = [
        row
        for i, row in full
        if i not in layout.units and (i > layout.header or (said.header is False and i == layout.header))
    ]
    body = [
        row
        for row in body
        if not (isinstance(row[0], str) and row[0].startswith(COMMENT) and row.count(None) == width - 1)
    ]
    columns, nameless = named_columns(header if said.header is not False else [""] * width, name)
    series = {column: _typed([row[j] for row in body]) for j, column in enumerate(columns)}
    hollow = {column for column in nameless if said.header is not False and series[column].isna().all()}
    frame = pd.DataFrame({column: cells for column, cells in series.items() if column not in hollow})
    units = next(([*row] for i, row in shown if i in layout.units), [])
    found = {column: unit for column, unit in unit_names(columns, units).items() if column not in hollow}
    own = frozenset() if said.header is False else nameless - hollow
    return Cells(frame, own, found, tuple(layout.notes(name)))


def _typed(cells: list[Any]) -> pd.Series:
    """Numbers and times where there is nothing else, and text otherwise."""
    known = [cell for cell in cells if cell is not None]
    if known and all(isinstance(cell, _NUMBERS) and not isinstance(cell, bool) for cell in known):
        return pd.Series(cells, dtype="Int64" if all(isinstance(cell, int) for cell in known) else float)
    if known and all(isinstance(cell, datetime.datetime) for cell in known):
        return pd.Series(cells, dtype="datetime64[us]")
    return pd.Series([_text(cell) for cell in cells], dtype=object)


def _text(cell: Any) -> str | None:
    """A cell as it would be in a CSV file."""
    if isinstance(cell, datetime.datetime | datetime.date | datetime.time):
        return cell.isoformat()
    return None if cell is None else repr(cell) if isinstance(cell, float) else str(cell)
