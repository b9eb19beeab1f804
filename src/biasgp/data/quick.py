"""The plain cases, which most large files are: cut and read by Arrow, many times faster than cell by cell.

Each function gives up (None) at the first thing that is not plain; then the careful way decides, and says what
is wrong. What it does read, it reads as that does.
"""

from __future__ import annotations

import csv
import re
from typing import Any

import numpy as np
import pandas as pd

from biasgp._typing import Array
from biasgp.data.numbers import FEW, MISSING

BLOCK = 2**22
"""Bytes that Arrow cuts at a time; a longer row is not plain."""
SAMPLE = 1000
"""Cells that must prove that the decimal mark is a point."""
_PLAIN = b"0123456789.+-eE"
_PROOF = re.compile(r"\.(?!\d{3}$)|[eE]")
"""What shows a decimal point: no mark for thousands has other than three digits after it."""
_WORDS = sorted({form for word in MISSING for form in (word, word.upper(), word.title())} | {"NaN"})
_ISO_LENGTHS = (10, 13, 16, 19, 21, 22, 23, 26)
"""Characters of 2005-03-24, with hours, minutes, seconds and decimals of these, that Arrow reads in this form alone."""


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
    if any(_longest(column) > csv.field_size_limit() for column in cut.columns):
        return None
    kind = pd.StringDtype("pyarrow", na_value=np.nan)
    frame = cut.to_pandas(types_mapper=lambda _: kind)
    frame.columns = columns
    return frame


def _longest(column: Any) -> int:
    return max((int(np.diff(_bounds(chunk)).max()) for chunk in column.chunks if len(chunk)), default=0)


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
    parts, pointed, proofs = [], False, 0
    for chunk in chunks:
        part = _numbers_in(chunk)
        if part is None:
            return None
        values, known, text = part
        if b"." in text or b"e" in text or b"E" in text:
            pointed = True
            if proofs <= FEW:
                proofs += sum(bool(_PROOF.search(cell)) for cell in known[:SAMPLE].to_pylist())
        parts.append(values)
    if not parts or (pointed and proofs <= FEW) or all(np.isnan(part).all() for part in parts):
        return None
    return np.concatenate(parts), pointed


def _numbers_in(chunk: Any) -> tuple[Array, Any, bytes] | None:
    """The numbers of some cells, those of the cells that hold one, and the text of these."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known, nothing, text = chunk, None, _bytes(chunk)
    if b":" in text[:SAMPLE]:
        return None  # times, as a rule; no number has a colon
    if text.translate(None, _PLAIN) or np.diff(_bounds(chunk)).min() == 0:
        chunk = pc.utf8_trim_whitespace(chunk)
        nothing = pc.is_in(chunk, pa.array(_WORDS, chunk.type))
        known = chunk.filter(pc.invert(nothing))
        text = _bytes(known)
        if text.translate(None, _PLAIN):
            return None
    try:
        values = known.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    if nothing is None:
        return values, known, text
    every = np.full(len(chunk), np.nan)
    every[~nothing.to_numpy(zero_copy_only=False)] = values
    return every, known, text


def quick_times(chunks: list[Any]) -> tuple[np.ndarray, str] | None:
    """Times of ISO 8601, all of one length and with one zone, NaT where nothing is; and the zone ("" for none)."""
    parts, forms = [], set()
    for chunk in chunks:
        part = _times_in(chunk)
        if part is None:
            return None
        parts.append(part[0])
        forms.add(part[1:])
    zones = {zone for _, zone in forms}
    return (np.concatenate(parts), zones.pop()) if len(forms) == 1 else None


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
    ends = np.frombuffer(_bytes(known), dtype=np.uint8)[size - 1 :: size]
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


def _bytes(chunk: Any) -> bytes:
    """The text of all cells, one after the other."""
    content, bounds = chunk.buffers()[2], _bounds(chunk)
    return b"" if content is None or not len(chunk) else bytes(memoryview(content)[bounds[0] : bounds[-1]])
