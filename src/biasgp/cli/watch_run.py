"""The run of `biasgp watch`: lines in, verdicts out, and a state from which the next run goes on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biasgp.cli import REQUESTS, _end
from biasgp.cli.console import remark
from biasgp.data.column import Format
from biasgp.data.layout import MOST_UNITS, TextLayout
from biasgp.data.rows import BadRow, Cut, GoodRows, RowReader, lines_of_header, lines_to_names
from biasgp.data.table import ReadOptions, Table
from biasgp.data.tail import CHUNK, SavedPlace
from biasgp.messages import SourceError, WrongUseError
from biasgp.persistence import ModelFileError

if TYPE_CHECKING:
    from biasgp.cli.needs import Needs
    from biasgp.cli.watch_lines import Sink, VerdictLines
    from biasgp.data.tail import LineSource
    from biasgp.stream import Stream

POLL = 0.2
"""Seconds between two looks at a source that has nothing new, and until a request to end is heard."""
HEAD = 20
"""Lines from which the separator is found."""
LATE = "its time, {}, is before readings that are settled (the lag is {} readings)"


@dataclass(frozen=True)
class Reading:
    """How the rows of a source are read: a form of the table, and what was said of it."""

    form: Table
    options: ReadOptions
    needs: Needs

    @classmethod
    def of(cls, name: str, options: ReadOptions, needs: Needs) -> Reading:
        """For a source of this name, and a model that needs some columns."""
        codec = options.encoding or "utf-8"
        try:
            by_bytes = "\n".encode(codec) == b"\n"
        except LookupError:
            raise WrongUseError(f"There is no encoding {codec!r}. Try --encoding utf-8 or cp1252.") from None
        if not by_bytes:
            raise WrongUseError(f"A source in {codec} cannot be followed by lines. Have it written as UTF-8.")
        return cls(Table(name, pd.DataFrame(), options.na, options.given, needs.formats), options, needs)

    def decoded(self, data: bytes) -> list[str]:
        """Whole lines as text. What the encoding does not have is in the way only where it is in a cell that counts."""
        text = data.decode(self.options.encoding or "utf-8", errors="replace")
        return [line.rstrip("\r") for line in text.split("\n")[:-1]]

    def reader(self, head: list[str], sep: str | None) -> RowReader:
        """For the rows under these first lines."""
        cut = Cut.of([head[0].removeprefix("\ufeff"), *head[1:]], sep, self.options.header, self.form.name)
        return RowReader(self.form, cut, self.needs.features[0], self.needs.target)

    def before_rows(self, lines: list[str], *, last: bool) -> int | None:
        """How many of the first lines come before the rows, those of units apart; None where more lines must tell."""
        skip, named = self.options.skip, self.options.header is not False
        if skip is not None or not named:
            count = (skip or 0) + named
            if last and len(lines) < count:
                raise WrongUseError(f"--skip {skip}: {self.form.name} has {len(lines)} lines.")
            return count if len(lines) >= count else None
        return lines_of_header([lines[0].removeprefix("\ufeff"), *lines[1:]], self._names, self.options.sep, last=last)

    def names_in(self, header: bytes) -> tuple[list[str], int]:
        """The line that names the columns among those before the rows, none without a header; and lines below it."""
        lines = self.decoded(header)
        if self.options.header is False:
            return [], 0
        skip = self.options.skip
        named = lines_to_names([line.removeprefix("\ufeff") for line in lines], self._names, self.options.sep)
        count = skip + 1 if skip is not None else named or len(lines)
        return lines[count - 1 : count], len(lines) - count

    @property
    def _names(self) -> tuple[str, ...]:
        return (*self.needs.features[0].columns, self.needs.target)


@dataclass
class WatchRun:
    """Readings that come are judged, written and noted, a chunk at a time.

    At every moment the output is what the state says, and perhaps the beginning of what the next chunk adds; so a run
    that is killed can be started again. `keep` saves the state, if one is wanted.
    """

    stream: Stream
    source: LineSource
    reading: Reading
    lines: VerdictLines
    sink: Sink
    keep: Callable[[WatchRun], None]
    skip: bool
    reader: RowReader | None = field(default=None, init=False)
    fit_end: float = field(init=False)
    """The time of the last reading of the fit."""
    before: int = field(default=0, init=False)
    """Rows at the head of the source that are not later than the readings of the fit."""
    outliers: int = field(default=0, init=False)
    waiting: int = field(default=0, init=False)
    """Bytes at the head of the source among which there is no header yet."""

    def __post_init__(self) -> None:
        self.fit_end = float(self.stream.last_time)

    def go_on_from(self, state: WatchState) -> None:
        """Read as an earlier run did."""
        self.fit_end = state.fit_end
        if state.sep is not None:
            place = state.place.place
            head, _ = self.reading.names_in(place.header)
            head = head or self.reading.decoded(place.header + place.first_row)[-1:]
            self.reader = self.reading.reader(head, state.sep)
            self.reader.found.update(state.formats)

    def go(self, asked: Callable[[], int]) -> None:
        """Until the source ends, or the user asks for it."""
        while not asked():
            data = self.source.lines(POLL, self.waiting)
            if data:
                self._take(data)
            elif self.source.ended and self.waiting:
                self._take(self.source.lines(0.0), last=True)
            elif self.source.ended:
                return

    def _take(self, data: bytes, *, last: bool = False) -> None:
        """One chunk of lines, up to the first that is no row, if that is a reason to stop; the `last` one has all."""
        if self.source.place.line == 0:
            data = self._header_taken(data, last=last)
        texts = self.reading.decoded(data)
        if not texts:
            return
        head, below = self.reading.names_in(self.source.place.header)
        if self.reader is None:
            self.reader = self.reading.reader([*head, *texts[:HEAD]], self.reading.options.sep)
        if head and not self.source.place.first_row:
            data = self._units_taken(self.reader, data, below)
            texts = self.reading.decoded(data)
        place = self.source.place
        out, bad = [] if self.sink.written else [self.lines.header()], None
        for event in self._events(self.reader, list(enumerate(texts, place.line + 1))):
            if isinstance(event, BadRow):
                bad = event
                if event.fatal or not self.skip:
                    break
                event, bad = [self.lines.skipped(event)], None
            out += event
        remark(*self.reader.notes)
        self.reader.notes.clear()
        count = len(texts) if bad is None else bad.line - 1 - place.line
        self.sink.write("".join(out))
        self.source.accept(_first_lines(data, count))
        self.keep(self)
        if bad is not None:
            raise SourceError(_refusal(self.source.name, bad))

    def _header_taken(self, data: bytes, *, last: bool) -> bytes:
        """What follows the header, which must be the one that the reader knows; nothing while there is none."""
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise WrongUseError(f"{self.source.name} is UTF-16, which cannot be followed by lines. Write it as UTF-8.")
        count = self.reading.before_rows(self.reading.decoded(data), last=last or len(data) > CHUNK // 2)
        if count is None:
            if not self.waiting:
                remark(f"No line of {self.source.name} names the columns that are needed yet: waiting for its header.")
            self.waiting = len(data)
            return b""
        self.waiting, header = 0, _first_lines(data, count)
        names, _ = self.reading.names_in(header)
        if names and self.reader is not None and names[0].removeprefix("\ufeff").strip() != self.reader.cut.header:
            raise SourceError(f"The new {self.source.name} has another header. Watch it with another --out.")
        if names and self.reader is None and self.reading.options.skip is None:
            if last:
                self.reading.reader(names, self.reading.options.sep)  # refuses other names, before they are noted
            remark(*TextLayout("", count - 1, found=True).notes(self.source.name))
        if count:
            self.source.accept(header, head=True)
        return data[len(header) :]

    def _units_taken(self, reader: RowReader, data: bytes, below: int) -> bytes:
        """What follows the lines of units under the header, `below` of which were there before."""
        texts, first = self.reading.decoded(data), self.source.place.line
        count = reader.units_in(texts, MOST_UNITS - below, said=self.reading.options.units)
        if count:
            lines = tuple(range(first, first + count))
            remark(*TextLayout("", 0, lines, found=True).notes(self.source.name))
            self.source.accept(_first_lines(data, count), head=True)
        return data[len(_first_lines(data, count)) :]

    def _events(self, reader: RowReader, lines: list[tuple[int, str]]) -> Iterator[list[str] | BadRow]:
        for rows in reader.read(lines):
            if isinstance(rows, BadRow):
                yield rows
            else:
                yield from self._judged(rows)

    def _judged(self, rows: GoodRows) -> Iterator[list[str] | BadRow]:
        """Verdicts, in pushes that do not depend on which rows came together: rows out of order go by themselves."""
        x, start = rows.x, 0
        if self.stream.n_readings == 0:
            later = x > self.fit_end
            start = int(np.argmax(later)) if later.any() else len(x)
            self.before += start
        last = float(self.stream.last_time)
        breaks = (np.flatnonzero(np.diff(x[start:]) < 0.0) + start + 1).tolist()
        for first, stop in zip([start, *breaks], [*breaks, len(x)], strict=True):
            in_order = first + int(np.searchsorted(x[first:stop], last, side="left"))
            for i in range(first, in_order):
                yield self._late(rows, i)
            if in_order < stop:
                yield self._pushed(x[in_order:stop], rows.y[in_order:stop])
                last = float(x[stop - 1])

    def _late(self, rows: GoodRows, i: int) -> list[str] | BadRow:
        """A reading that is older than the last: in its place within the lag, and refused before."""
        if rows.x[i] > self.fit_end:
            try:
                return self._pushed(rows.x[i : i + 1], rows.y[i : i + 1])
            except ValueError:  # what is refused changes nothing
                pass
        (when,) = self.lines.times(rows.x[i : i + 1])
        return BadRow(int(rows.line[i]), LATE.format(when.strip('"'), self.stream.lag))

    def _pushed(self, x: Any, y: Any) -> list[str]:
        verdicts = self.stream.push(x, y)
        self.outliers += int(verdicts.settled.outlier.sum())
        return self.lines.of(verdicts, len(x))


def _first_lines(data: bytes, count: int) -> bytes:
    return b"".join(part + b"\n" for part in data.split(b"\n")[:count])


def _refusal(name: str, bad: BadRow) -> str:
    advice = "" if bad.fatal else " Correct the line and start again, or leave such lines out with --skip-bad-rows."
    return f"{name}, line {bad.line}: {bad.reason}.{advice} What came before is written."


@dataclass(frozen=True)
class WatchState:
    """What a run leaves for the next, in the notes of the saved stream."""

    settings: dict[str, Any]
    place: SavedPlace
    written: int
    fit_end: float
    sep: str | None
    formats: dict[str, Format]

    @classmethod
    def of(cls, stream: Stream, name: str) -> WatchState:
        """That of a saved stream; it may come from anywhere."""
        try:
            note = dict(stream.about)
            formats = {str(column): Format(*form) for column, form in note["formats"].items()}
            good = all(
                form.decimal in ("", ",", ".") and form.day_first in (None, False, True) for form in formats.values()
            )
            good = good and type(note["written"]) is int and note["written"] >= 0
            good = good and isinstance(note["fit_end"], float) and isinstance(note["sep"], str | None)
            if not good:
                raise ValueError
            settings = dict(note["settings"])
            return cls(settings, SavedPlace.of(note), note["written"], note["fit_end"], note["sep"], formats)
        except Exception:  # whatever notes that make no sense lead to
            raise ModelFileError(
                f"{name} is no state of `biasgp watch`, or damaged. Begin anew with --force."
            ) from None

    def refuse_others(self, settings: dict[str, Any]) -> None:
        """Refuse a run that differs from the one that it would continue."""
        for option, value in settings.items():
            if self.settings.get(option) != value:
                raise WrongUseError(
                    f"The earlier run had another {option}. Go on as it was, choose another --out, or begin anew with "
                    "--force."
                )


def saving(path: Path | None, settings: dict[str, Any]) -> Callable[[WatchRun], None]:
    """What keeps the state of a run in a file, if one is wanted, which is whole at any moment."""

    def keep(run: WatchRun) -> None:
        run.sink.sync()
        if path is None:
            return
        found = {} if run.reader is None else run.reader.found
        run.stream.about = {
            **run.source.place.note(),
            "settings": settings,
            "written": run.sink.written,
            "fit_end": run.fit_end,
            "sep": None if run.reader is None else run.reader.cut.sep,
            "formats": {name: list(asdict(form).values()) for name, form in found.items()},
        }
        run.stream.save(path)

    return keep


@contextmanager
def requests_noted() -> Iterator[Callable[[], int]]:
    """Inside, the first Ctrl-C or SIGTERM is noted, and the function tells which; the second ends the process."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield int
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if asked:
            _end(number, frame)
        asked.append(number)

    before = {number: signal.getsignal(number) for number in REQUESTS}
    before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, ask)
    try:
        yield lambda: asked[-1] if asked else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
