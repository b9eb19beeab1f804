"""What `biasgp watch` writes: a line for each verdict, as JSON or CSV, each once however often a run is killed."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from biasgp.cli.console import FAILED, remark, stop
from biasgp.messages import WrongUseError, printable

if TYPE_CHECKING:
    from biasgp._typing import Array
    from biasgp.data.columns import Feature
    from biasgp.data.rows import BadRow
    from biasgp.stream import Verdicts

READING, SETTLED, SKIPPED = "reading", "settled", "skipped"
FIELDS = (
    "event", "number", "time", "value", "mean", "std", "outlier_probability", "outlier", "bias", "bias_std",
    "episode", "episode_start",
)  # fmt: skip
"""Of a verdict; a CSV file has `note` after them."""
_ROUNDED = "%.8g"
"""Significant digits of what is computed: more than any sensor's, fewer than rounding errors reach."""


@dataclass(frozen=True)
class VerdictLines:
    """Verdicts as text: which events are written, in which format, with times as those of the input."""

    feature: Feature
    as_csv: bool
    readings: bool = True
    settled: bool = True

    def header(self) -> str:
        """The first line of the output."""
        return ",".join((*FIELDS, "note")) + "\n" if self.as_csv else ""

    def of(self, verdicts: Verdicts, taken: int) -> list[str]:
        """On readings as they came, each followed by the verdict that it settled: one for each of the last of them.

        Every reading settles one, once the lag is full, so that lines do not depend on how many came together.
        """
        come = self._lines(READING, verdicts) if self.readings else [""] * taken
        done = self._lines(SETTLED, verdicts.settled) if self.settled else [""] * len(verdicts.settled)
        first = taken - len(done)
        return come[:first] + [line for pair in zip(come[first:], done, strict=True) for line in pair]

    def skipped(self, bad: BadRow) -> str:
        """On a line of the source that was left out."""
        if not self.as_csv:
            return json.dumps({"event": SKIPPED, "line": bad.line, "note": bad.reason}, ensure_ascii=False) + "\n"
        text = io.StringIO()
        blank = [""] * (len(FIELDS) - 1)
        csv.writer(text, lineterminator="\n").writerow([SKIPPED, *blank, f"line {bad.line}: {printable(bad.reason)}"])
        return text.getvalue()

    def _lines(self, event: str, verdicts: Verdicts) -> list[str]:
        if not len(verdicts):
            return []
        none = "" if self.as_csv else "null"
        yes, no = ("1", "0") if self.as_csv else ("true", "false")
        quote = "" if self.as_csv else '"'
        computed = (verdicts.std, verdicts.outlier_probability, verdicts.bias, verdicts.bias_std)
        std, probability, bias, bias_std = (_rounded(values, none) for values in computed)
        columns = (
            verdicts.number.tolist(),
            self.times(verdicts.time),
            [repr(value) if value == value else none for value in verdicts.y.tolist()],
            _rounded(verdicts.mean, none),
            std,
            probability,
            [yes if outlier else no for outlier in verdicts.outlier.tolist()],
            bias,
            bias_std,
            [f"{quote}{word}{quote}" for word in verdicts.episode.tolist()],
            self.times(verdicts.episode_start),
        )
        if self.as_csv:
            pattern = ",".join([event, *["%s"] * len(columns)]) + ",\n"
        else:
            pairs = (f'"{name}": %s' for name in FIELDS[1:])
            pattern = f'{{"event": "{event}", {", ".join(pairs)}}}\n'
        return [pattern % values for values in zip(*columns, strict=True)]

    def times(self, inputs: Any) -> list[str]:
        """Values of the input, as times where it has those, on the clock of the table."""
        values = np.asarray(inputs, dtype=float)
        there = np.isfinite(values)
        if not there.any():
            return ["" if self.as_csv else "null"] * len(values)
        quote = "" if self.as_csv else '"'
        if self.feature.is_time:
            instants = self.feature.instants(np.where(there, values, 0.0))
            texts = np.datetime_as_string(instants, unit="ms").tolist()
            zone = _zone(self.feature)
            texts = [f"{quote}{text.removesuffix('.000')}{zone}{quote}" for text in texts]
        else:
            texts = list(map(repr, values.tolist()))
        none = "" if self.as_csv else "null"
        return texts if there.all() else [t if known else none for t, known in zip(texts, there.tolist(), strict=True)]


def _rounded(values: Array, none: str) -> list[str]:
    texts = list(map(_ROUNDED.__mod__, values.tolist()))
    there = np.isfinite(values)
    return texts if there.all() else [t if known else none for t, known in zip(texts, there.tolist(), strict=True)]


def _zone(feature: Feature) -> str:
    """What follows a time of a table whose times have zones."""
    if not feature.zoned:
        return ""
    minutes = round(60.0 * abs(feature.offset_hours))
    sign = "-" if feature.offset_hours < 0.0 else "+"
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}" if minutes else "Z"


class Sink(Protocol):
    """Where lines go; `written` is how many bytes there are."""

    written: int

    def write(self, text: str) -> None:
        """Add lines."""

    def sync(self) -> None:
        """Return when they are on the disk."""

    def close(self) -> None:
        """No more lines come."""


class Terminal:
    """Standard output, at once."""

    def __init__(self, written: int = 0) -> None:
        self.written = written

    def write(self, text: str) -> None:
        data = text.encode()
        sys.stdout.buffer.write(data)
        self.written += len(data)

    def sync(self) -> None:
        sys.stdout.buffer.flush()

    def close(self) -> None:
        pass


class LogFile:
    """A file that lines are added to, from where the state of an earlier run says that it ended.

    What is behind that was written by a run that was killed before it could note it. This run makes the same lines
    again: they are compared, not repeated, so that who follows the file sees each of them once.
    """

    def __init__(self, path: Path, written: int = 0) -> None:
        self.path, self.written = path, written
        self._file: io.FileIO | None = None
        self._ahead = -written
        if path.exists():
            try:
                self._file = io.FileIO(path, "r+")
            except OSError as error:
                raise WrongUseError(f"{str(path)!r} cannot be written: {error.strerror or error}.") from None
            self._ahead += self._file.seek(0, os.SEEK_END)
        if self._ahead < 0:
            self.close()
            raise WrongUseError(
                f"{str(path)!r} is shorter than its state says, or gone: it was changed since. Put it back, or add "
                "--force to begin anew."
            )

    def write(self, text: str) -> None:
        data = text.encode()
        try:
            # Not before there is something to write: a file without a state would be taken for someone else's.
            self._file = self._file or io.FileIO(self.path, "x+")
            self._put(self._file, self._compared(self._file, data))
        except OSError as error:
            stop(
                f"Could not write {str(self.path)!r}: {error.strerror or error}. Start again when that is mended: "
                "it goes on from its state, and repeats nothing.",
                FAILED,
            )

    def sync(self) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _compared(self, file: io.FileIO, data: bytes) -> bytes:
        """What is not there yet of what comes next."""
        if not self._ahead:
            return data
        file.seek(self.written)
        found = file.read(min(self._ahead, len(data)))
        if not data.startswith(found):
            remark(f"{self.path.name} does not go on as this run does: all behind byte {self.written:,} is replaced.")
            file.truncate(self.written)
            self._ahead, found = 0, b""
        self._ahead = max(self._ahead - len(found), 0)
        self.written += len(found)
        return data[len(found) :]

    def _put(self, file: io.FileIO, data: bytes) -> None:
        file.seek(self.written)
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        self.written += len(data)
