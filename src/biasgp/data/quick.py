"""The plain cases, which most large files are: cut and read by Arrow, many times faster than cell by cell.

Each function gives up (None) at the first thing that is not plain; then the careful way decides, and says what
is wrong. What it does read, it reads as that does.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from biasgp._typing import Array
from biasgp.data.numbers import FEW, MISSING

BLOCK = 2**22
"""Bytes that Arrow cuts at a time; a longer row is not plain."""
SAMPLE = 1000
"""Cells that must prove that the decimal mark is a point."""
TOGETHER = 256
"""Cells whose length together shows, as a rule, that none of them is too long."""
_PLAIN = b"0123456789.+-eE"
_PROOF = re.compile(r"\.(?!\d{3}$)|[eE]")
"""What shows a decimal point: no mark for thousands has other than three digits after it."""
_WORDS = sorted({form for word in MISSING for form in (word, word.upper(), word.title())} | {"NaN"})
_ISO_LENGTHS = (10, 13, 16, 19, 21, 22, 23, 26)
"""Characters of 2005-03-24, with hours, minutes, seconds and decimals of these, that Arrow reads in this form alone."""


_Part = TypeVar("_Part")


def quick_frame(body: Any, sep: str, columns: list[str]) -> pd.DataFrame | None:
    """Rows in bytes of UTF-8, without quotes or comments, all as wide as the header."""
    if len(columns) < 2:
        return None
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    width = [str(j) for j in range(len(columns))]
    try:
        cut = arrow_csv.read_csv(
            pa.py_buffer(body),
            arrow_csv.ReadOptions(column_names=width, block_size=BLOCK),
            arrow_csv.ParseOptions(delimiter=sep, quote_char=False),
            # As pandas packs text, so that nothing is copied.
            arrow_csv.ConvertOptions(
                check_utf8=False, column_types=dict.fromkeys(width, pa.large_string()), strings_can_be_null=False
            ),
        )
    except (pa.ArrowInvalid, UnicodeError):
        return None
    if any(_has_longer(chunk, csv.field_size_limit()) for column in cut.columns for chunk in column.chunks):
        return None
    kind = pd.StringDtype("pyarrow", na_value=np.nan)
    frame = cut.to_pandas(types_mapper=lambda _: kind)
    frame.columns = columns
    return frame


def _has_longer(chunk: Any, limit: int) -> bool:
    """Whether a cell has more bytes than this."""
    bounds = _bounds(chunk)
    if np.diff(bounds[::TOGETHER], append=bounds[-1:]).max(initial=0) <= limit:
        return False  # not even many cells in a row have
    return bool(np.diff(bounds).max(initial=0) > limit)


def arrow_of(cells: pd.Series) -> list[Any] | None:
    """The cells as Arrow holds them, in chunks; None where it does not."""
    if not isinstance(cells.dtype, pd.StringDtype) or cells.dtype.storage != "pyarrow":
        return None
    import pyarrow as pa

    found = pa.array(cells.array)
    chunks = found.chunks if isinstance(found, pa.ChunkedArray) else [found]
    return [chunk.fill_null("") if chunk.null_count else chunk for chunk in chunks if len(chunk)]


def quick_numbers(chunks: list[Any]) -> tuple[Array, bool] | None:
    """Numbers with a decimal point or none, NaN where nothing is; and whether there is a point among them."""
    found, at, pointed, proofs = np.empty(sum(map(len, chunks))), 0, False, 0
    for part in _each(chunks, _numbers_in):
        if part is None:
            return None
        values, known = part
        if proofs <= FEW and any((_text(known) == ord(mark)).any() for mark in ".eE"):
            pointed = True
            proofs += sum(bool(_PROOF.search(cell)) for cell in known[:SAMPLE].to_pylist())
        # Straight into place: the memory of a part serves the next one.
        found[at : at + len(values)] = values
        at += len(values)
    return None if (pointed and proofs <= FEW) or np.isnan(found).all() else (found, pointed)


def _each(chunks: list[Any], read: Callable[[Any], _Part | None]) -> Iterator[_Part | None]:
    """Each chunk as it is read, in turn: the first one here, the others on threads, which Arrow leaves free."""
    import pyarrow as pa

    yield from map(read, chunks[:1])
    if len(chunks) > 1:
        pool = ThreadPoolExecutor(pa.cpu_count())
        try:
            yield from pool.map(read, chunks[1:])
        finally:
            pool.shutdown(cancel_futures=True)


def _numbers_in(chunk: Any) -> tuple[Array, Any] | None:
    """The numbers of some cells, and the cells that hold one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = _cast(chunk)
    # What Arrow reads as a finite number has no other characters than numbers have; words such as inf it reads too.
    if values is not None and np.isfinite(values).all():
        return values, chunk
    if (_text(chunk)[:SAMPLE] == ord(":")).any():
        return None  # times, as a rule; no number has a colon
    chunk = pc.utf8_trim_whitespace(chunk)
    nothing = pc.is_in(chunk, pa.array(_WORDS, chunk.type))
    known = chunk.filter(pc.invert(nothing))
    values = None if _text(known).tobytes().translate(None, _PLAIN) else _cast(known)
    if values is None:
        return None
    every = np.full(len(chunk), np.nan)
    every[~nothing.to_numpy(zero_copy_only=False)] = values
    return every, known


def _cast(cells: Any) -> Array | None:
    import pyarrow as pa

    try:
        return np.asarray(cells.cast(pa.float64()))
    except pa.ArrowInvalid:
        return None


def quick_times(chunks: list[Any]) -> tuple[np.ndarray, str] | None:
    """Times of ISO 8601, all of one length and with one zone, NaT where nothing is; and the zone ("" for none)."""
    found, at, forms = np.empty(sum(map(len, chunks)), dtype="datetime64[us]"), 0, set()
    for part in _each(chunks, _times_in):
        if part is None:
            return None
        forms.add(part[1:])
        found[at : at + len(part[0])] = part[0]
        at += len(part[0])
    zones = {zone for _, zone in forms}
    return (found, zones.pop()) if len(forms) == 1 else None


def _times_in(chunk: Any) -> tuple[np.ndarray, int, str] | None:
    """The times of some cells, how many characters each has, and their zone."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known, nothing, sizes = chunk, None, np.diff(_bounds(chunk))
    if sizes.min() != sizes.max():
        nothing = pc.is_in(chunk, pa.array(_WORDS, chunk.type))
        known = chunk.filter(pc.invert(nothing))
        sizes = np.diff(_bounds(known))
    size = int(sizes.min()) if len(sizes) else 0
    if size < _ISO_LENGTHS[0] or size != sizes.max():
        return None
    ends = _text(known)[size - 1 :: size]
    zone = "Z" if bool((ends == ord("Z")).all()) else ""
    if size - len(zone) not in _ISO_LENGTHS:
        return None
    try:
        bare = pc.utf8_slice_codeunits(known, 0, size - len(zone)) if zone else known
        stamps = bare.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    if nothing is None:
        return stamps, size, zone
    every = np.full(len(chunk), np.datetime64("NaT", "us"))
    every[~nothing.to_numpy(zero_copy_only=False)] = stamps
    return every, size, zone


def _bounds(chunk: Any) -> np.ndarray:
    """Where each cell begins in the text of all, and where the last one ends."""
    kind = np.int64 if str(chunk.type).startswith("large") else np.int32
    return np.frombuffer(chunk.buffers()[1], dtype=kind)[chunk.offset : chunk.offset + len(chunk) + 1]


def _text(chunk: Any) -> np.ndarray:
    """The bytes of all cells, one after the other, without a copy."""
    content, bounds = chunk.buffers()[2], _bounds(chunk)
    if content is None or not len(chunk):
        return np.empty(0, dtype=np.uint8)
    return np.frombuffer(content, dtype=np.uint8)[bounds[0] : bounds[-1]]
