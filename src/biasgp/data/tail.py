"""A source of lines that grows: a file that someone writes to, or standard input. Only whole lines are read.

Where a reader stands is a `Place`; one that was saved finds the same place again, or says why it is not there.
"""

from __future__ import annotations

import hashlib
import io
import os
import select
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from biasgp.messages import SourceError, WrongUseError

CHUNK = 1 << 20
"""Bytes that are read at once."""
LONGEST_LINE = CHUNK
"""Bytes of a line; one that is longer is no row of a table."""
_TAIL = 4096
"""Bytes before a place by which it is known again."""
_ELSEWHERE = "Watch it with another --out, or with --rotated to go on from its start."


@dataclass(frozen=True)
class Place:
    """Where a reader stands: bytes and lines before it, the header, the first row, and the bytes just before it.

    A header is one line, or all up to the first row where there are others before it, or units below it.
    """

    offset: int = 0
    line: int = 0
    header: bytes = b""
    first_row: bytes = b""
    tail: bytes = b""

    def after(self, lines: bytes, *, head: bool = False) -> Place:
        """The place behind some whole lines that follow it; with `head`, all of them are of the header."""
        place = replace(
            self,
            offset=self.offset + len(lines),
            line=self.line + lines.count(b"\n"),
            tail=(self.tail + lines[-_TAIL:])[-_TAIL:],
        )
        if head:
            return replace(place, header=self.header + lines)
        rest = io.BytesIO(lines)
        header = self.header or rest.readline()
        return replace(place, header=header, first_row=self.first_row or rest.readline())

    def note(self) -> dict[str, Any]:
        """What JSON can hold of it; the bytes before it as a checksum."""
        return {
            "offset": self.offset,
            "line": self.line,
            "header": self.header.decode("latin-1"),
            "first_row": self.first_row.decode("latin-1"),
            "tail": [len(self.tail), hashlib.sha256(self.tail).hexdigest()],
        }


@dataclass(frozen=True)
class SavedPlace:
    """A place of which the bytes before it are known by their number and checksum only."""

    place: Place
    length: int
    digest: str

    @classmethod
    def of(cls, note: dict[str, Any]) -> SavedPlace:
        """That of a note; an error of whatever kind where it makes no sense."""
        length, digest = note["tail"]
        numbers = (note["offset"], note["line"], length)
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("a place is not a number")
        header, first = (note[name].encode("latin-1") for name in ("header", "first_row"))
        place = Place(note["offset"], note["line"], header, first)
        if length > min(place.offset, _TAIL) or len(header) + len(first) > place.offset:
            raise ValueError("a place is before its own header")
        return cls(place, length, digest)

    def with_tail(self, tail: bytes) -> Place | None:
        """The place, if these are the bytes before it."""
        same = hashlib.sha256(tail).hexdigest() == self.digest
        return replace(self.place, tail=tail) if same else None


class LineSource(Protocol):
    """Whole lines from a place on."""

    name: str
    place: Place
    rotations: int

    def lines(self, wait: float, beyond: int = 0) -> bytes:
        """Those that are there, a chunk at most; none where no more than `beyond` bytes come within `wait` seconds."""

    def accept(self, lines: bytes, *, head: bool = False) -> None:
        """Go on behind these lines, the first of those that `lines` gave; `head` as for `Place.after`."""

    def close(self) -> None:
        """Let go of it."""

    @property
    def ended(self) -> bool:
        """Whether all was read, and nothing is waited for."""

    @property
    def partial(self) -> int:
        """Bytes of a last line that has no end yet."""


class GrowingFile:
    """A file that is written to while it is read. It is held open, and compared with what was read before."""

    def __init__(self, path: Path, saved: SavedPlace | None = None, *, follow: bool, rotated: bool) -> None:
        self.name, self.path, self.follow, self.rotated = path.name, path, follow, rotated
        self.place, self.partial, self.rotations, self.ended = Place(), 0, 0, False
        self._file = _opened(path)
        if saved is not None:
            try:
                self._find(saved)
            except SourceError:
                self.close()
                raise

    def close(self) -> None:
        self._file.close()

    def _find(self, saved: SavedPlace) -> None:
        """Go to a saved place, or refuse a file that is another one."""
        offset, size = saved.place.offset, os.fstat(self._file.fileno()).st_size
        place = saved.with_tail(self._bytes(offset - saved.length, saved.length))
        if place is not None and self._bytes(0, len(place.header)) == place.header:
            self.place = place
            return
        begun = self._bytes(0, len(saved.place.header))
        if begun and _is_other(begun, saved.place.header):
            raise SourceError(self._other_header())
        if not self.rotated:
            raise SourceError(self._shorter(size, offset) if size < offset else self._rewritten(offset))
        self._restart(saved.place.header)

    def lines(self, wait: float, beyond: int = 0) -> bytes:
        """As `LineSource.lines`; a SourceError where the file is not what it was."""
        place = self.place
        found = self._bytes(place.offset - len(place.tail), len(place.tail) + CHUNK)
        if not found.startswith(place.tail) or self._bytes(0, len(place.header)) != place.header:
            return self._changed()
        body = found[len(place.tail) :]
        end = body.rfind(b"\n") + 1
        self.partial = len(body) - end
        if end > beyond:
            return body[:end]
        if len(body) >= LONGEST_LINE:
            raise SourceError(_endless(self.name, place.line))
        self._look()
        self.ended = not self.follow
        if self.follow:
            time.sleep(wait)
        return b""

    def accept(self, lines: bytes, *, head: bool = False) -> None:
        self.place = self.place.after(lines, head=head)

    def _changed(self) -> bytes:
        """What was read is no longer there."""
        size, offset = os.fstat(self._file.fileno()).st_size, self.place.offset
        if size >= offset:
            begun = self._bytes(0, len(self.place.header))
            raise SourceError(self._other_header() if begun != self.place.header else self._rewritten(offset))
        if not self.rotated:
            raise SourceError(self._shorter(size, offset))
        self._restart(self.place.header)
        return b""

    def _look(self) -> None:
        """All was read: whether there is still the same file under the name."""
        try:
            same = os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except FileNotFoundError:
            if self.rotated:  # the next one comes
                return
            raise SourceError(
                f"{self.name} has vanished: it was moved or deleted. All of it that was written was read. Put it back "
                "and start again, or use --rotated where a logger begins a new file under the same name."
            ) from None
        if same:
            return
        if not self.rotated:
            raise SourceError(f"{self.name} was replaced by another file. All of the former was read. {_ELSEWHERE}")
        self._file.close()
        self._file = _opened(self.path)
        self._restart(self.place.header)

    def _restart(self, header: bytes) -> None:
        """Go on from the start of a new file, which must have the header of the former, as far as it is written."""
        if _is_other(self._bytes(0, len(header)), header):
            raise SourceError(self._other_header())
        self.rotations += 1
        self.place = Place()

    def _bytes(self, start: int, count: int) -> bytes:
        self._file.seek(max(start, 0))
        return self._file.read(count)

    def _shorter(self, size: int, offset: int) -> str:
        return f"{self.name} was cut short: it has {size:,} bytes, and {offset:,} had been read. {_ELSEWHERE}"

    def _rewritten(self, offset: int) -> str:
        return (
            f"{self.name} was rewritten: what is before byte {offset:,} is not what was read there. Rows may only be "
            f"added at its end. {_ELSEWHERE}"
        )

    def _other_header(self) -> str:
        return f"The header of {self.name} has changed since it was read. Watch it with another --out."


class Pipe:
    """Standard input. One that begins with what an earlier run has read is read from where that ended."""

    def __init__(self, stream: BinaryIO, saved: SavedPlace | None = None) -> None:
        self.name, self.place, self.rotations, self._eof = "standard input", Place(), 0, False
        self._stream, self._held, self._saved = stream, b"", saved
        self._repeating, self._dropped = False, 0
        if saved is not None:
            self.place = saved.place

    def close(self) -> None:
        pass

    @property
    def ended(self) -> bool:
        return self._eof and self._saved is None

    @property
    def partial(self) -> int:
        return len(self._held) - (self._held.rfind(b"\n") + 1)

    def lines(self, wait: float, beyond: int = 0) -> bytes:
        """As `LineSource.lines`."""
        if self._held.rfind(b"\n") + 1 <= beyond and not self._eof:
            self._fill(wait)
        if self._saved is not None and not self._joined(self._saved):
            return b""
        end = self._held.rfind(b"\n", 0, CHUNK) + 1
        if end == 0 and len(self._held) >= LONGEST_LINE:
            raise SourceError(_endless(self.name, self.place.line))
        return self._held[:end] if end > beyond else b""

    def accept(self, lines: bytes, *, head: bool = False) -> None:
        self.place = self.place.after(lines, head=head)
        self._held = self._held[len(lines) :]

    def _fill(self, wait: float) -> None:
        """What comes within a time; a pipe that stays silent is no reason to stop."""
        try:
            handle = self._stream.fileno()
        except OSError:  # no file: what is in memory is there at once
            found = self._stream.read(CHUNK)
        else:
            if os.name == "posix" and not select.select([handle], [], [], wait)[0]:
                return
            found = os.read(handle, CHUNK)
        self._held += found
        self._eof = not found

    def _joined(self, saved: SavedPlace) -> bool:
        """Whether the place of the earlier run is reached: at once where what was read is not told again."""
        place = saved.place
        told = place.header + place.first_row
        self._repeating |= bool(place.first_row) and self._held.startswith(told)
        if self._repeating:
            return self._skipped(saved)
        if not self._eof and told.startswith(self._held) and len(self._held) < len(told):
            self._fill(0.0)
            return False
        if place.header and self._held.startswith(place.header):
            self._held = self._held[len(place.header) :]
        self._saved = None
        return True

    def _skipped(self, saved: SavedPlace) -> bool:
        """Leave out what an earlier run has read; its last bytes are compared."""
        offset = saved.place.offset
        left = offset - self._dropped
        if len(self._held) < left:
            if self._eof:
                raise SourceError(
                    f"Standard input begins as before, but ends after {self._dropped + len(self._held):,} bytes, and "
                    f"{offset:,} had been read. Give all of it, or what follows only."
                )
            spare = max(len(self._held) - _TAIL, 0)
            self._dropped, self._held = self._dropped + spare, self._held[spare:]
            self._fill(0.0)
            return False
        found = saved.with_tail(self._held[left - saved.length : left])
        if found is None:
            raise SourceError(
                f"Standard input begins as before, but differs before byte {offset:,}. Give what was read before, or "
                "what follows only."
            )
        self.place, self._held, self._saved = found, self._held[left:], None
        return True


def _is_other(begun: bytes, header: bytes) -> bool:
    """Whether a file that begins so has another header. Lines before the names may differ: they say when it began."""
    return header.count(b"\n") <= 1 and not header.startswith(begun)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        raise WrongUseError(f"There is no file {str(path)!r}. Check the name and the folder.") from None
    except IsADirectoryError:
        raise WrongUseError(f"{str(path)!r} is a folder. Give the file in it.") from None
    except OSError as error:
        raise WrongUseError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from None


def _endless(name: str, line: int) -> str:
    return (
        f"{name}, line {line + 1}: no end of the line in {LONGEST_LINE:,} bytes. Is it a table of text, with line ends?"
    )
