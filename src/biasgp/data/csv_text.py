"""Text to cells: encoding, line ends, separator, quotes, header. What does not add up is refused with its line."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import pandas as pd

from biasgp.data.layout import COMMENT, HEAD, SEPARATORS, Said, TextLayout, find, is_value
from biasgp.data.quick import quick_frame
from biasgp.messages import TableError, clip

PIECE = 1_000_000
"""Cells that are held as Python objects at a time, some 60 MB; what is longer is packed piece by piece."""
HEAD_SIZE = 2**20
"""Characters from the beginning of a file that tell how it is laid out."""
NO_UNITS = frozenset({"ts", "rn", "-", "--", "unitless", "dimensionless", "none", "utc", "gmt", "local"})
"""Words in a line of units that are none."""
_BOMS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHIFTED = "".join(chr(high << 8) for high in range(1, 256) if not 0xD8 <= high <= 0xDF)
_SHIFTED_END = re.compile(f"\\u0a00|(?<=[{_SHIFTED}])\\u0d00")
"""A line end in UTF-16 that is off by a byte, where Latin letters end in a byte of zero. U+0A00 is no letter, and
U+0D00 follows letters of its own script."""


@dataclass(frozen=True)
class Cells:
    """The cells below a header, which columns have no name of their own, their units, and what was passed over."""

    frame: pd.DataFrame
    nameless: frozenset[str] = frozenset()
    units: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sep: str = ","


def read_cells(data: bytes, name: str, sep: str | None, encoding: str | None, said: Said) -> Cells:
    """Cut a file into the cells below its header.

    Without a header (`said.header` is False) the columns are called column 1, column 2 …
    """
    body = _plain(data, name, encoding)
    if not body[:HEAD_SIZE].strip() and not body.strip():
        raise TableError(f"{name} is empty. Give a table with a header line and a row for each reading.")
    head = _head(body)
    if sep is None and re.fullmatch(r"sep=.", head[0], re.IGNORECASE):  # Excel's own hint to itself
        sep, body, head[0] = head[0][-1], body[len(head[0]) :], ""
    layout = find(head, sep, said, name)
    lines = _Lines(body, head, layout, name)
    first = lines.header() if said.header is not False else [""] * len(lines.header())
    names = [" ".join(cell.split()) for cell in first]
    names[0] = names[0].removeprefix(COMMENT).lstrip() or names[0]
    if len(names) == 1 and sep is not None:
        _refuse_wrong_separator(names[0] or head[0], name, sep)
    columns, nameless = named_columns(names, name)
    frame = lines.quick(columns, said)
    if frame is None:
        frame = _frame(lines.even(names, said), columns)
    notes = (*layout.notes(name), *lines.notes)
    if said.header is False:
        return Cells(frame, notes=notes, sep=layout.sep)
    hollow = [column for column in nameless if not frame[column].str.strip().any()]
    units = {column: unit for column, unit in lines.units(columns).items() if column not in hollow}
    return Cells(frame.drop(columns=hollow), nameless - set(hollow), units, notes, layout.sep)


def named_columns(names: Sequence[str], table: str) -> tuple[list[str], frozenset[str]]:
    """Names of columns, none of them twice; and which of them are ours, as there was none."""
    tidy_names = [" ".join(name.split()) for name in names]
    columns = [name or f"column {j + 1}" for j, name in enumerate(tidy_names)]
    refuse_duplicates(columns, table)
    return columns, frozenset(column for column, name in zip(columns, tidy_names, strict=True) if not name)


def unit_names(columns: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """What a row of units says of each column, where it says something."""
    pairs = zip(columns, (" ".join(cell.split()).strip("[]()") for cell in cells), strict=False)
    return {column: unit for column, unit in pairs if unit and unit.lower() not in NO_UNITS}


class _Lines:
    """The lines of a file from its header on; `notes` say what was passed over among them."""

    def __init__(self, body: bytes, head: list[str], layout: TextLayout, name: str) -> None:
        self.body, self.head, self.layout, self.name = body, head, layout, name
        self.notes: list[str] = []

    @cached_property
    def _all(self) -> list[str]:
        lines = self.body.decode().split("\n")
        return [""] * self.layout.header + lines[self.layout.header :]

    def header(self) -> list[str]:
        """The cells of the header, or of the first row."""
        at = self.layout.header
        short = [""] * at + self.head[at : at + HEAD]
        # A cell of it may be left open.
        lines = self._all if any('"' in line for line in short) else short
        return next(_records(lines, self.layout.sep, self.name))[1]

    def units(self, columns: list[str]) -> dict[str, str]:
        """What the first line of units says of each column."""
        if not self.layout.units:
            return {}
        return unit_names(columns, next(csv.reader([self.head[self.layout.units[0]]], delimiter=self.layout.sep), []))

    def quick(self, columns: list[str], said: Said) -> pd.DataFrame | None:
        """The rows, where nothing in them needs a closer look."""
        below = [self.layout.header, *self.layout.units][-1] + (said.header is not False)
        at = 0
        for _ in range(below):
            at = self.body.find(b"\n", at) + 1
            if at == 0:
                return None
        mark = COMMENT.encode()
        # One character is found many times faster than two.
        hashed = mark in self.body and (self.body.startswith(mark, at) or self.body.find(b"\n" + mark, at) >= 0)
        if b'"' in self.body or hashed or at >= len(self.body):
            return None
        return quick_frame(memoryview(self.body)[at:], self.layout.sep, columns)

    def even(self, names: list[str], said: Said) -> Iterator[list[str]]:
        """Rows as wide as the header; blank cells at the ends do not count, and comments are passed over."""
        width, passed = len(names), []
        needed = next((j for j in range(width, 0, -1) if names[j - 1]), width)
        units = {line + 1 for line in self.layout.units}
        records = _records(self._all, self.layout.sep, self.name)
        if said.header is not False:
            next(records)
        for line, row in records:
            if line in units:
                continue
            if len(row) < needed or any(map(str.strip, row[width:])) or row[0].startswith(COMMENT):
                if row[0].lstrip().startswith(COMMENT) and (len(row) != width or not self.layout.text_first):
                    passed.append(line)
                    continue
                if len(row) < needed or any(map(str.strip, row[width:])):
                    raise TableError(self._uneven(line, len(row), width))
            yield row[:width] + [""] * (width - len(row))
        if passed:
            more = f" and {len(passed) - 1:,} more lines" if len(passed) > 1 else ""
            self.notes.append(f"Passed over: line {passed[0]} of {self.name}{more}, which begin with {COMMENT}.")

    def _uneven(self, line: int, cells: int, width: int) -> str:
        header = self.layout.header + 1
        of = "the first line" if header == 1 or not self.layout.found else f"the header, line {header},"
        later = "" if self.layout.found else ", or --skip if the header comes later"
        return (
            f"{self.name} is not an even table: line {line} has {cells} cells, but {of} has {width}. "
            f"Check that line, its quotes, and --sep (now {_quoted(self.layout.sep)}){later}."
        )


def codec_of(data: bytes, encoding: str | None) -> str:
    """The encoding of a text: as given, or as its first bytes say."""
    return encoding or next((codec for bom, codec in _BOMS if data.startswith(bom)), "utf-8")


def refuse_duplicates(names: Sequence[str], table: str) -> None:
    """Refuse a table in which a name stands for two columns."""
    duplicated = pd.Index(names, dtype=object).duplicated()
    if duplicated.any():
        j = int(duplicated.argmax())
        places = f"(the {names.index(names[j]) + 1}. and the {j + 1}.)"
        advice = " If the first line is a reading, say --no-header." if is_value(names[j]) else ""
        raise TableError(f"{table} has two columns {clip(names[j])!r} {places}. Rename one.{advice}")


def _plain(data: bytes, name: str, encoding: str | None) -> bytes:
    """The text as UTF-8 with lines that end in LF; most files are that already."""
    if encoding in (None, "utf-8") and data.isascii() and b"\r" not in data and b"\x00" not in data:
        return data
    text = _unix_lines(_decode(data, name, encoding))
    try:
        return text.encode()
    except UnicodeError:  # a lone half of a character, as odd encodings may hold
        raise TableError(f"{name} holds characters that are none. Try another --encoding.") from None


def _head(body: bytes) -> list[str]:
    """The first lines, which tell how the file is laid out."""
    end = len(body) if len(body) <= HEAD_SIZE else body.rfind(b"\n", 0, HEAD_SIZE)
    return (body if end < 0 else body[:end]).decode().split("\n")


def _decode(data: bytes, name: str, encoding: str | None) -> str:
    codec = codec_of(data, encoding)
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
    # UTF-8 has no surrogates, and to look for them takes a while.
    if "\x00" in text or (codec != "utf-8" and _SURROGATE.search(text)):
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
        line = _unix_lines(text[: end.start()]).count("\n") + 1
        raise TableError(
            f"{name} is damaged UTF-16 text (line {line}): a byte is missing or too many. Export or copy it again."
        )


def _unix_lines(text: str) -> str:
    """With lines that end in LF, where they ended in LF, CR LF or CR, as every system has written them."""
    if "\r" not in text:
        return text
    return text.replace("\r\r\n", "\n").replace("\r\n", "\n").replace("\r", "\n")


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
