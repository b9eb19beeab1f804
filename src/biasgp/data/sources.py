"""From a name to bytes: a file or standard input, what kind of file it is, and what is in it where it is compressed.

What a compressed file may grow to is limited: a file of a few kilobytes can hold what fills a disk.
"""

from __future__ import annotations

import bz2
import difflib
import glob
import gzip
import io
import lzma
import re
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from biasgp.messages import TableError, clip

STDIN = "-"


@dataclass(frozen=True)
class Limits:
    """How much a compressed file may hold, in bytes."""

    unpacked: int = 4 * 2**30
    """Beyond this a table does not fit into the memory of a usual machine, as text and as numbers."""
    unsuspicious: int = 256 * 2**20
    """Up to this, a file may be as repetitive as it likes."""
    ratio: int = 200
    """Beyond that, bytes for each compressed one. Logs of sensors reach 5 to 50."""
    layers: int = 2
    """A gzip file in a zip file, and no more."""
    piece: int = 2**24

    def allowed(self, packed: int) -> int:
        """Bytes that so many compressed ones may become."""
        return min(self.unpacked, max(self.unsuspicious, self.ratio * packed))

    def refuse(self, size: int, packed: int, name: str) -> None:
        """Refuse what is larger than allowed, or says so."""
        if size > self.allowed(packed):
            raise TableError(
                f"{name} holds more than {self.allowed(packed) / 2**20:,.0f} MB in a file of {packed / 2**20:,.1f} MB. "
                "If that is right, unpack it first, and give what you need of it."
            )


LIMITS = Limits()
_MAGIC = (
    (b"PAR1", "parquet"),
    (b"ARROW1", "feather"),
    (b"FEA1", "feather"),
    (b"\x89HDF\r\n\x1a\n", "netcdf"),
    (b"CDF\x01", "netcdf"),
    (b"CDF\x02", "netcdf"),
    (b"CDF\x05", "netcdf"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
)
_FOREIGN = (
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel workbook of the old form (.xls)", "as .xlsx or CSV"),
    (b"%PDF", "a PDF", "as CSV or Parquet"),
    (b"(\xb5/\xfd", "compressed by zstd", "with gzip, or not compressed"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "with gzip, or not compressed"),
)
_OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    "gzip": lambda f: gzip.GzipFile(fileobj=f),
    "xz": lzma.LZMAFile,
    "bzip2": bz2.BZ2File,
}
_STORES = ("zarr.json", ".zgroup", ".zmetadata")


@dataclass(frozen=True)
class Content:
    """The content of a file: its name, what it is (csv, parquet, feather, excel, netcdf, zarr), and its bytes."""

    name: str
    kind: str
    data: bytes = field(repr=False)
    path: Path | None = None
    packed: tuple[str, ...] = ()
    """How it was compressed, outermost first."""


def expanded(sources: Sequence[str | Path]) -> list[str | Path]:
    """The files that are meant, patterns replaced by what they match, in the order of the numbers in their names."""
    found: list[str | Path] = []
    for source in sources:
        pattern = str(source)
        if pattern == STDIN or not re.search(r"[*?\[]", pattern) or Path(pattern).exists():
            found.append(source)
            continue
        matched = sorted(glob.glob(pattern, recursive=True), key=_natural)  # noqa: PTH207  (any folder may be a pattern)
        if not matched:
            raise TableError(f"No file matches {pattern!r}. Check the pattern and the folder.")
        found += matched
    twice = [str(source) for source, count in Counter(map(str, found)).items() if count > 1]
    if twice:
        raise TableError(f"{twice[0]!r} is given twice. Give each file once.")
    return found


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts log2 before log10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def open_source(source: str | Path) -> Content:
    """What a file or standard input holds, unpacked."""
    if str(source) == STDIN:
        return _unpacked(Content("standard input", "", sys.stdin.buffer.read()))
    path = Path(source)
    if path.is_dir() and any((path / each).exists() for each in _STORES):
        return Content(path.name, "zarr", b"", path)
    return _unpacked(Content(path.name, "", _bytes_of(path), path))


def _unpacked(source: Content) -> Content:
    for _ in range(LIMITS.layers + 1):
        kind = _kind(source)
        if kind == "zip":
            source = _from_zip(source)
            if source.kind:
                return source
        elif kind in _OPENERS:
            source = _from_stream(source, kind)
        else:
            return Content(source.name, kind, source.data, source.path, source.packed)
    raise TableError(f"{source.name} is compressed more than {LIMITS.layers} times over. Unpack it first.")


def _kind(source: Content) -> str:
    for magic, what, remedy in _FOREIGN:
        if source.data.startswith(magic):
            raise TableError(f"{source.name} is {what}, not a table of text. Save it {remedy} first.")
    return next((kind for magic, kind in _MAGIC if source.data.startswith(magic)), "csv")


def _from_stream(source: Content, kind: str) -> Content:
    """The content of a gzip, xz or bzip2 file, in pieces, so that a bomb is found before it has gone off."""
    packed, pieces, size = len(source.data), [], 0
    try:
        with _OPENERS[kind](io.BytesIO(source.data)) as file:
            while piece := file.read(LIMITS.piece):
                size += len(piece)
                LIMITS.refuse(size, packed, source.name)
                pieces.append(piece)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise TableError(
            f"{source.name} is compressed ({kind}) and damaged or cut short: {clip(str(error), 120)}. Copy it again."
        ) from None
    return Content(source.name, "", b"".join(pieces), source.path, (*source.packed, kind))


def _from_zip(source: Content) -> Content:
    """The one table in a zip file; or the file as it is, where it is a workbook or a store of arrays."""
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            files = [info for info in archive.infolist() if not info.is_dir()]
            # zipfile reads no more of a member than it says it has.
            LIMITS.refuse(sum(info.file_size for info in files), len(source.data), source.name)
            names = {info.filename for info in files}
            if "xl/workbook.xml" in names:
                return Content(source.name, "excel", source.data, source.path, source.packed)
            if names & set(_STORES):
                return Content(source.name, "zarr", source.data, source.path, source.packed)
            own = [info for info in files if not info.filename.startswith("__MACOSX/")]
            own = [info for info in own if not Path(info.filename).name.startswith(".")]
            if len(own) != 1:
                shown = ", ".join(repr(clip(info.filename, 30)) for info in own[:3]) or "none"
                raise TableError(
                    f"{source.name} holds {len(own)} files ({shown}{' …' if len(own) > 3 else ''}); a zip file may "
                    "hold one table. Unpack it, and give the files, or a pattern such as 'folder/*.csv'."
                )
            if own[0].flag_bits & 1:
                raise TableError(f"{source.name} is protected by a password. Unpack it first.")
            data = archive.read(own[0])
    except (
        zipfile.BadZipFile,
        OSError,
        EOFError,
        zlib.error,
        lzma.LZMAError,
        NotImplementedError,
        ValueError,
    ) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(
            f"{source.name} begins like an Excel workbook or a zip file, but is damaged: {clip(str(error), 120)}. "
            "Write or copy it again."
        ) from None
    return Content(source.name, "", data, source.path, (*source.packed, "zip"))


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
