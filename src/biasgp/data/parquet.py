"""Parquet and Feather to cells: every column becomes numbers, times, or text to be read like that of a CSV file."""

from __future__ import annotations

import datetime
import decimal
import io
from typing import Any

import pandas as pd

from biasgp.data.csv_text import refuse_duplicates
from biasgp.data.sources import LIMITS, Content
from biasgp.messages import TableError, clip


def read_columns(source: Content) -> pd.DataFrame:
    """The columns, and the index where it has a name or holds times."""
    import pyarrow as pa

    what, name = source.kind.title(), source.name
    try:
        table = _parquet(source) if source.kind == "parquet" else _feather(source)
        # Where some cells are missing, pandas would make these floating-point numbers, which round large ones.
        exact = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
        frame = table.to_pandas(types_mapper=exact.get)
    except TableError:
        raise
    except Exception as error:  # pyarrow has a dozen types for a damaged file
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise TableError(f"{name} is not a whole {what} file ({clip(reason, 120)}). Write it again.") from error
    names = frame.index.names
    index = frame.index.to_frame(index=False).set_axis(["index" if name is None else name for name in names], axis=1)
    # A level without a name that holds no times is just the numbers of the rows.
    kept = [j for j, name in enumerate(names) if name is not None or index.dtypes.iloc[j].kind == "M"]
    frame = pd.concat([index.iloc[:, kept], frame.reset_index(drop=True)], axis=1)
    frame.columns = [str(column) or f"column {j + 1}" for j, column in enumerate(frame.columns)]
    refuse_duplicates(list(frame.columns), name)
    if frame.shape[1] == 0:
        raise TableError(f"{name} has no columns. Give a table with a column for each quantity.")
    return pd.DataFrame({column: _simple(frame[column]) for column in frame.columns})


def _parquet(source: Content) -> Any:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(io.BytesIO(source.data))
    refuse_duplicates([str(column) for column in file.schema_arrow.names], source.name)
    about = file.metadata
    # A column of one value is a few bytes, whatever its length.
    size = max(sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups)), 8 * about.num_rows)
    LIMITS.refuse(max(size, 8 * about.num_rows * about.num_columns), len(source.data), source.name)
    return file.read()


def _feather(source: Content) -> Any:
    import pyarrow.feather as feather

    table = feather.read_table(io.BytesIO(source.data))
    refuse_duplicates([str(column) for column in table.column_names], source.name)
    return table


def _simple(cells: pd.Series) -> pd.Series:
    """Numbers and times as they are, decimals and dates converted; all else as text."""
    if isinstance(cells.dtype, pd.CategoricalDtype):
        cells = cells.astype(cells.cat.categories.dtype) if cells.notna().all() else cells.astype(object)
    is_text = isinstance(cells.dtype, pd.StringDtype)
    if is_text or pd.api.types.is_numeric_dtype(cells) or pd.api.types.is_datetime64_any_dtype(cells):
        return cells
    known = cells.dropna()
    if len(known) and all(isinstance(cell, decimal.Decimal) for cell in known):
        return cells.map(lambda cell: float("nan") if _absent(cell) else float(cell)).astype(float)
    return cells.map(_text).astype(object)


def _text(cell: Any) -> str | None:
    if _absent(cell):
        return None
    if isinstance(cell, bytes):
        return cell.decode("utf-8", errors="replace")
    if isinstance(cell, datetime.datetime | datetime.date | datetime.time):
        return cell.isoformat()
    return str(cell)


def _absent(cell: Any) -> bool:
    """None and NaN; a list in a cell is something, whatever is in it."""
    return cell is None or (pd.api.types.is_scalar(cell) and bool(pd.isna(cell)))
