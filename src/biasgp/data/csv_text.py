"""Text to cells: encoding, line ends, separator, quotes, header. What does not add up is refused with its line."""

from __future__ import annotations

import codecs
import contextlib
import csv
import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice

import pandas as pd

from biasgp.data.numbers import OTHER, read_number, tidy
from biasgp.data.times import like_time
from biasgp.messages import TableError, clip

SEPARATORS = (",", ";", "\t", "|")
PIECE = 1_000_000
"""Cells that are held as Python objects at a time, some 60 MB; what is longer is packed piece by piece."""
HEAD = 20
"""Lines that the separator is found from, and cells of each."""
_BOMS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_FOREIGN = ((b"PK\x03\x04", "an Excel workbook or a zip file"), (b"\x1f\x8b", "compressed"), (b"%PDF", "a PDF"))
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHIFTED = "".join(chr(high << 8) for high in range(1, 256) if not 0xD8 <= high <= 0xDF)
_SHIFTED_END = re.compile(f"\\u0a00|(?<=[{_SHIFTED}])\\u0d00")
"""A line end in UTF-16 that is off by a byte, where Latin letters end in a byte of zero. U+0A00 is no letter, and
U+0D00 follows letters of its own script."""


def read_cells(
    data: bytes, name: str, sep: str | None, encoding: str | None, header: bool | None
) -> tuple[pd.DataFrame, frozenset[str]]:
    """Cut a file into the cells below its header, and say which columns have no name of their own.

    Without a header (`header` is False) the columns are called column 1, column 2 …
    """
    for magic, what in _FOREIGN:
        if data.startswith(magic):
            raise TableError(f"{name} is {what}, not a table of text. Save it as CSV or Parquet first.")
    lines = _lines(_decode(data, name, encoding))
    if not any(map(str.strip, lines)):
        raise TableError(f"{name} is empty. Give a table with a header line and a row for each reading.")
    if sep is None and re.fullmatch(r"sep=.", lines[0], re.IGNORECASE):  # Excel's own hint to itself
        sep, lines[0] = lines[0][-1], ""
    mark = separator(lines, sep)
    records = _records(lines, mark, name)
    _, first = next(records)
    if header is False:
        records, first = _records(lines, mark, name), [""] * len(first)
    names = [" ".join(cell.split()) for cell in first]
    if len(names) == 1 and sep is not None:
        _refuse_wrong_separator(names[0] or lines[0], name, sep)
    columns = [cell or f"column {j + 1}" for j, cell in enumerate(names)]
    refuse_duplicates(columns, name)
    frame = _frame(_even(records, names, name, mark), columns)
    if header is False:
        return frame, frozenset()
    nameless = [column for column, cell in zip(columns, names, strict=True) if not cell]
    hollow = [column for column in nameless if not frame[column].str.strip().any()]
    return frame.drop(columns=hollow), frozenset(nameless) - set(hollow)


def text_form(head: bytes, sep: str | None, encoding: str | None) -> tuple[str | None, str | None]:
    """Encoding and separator of a table of text by its first bytes, where they are not given; none of other files."""
    if head.startswith((b"PAR1", *(magic for magic, _ in _FOREIGN))):
        return None, None
    codec = encoding or next((codec for bom, codec in _BOMS if head.startswith(bom)), "utf-8")
    try:
        lines = _lines(head.decode(codec, errors="replace").lstrip("\ufeff"))
        if sep is None and re.fullmatch(r"sep=.", lines[0], re.IGNORECASE):
            return codec, lines[0][-1]
        return codec, separator(lines, sep)
    except (LookupError, TableError):
        return None, None


def refuse_duplicates(names: Sequence[str], table: str) -> None:
    """Refuse a table in which a name stands for two columns."""
    duplicated = pd.Index(names, dtype=object).duplicated()
    if duplicated.any():
        j = int(duplicated.argmax())
        places = f"(the {names.index(names[j]) + 1}. and the {j + 1}.)"
        advice = " If the first line is a reading, say --no-header." if is_value(names[j]) else ""
        raise TableError(f"{table} has two columns {clip(names[j])!r} {places}. Rename one.{advice}")


def is_value(cell: str) -> bool:
    """Whether a cell is a number or looks like a time, as those below a header do."""
    cell = tidy(cell)
    return like_time(cell) or not all(math.isnan(read_number(cell, mark)) for mark in OTHER)


def _decode(data: bytes, name: str, encoding: str | None) -> str:
    codec = encoding or next((codec for bom, codec in _BOMS if data.startswith(bom)), "utf-8")
    try:
        text = data.decode(codec)
    except LookupError:
        raise TableError(f"There is no encoding {codec!r}. Try --encoding utf-8, cp1252 or utf-16.") from None
    except UnicodeError as error:
        _refuse_shifted(data.decode(codec, errors="replace"), name, codec)
        line = data[: getattr(error, "start", 0)].count(b"\n") + 1
        advice = (
            "Give its encoding, e.g. --encoding cp1252." if encoding is None else "Leave out --encoding, or try cp1252."
        )
        raise TableError(f"{name} is not {codec} text (line {line}). {advice}") from None
    _refuse_shifted(text, name, codec)
    if "\x00" in text or _SURROGATE.search(text):
        advice = "Try --encoding utf-16." if encoding is None else "Try another --encoding."
        line = text[: max(text.find("\x00"), 0)].count("\n") + 1
        raise TableError(f"{name} holds zero bytes (line {line}), so it is not {codec} text. {advice}")
    return text.lstrip("\ufeff")


def _refuse_shifted(text: str, name: str, codec: str) -> None:
    """Refuse UTF-16 in which a byte was lost or added: from there on, all characters are others."""
    if not codecs.lookup(codec).name.startswith("utf-16"):
        return
    end = _SHIFTED_END.search(text)
    if end:
        line = len(_lines(text[: end.start()]))
        raise TableError(
            f"{name} is damaged UTF-16 text (line {line}): a byte is missing or too many. Export or copy it again."
        )


def _lines(text: str) -> list[str]:
    """Lines that end in LF, CR LF or CR, as every system has written them."""
    return text.replace("\r\r\n", "\n").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def separator(lines: Sequence[str], sep: str | None) -> str:
    """The one given; or the one that cuts the first lines evenly, into the most cells that hold a value."""
    if sep is not None:
        mark = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "space": " "}.get(sep.lower(), sep)
        if len(mark) != 1 or mark in '"\r\n\x00' or "\ud800" <= mark <= "\udfff":
            raise TableError(f"--sep must be one character (or tab) and no quote, got {sep!r}.")
        return mark
    head = [line for line in lines[: 2 * HEAD] if line.strip()][:HEAD]

    def score(mark: str) -> tuple[bool, float, int]:
        rows: list[list[str]] = []
        with contextlib.suppress(csv.Error):
            rows.extend(filter(None, csv.reader(head, delimiter=mark)))
        widths = [len(row) for row in rows] or [0]
        # A cut within a quoted cell may end the last line early, so one row may differ.
        even = sum(width == widths[0] for width in widths) >= max(len(widths) - 1, 1) and widths[0] > 1
        cells = [cell for row in rows for cell in row[:HEAD] if cell.strip()]
        # A value has no separator in it, but for the comma of decimals and of July 30, 2005.
        values = sum(is_value(cell) for cell in cells if not set(cell) & set(";\t|"))
        return even, values / max(len(cells), 1) if even else 0.0, widths[0]

    return max(SEPARATORS, key=score)


def _quoted(sep: str) -> str:
    """A separator as it would be given on the command line."""
    return "tab" if sep == "\t" else repr(sep)


def _refuse_wrong_separator(header: str, name: str, sep: str) -> None:
    likely = max(SEPARATORS, key=header.count)
    if header.count(likely):
        word = "tab" if likely == "\t" else likely
        raise TableError(
            f"With --sep {_quoted(sep)} {name} has one column only, {clip(header)!r}. Its columns look separated by "
            f"{word!r}: leave out --sep."
        )


def _records(lines: Sequence[str], sep: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, each with the number of its first line."""
    reader = csv.reader((line + "\n" for line in lines), delimiter=sep, strict=True)
    width = 0
    while True:
        start = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise TableError(_malformed(error, name, start, reader.line_num)) from None
        width = width or len(row)
        if reader.line_num > start:
            _refuse_swallowed(lines[start - 1 : reader.line_num], width, sep, (name, start))
        if len(row) > 1 or (row and row[0].strip()):
            yield start, row


def _malformed(error: csv.Error, name: str, start: int, line: int) -> str:
    if "field limit" in str(error):
        limit = csv.field_size_limit()
        return f"{name}, line {start}: a cell has more than {limit:,} characters. Shorten it, or close its quote."
    if "unexpected end of data" in str(error):
        return f"{name}, line {start}: a quote is opened in this row and never closed. Close it, or remove it."
    return (
        f"{name}, line {line}: something follows a closing quote ({error}). Check the quotes of the row "
        f"that begins in line {start}, and --sep."
    )


def _refuse_swallowed(lines: Sequence[str], width: int, sep: str, place: tuple[str, int]) -> None:
    """Refuse a quoted cell over several lines of which more than one is a row by itself: its quote was left open."""

    def is_row(line: str) -> bool:
        cells = next(csv.reader([line], delimiter=sep), [])
        return len(cells) == width and any(map(is_value, cells))

    opening = "".join(lines[0].rsplit('"', 1))
    closing = lines[-1].replace('"', "", 1)
    if sum(map(is_row, [opening, *lines[1:-1], closing])) > 1:
        name, start = place
        raise TableError(
            f"{name}, line {start}: a quote is opened in this row and closed in line {start + len(lines) - 1} only, "
            "and the lines between look like rows. Close it, or remove it."
        )


def _even(records: Iterator[tuple[int, list[str]]], names: Sequence[str], table: str, sep: str) -> Iterator[list[str]]:
    """Rows as wide as the header; blank cells at the ends do not count."""
    width = len(names)
    needed = next((j for j in range(width, 0, -1) if names[j - 1]), width)
    for line, row in records:
        if len(row) < needed or any(map(str.strip, row[width:])):
            raise TableError(
                f"{table} is not an even table: line {line} has {len(row)} cells, but the first line has {width}. "
                f"Check that line, its quotes, and --sep (now {_quoted(sep)})."
            )
        yield row[:width] + [""] * (width - len(row))


def _frame(rows: Iterator[list[str]], columns: list[str]) -> pd.DataFrame:
    """A frame of text: of Python objects, which is quick for many columns, or packed where there are many cells."""
    height = max(PIECE // len(columns), 1)
    piece = list(islice(rows, height))
    if len(piece) < height:
        return pd.DataFrame(piece, columns=columns, dtype=object)
    pieces = []
    while piece:
        pieces.append(pd.DataFrame(piece, columns=columns, dtype=str))
        piece = list(islice(rows, height))
    return pd.concat(pieces, ignore_index=True)
