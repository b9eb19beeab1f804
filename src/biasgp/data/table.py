"""Reading the user's table: CSV or Parquet, from a file or standard input. Every refusal is one line that says what to
do, and names the column, row and value where there is one. Rows are counted from 1 below the header."""

from __future__ import annotations

import csv
import difflib
import io
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from biasgp._typing import Array, Mask
from biasgp.data.times import NAMED_LIKE_TIME, Times, parse_times, parse_times_of_day, times_from_numbers

SEPARATORS = (",", ";", "\t", "|")
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--", "?", "nil"})
LARGEST = 1e100
"""Squares of larger numbers overflow."""
SAMPLE = 200
MOSTLY = 0.8
"""A column with at least this share of numbers was meant to be numeric."""
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_FOREIGN = ((b"PK\x03\x04", "an Excel workbook or a zip file"), (b"\x1f\x8b", "compressed"), (b"%PDF", "a PDF"))


class TableError(ValueError):
    """The table cannot be used as it is; the message says why and what to do."""


def nearest(name: str, names: Iterable[str]) -> str:
    """A remark that names what was probably meant, or lists what there is."""
    known = list(names)
    lowered = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {lowered[close[0]]!r}?"
    shown = ", ".join(repr(other) for other in known[:12])
    return f"There is {shown}{' and more' if len(known) > 12 else ''}."


@dataclass(frozen=True)
class Table:
    """Cells as they came (text from CSV, typed from Parquet), with what counts as missing."""

    name: str
    cells: pd.DataFrame
    na: tuple[str, ...] = ()
    sep: str = ","

    @property
    def columns(self) -> list[str]:
        return list(self.cells.columns)

    def __len__(self) -> int:
        return len(self.cells)

    def column(self, name: str) -> pd.Series:
        """The cells of a column that must be there."""
        if name not in self.cells.columns:
            raise TableError(f"{self.name} has no column {name!r}. {nearest(name, self.columns)}")
        return self.cells[name]

    def missing(self, name: str) -> Mask:
        """Which cells of a column hold nothing, or a number or word that stands for nothing."""
        cells = self.column(name)
        absent = cells.isna().to_numpy(dtype=bool)
        text = _is_text(cells)
        if text:
            words = MISSING | {mark.strip().lower() for mark in self.na}
            absent = absent | cells.astype(str).str.strip().str.lower().isin(words).to_numpy(dtype=bool)
        marks = [value for value in map(_number_or_nan, self.na) if np.isfinite(value)]
        if marks and (text or pd.api.types.is_numeric_dtype(cells)):
            absent = absent | np.isin(self._read_numbers(cells), marks)
        return np.asarray(absent)

    def numbers(self, name: str) -> Array:
        """A column as numbers, NaN where missing."""
        values, bad = self._numbers(name)
        rows = np.flatnonzero(bad)
        if len(rows):
            raise TableError(self._not_a_number(name, rows))
        rows = np.flatnonzero(np.abs(values) > LARGEST)
        if len(rows):
            value = self.column(name).iloc[rows[0]]
            raise TableError(
                f"Column {name!r}, row {rows[0] + 1}: {value!s} is too large to be a reading. "
                f"Correct it, or treat it as missing with --na {value!s}."
            )
        return values

    def _numbers(self, name: str) -> tuple[Array, Mask]:
        """Numbers with NaN where there is none, and where a cell holds something else."""
        cells, absent = self.column(name), self.missing(name)
        values = self._read_numbers(cells)
        values[absent] = np.nan
        return values, np.isnan(values) & ~absent

    def _read_numbers(self, cells: pd.Series) -> Array:
        if _is_text(cells):
            text = cells.astype(str).str.strip()
            values = _as_float(text)
            if self.sep != "," and np.any(np.isnan(values)):  # 3,14 as in half of Europe
                values = np.where(np.isnan(values), _as_float(text.str.replace(",", ".", regex=False)), values)
            return values
        if pd.api.types.is_numeric_dtype(cells):
            return np.array(cells.to_numpy(dtype=float, na_value=np.nan))
        return np.full(len(cells), np.nan)

    def _not_a_number(self, name: str, rows: np.ndarray) -> str:
        value = str(self.column(name).iloc[rows[0]])
        more = f" (and {len(rows) - 1} more such cells)" if len(rows) > 1 else ""
        return (
            f"Column {name!r}, row {rows[0] + 1}: {_clip(value)!r} is not a number{more}. "
            f"Correct it, or treat it as missing with --na {_quoted(value)}."
        )

    def times(self, name: str) -> Times:
        """A column of times."""
        cells, missing = self.column(name), self.missing(name)
        if not _is_text(cells):
            return self._typed_times(name, cells)
        sample = cells[~missing].head(SAMPLE)
        if len(sample) and not np.isnan(_as_float(sample.astype(str).str.strip())).any():
            return self._typed_times(name, pd.Series(self.numbers(name)))
        found = parse_times(cells, missing)
        rows = np.flatnonzero(found.unreadable)
        if len(rows):
            raise TableError(
                f"Column {name!r}, row {rows[0] + 1}: {_clip(str(cells.iloc[rows[0]]))!r} is not a time that can be "
                "read. Write times as 2005-03-24T13:00."
            )
        if found.without_zone is not None:
            raise TableError(
                f"Column {name!r}, row {found.without_zone + 1}: {cells.iloc[found.without_zone]!r} has no time zone, "
                "but other rows have one. Give all of them a zone, or none."
            )
        return found

    def _typed_times(self, name: str, cells: pd.Series) -> Times:
        if pd.api.types.is_datetime64_any_dtype(cells):
            zoned = cells.dt.tz is not None
            offset = cells.dropna().iloc[0].utcoffset().total_seconds() / 3600.0 if zoned and cells.notna().any() else 0
            values = cells.dt.tz_convert("UTC").dt.tz_localize(None) if zoned else cells
            stamps = values.astype("datetime64[ns]").reset_index(drop=True)
            return Times(stamps, np.zeros(len(cells), dtype=bool), zoned, offset)
        values = times_from_numbers(cells.astype(float)) if pd.api.types.is_numeric_dtype(cells) else None
        if values is None:
            raise TableError(f"Column {name!r} does not hold times that can be read. Write them as 2005-03-24T13:00.")
        return Times(values, np.zeros(len(cells), dtype=bool), note=f"Column {name!r} was read as Unix time or date.")

    def kind(self, name: str) -> str:
        """ "time", "clock" (of day), "number", "text" or "empty"; by the first cells that hold something."""
        cells, missing = self.column(name), self.missing(name)
        shown = cells[~missing]
        if len(shown) == 0:
            return "empty"
        if not _is_text(cells):
            if pd.api.types.is_datetime64_any_dtype(cells):
                return "time"
            if not pd.api.types.is_numeric_dtype(cells):
                return "text"
            return "time" if _stamped(name, shown.astype(float)) else "number"
        head = shown.head(SAMPLE)
        if np.mean(~self._numbers(name)[1][~missing]) >= MOSTLY:
            return "time" if _stamped(name, pd.Series(_as_float(head.astype(str).str.strip()))) else "number"
        nothing = np.zeros(len(head), dtype=bool)
        if not parse_times_of_day(head, nothing).unreadable.any():
            return "clock"
        return "text" if parse_times(head, nothing).unreadable.mean() > 1 - MOSTLY else "time"

    def rows_where(self, expression: str) -> Mask:
        """Rows for which a condition on the columns holds."""
        if "@" in expression or "__" in expression:
            raise TableError(f"--where {expression!r}: only columns, numbers, text and comparisons may be used.")
        typed = {name: self._typed(name) for name in self.columns if name in expression}
        frame = pd.DataFrame(typed, index=self.cells.index)
        advice = "Write it like \"temperature_c > 0 and flag == ''\", with `backticks` around names with spaces."
        try:
            kept = frame.eval(expression, engine="python")
        except pd.errors.UndefinedVariableError as error:
            name = str(error).split("'")[1]
            raise TableError(f"--where: there is no column {name!r}. {nearest(name, self.columns)}") from error
        except Exception as error:  # pandas raises what the parser and the operators below it raise
            raise TableError(f"--where {expression!r} cannot be read ({_first_line(error)}). {advice}") from error
        if not isinstance(kept, pd.Series) or kept.dtype != bool:
            raise TableError(f"--where {expression!r} is not a condition. {advice}")
        return np.asarray(kept.to_numpy(dtype=bool))

    def _typed(self, name: str) -> pd.Series:
        kind = self.kind(name)
        if kind == "number":
            return pd.Series(self.numbers(name), index=self.cells.index)
        if kind == "time":
            times = self.times(name).values
            return pd.Series(times.to_numpy(), index=self.cells.index)
        cells = self.column(name)
        return cells.astype(str).where(cells.notna(), "") if _is_text(cells) else cells


def read_table(
    source: str | Path, *, sep: str | None = None, encoding: str | None = None, na: Sequence[str] = ()
) -> Table:
    """Read a table from a file, or from standard input with "-"."""
    name = "standard input" if str(source) == "-" else Path(source).name
    data = sys.stdin.buffer.read() if str(source) == "-" else _bytes_of(Path(source))
    if not data.strip():
        raise TableError(f"{name} is empty. Give a table with a header line and a row for each reading.")
    if data[:4] == b"PAR1":
        table = Table(name, _read_parquet(data, name), tuple(na), "")
    else:
        table = _read_csv(data, name, sep, encoding, tuple(na))
    if len(table) == 0:
        raise TableError(f"{name} has a header but no rows.")
    return table


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


def _read_parquet(data: bytes, name: str) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(io.BytesIO(data))
    except Exception as error:  # pyarrow has a dozen types for a damaged file
        raise TableError(f"{name} is not a whole Parquet file ({_first_line(error)}). Write it again.") from error
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    frame.columns = [str(column) for column in frame.columns]
    _refuse_duplicates(list(frame.columns), name)
    return frame.reset_index(drop=True)


def _read_csv(data: bytes, name: str, sep: str | None, encoding: str | None, na: tuple[str, ...]) -> Table:
    for magic, what in _FOREIGN:
        if data.startswith(magic):
            raise TableError(f"{name} is {what}, not a table of text. Save it as CSV or Parquet first.")
    text = _decode(data, name, encoding)
    mark = _separator(text, name, sep)
    header = next(csv.reader(io.StringIO(text), delimiter=mark))
    names = [cell.strip() for cell in header]
    if len(names) == 1 and sep is not None:
        _refuse_wrong_separator(names[0], name, sep)
    _refuse_duplicates([cell for cell in names if cell], name)
    cells = _parse(text, mark, name)
    if len(cells.columns) != len(names):
        raise TableError(f"{name}: the header has {len(names)} columns, but rows have {len(cells.columns)}.")
    cells.columns = [cell or f"column {j + 1}" for j, cell in enumerate(names)]
    table = Table(name, cells, na, mark)
    hollow = [column for column, cell in zip(table.columns, names, strict=True) if not cell and _hollow(cells[column])]
    return replace(table, cells=cells.drop(columns=hollow)) if hollow else table


def _decode(data: bytes, name: str, encoding: str | None) -> str:
    guess = next((codec for bom, codec in _BOMS if data.startswith(bom)), "utf-8")
    codec = encoding or guess
    if codec.lower().replace("_", "-") in ("utf-8", "utf8") and guess == "utf-8-sig":
        codec = guess
    try:
        text = data.decode(codec)
    except LookupError:
        raise TableError(f"There is no encoding {codec!r}. Try --encoding utf-8, cp1252 or utf-16.") from None
    except UnicodeError as error:
        at = getattr(error, "start", 0)
        line = data[:at].count(b"\n") + 1
        advice = (
            "Give its encoding, e.g. --encoding cp1252." if encoding is None else "Leave out --encoding, or try cp1252."
        )
        raise TableError(f"{name} is not {codec} text (line {line}). {advice}") from None
    if "\x00" in text:
        advice = "Try --encoding utf-16." if encoding is None else "Try another --encoding."
        raise TableError(f"{name} holds zero bytes, so it is not {codec} text. {advice}")
    return text


def _separator(text: str, name: str, sep: str | None) -> str:
    """The one given, or the one that cuts the first lines into the most columns, equally many in each."""
    if sep is not None:
        mark = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "space": " "}.get(sep.lower(), sep)
        if len(mark) != 1:
            raise TableError(f"--sep must be one character (or tab), got {sep!r}.")
        return mark
    head = io.StringIO("\n".join(text.splitlines()[:20]))

    def score(mark: str) -> tuple[bool, int]:
        head.seek(0)
        widths = [len(row) for row in csv.reader(head, delimiter=mark) if row]
        # A cut within a quoted cell may end the last line early, so one row may differ.
        even = bool(widths) and sum(width == widths[0] for width in widths) >= len(widths) - 1
        return even and widths[0] > 1, widths[0] if widths else 0

    return max(SEPARATORS, key=score)


def _refuse_wrong_separator(header: str, name: str, sep: str) -> None:
    likely = max(SEPARATORS, key=header.count)
    if header.count(likely):
        word = "tab" if likely == "\t" else likely
        raise TableError(
            f"With --sep {_quoted(sep)} {name} has one column only, {_clip(header)!r}. Its columns look separated by "
            f"{word!r}: leave out --sep."
        )


def _refuse_duplicates(names: list[str], table: str) -> None:
    seen: dict[str, int] = {}
    for j, name in enumerate(names):
        if name in seen:
            raise TableError(f"{table} has two columns {name!r} (the {seen[name] + 1}. and the {j + 1}.). Rename one.")
        seen[name] = j


def _parse(text: str, sep: str, name: str) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                io.StringIO(text), sep=sep, dtype=str, keep_default_na=False, index_col=False, header=0, engine="c"
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        detail = _first_line(error).removeprefix("Error tokenizing data. C error: ")
        raise TableError(
            f"{name} is not an even table ({detail}). Check that line, the quotes, and --sep (now {_quoted(sep)})."
        ) from None


def _as_float(text: pd.Series) -> Array:
    return np.array(pd.to_numeric(text, errors="coerce").to_numpy(dtype=float, na_value=np.nan))


def _stamped(name: str, numbers: pd.Series) -> bool:
    """Whether numbers under a name like time are Unix times or dates, not hours or days."""
    return bool(NAMED_LIKE_TIME.search(name)) and times_from_numbers(numbers) is not None


def _is_text(cells: pd.Series) -> bool:
    return bool(pd.api.types.is_object_dtype(cells) or pd.api.types.is_string_dtype(cells))


def _hollow(cells: pd.Series) -> bool:
    return bool((cells.astype(str).str.strip() == "").all())


def _number_or_nan(text: str) -> float:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return float("nan")


def _quoted(text: str) -> str:
    return repr(text) if text != "\t" else "tab"


def _clip(text: str, length: int = 60) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return _clip(lines[0], 120) if lines else type(error).__name__
