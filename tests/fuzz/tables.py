"""Generated tables with a known truth, in any dialect, whole or damaged: read right, or refused in words that help."""

from __future__ import annotations

import re
import tempfile
import warnings
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from biasgp.data.columns import Readings, read_readings
from biasgp.data.table import ReadOptions, Table, TableError

Rng = np.random.Generator
HELPFUL = re.compile(r"(?i)column|row \d|line \d|--\w|header|encoding|is empty|usable rows|no rows")
DATE_FORMS = (
    "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y/%m/%d %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %I:%M %p", "%d.%m.%Y %H:%M:%S",
    "%d-%m-%y %H:%M", "%d %b %Y %H:%M", "%B %d, %Y %I:%M %p", "%a, %d %b %Y %H:%M:%S", "%Y%m%dT%H%M%S", "%Y-%m-%d",
)  # fmt: skip
ZONES: dict[str, Any] = {
    "": None, "Z": UTC, "+02:00": +2, " -0330": -3.5, " UTC": UTC, " CEST": +2, " EST": -5, " PDT": -7,
    " Europe/Berlin": zoneinfo.ZoneInfo("Europe/Berlin"), " America/New_York": zoneinfo.ZoneInfo("America/New_York"),
}  # fmt: skip
JUNK = ("12%", "$12", "<LOD", "abc", "1_000", "0x1F", "１２", "1.2.3", "1,2,3", "12 ppb", "--5", "1e", "True", "#REF!")
COLUMNS = ("time", "x", "note", "y")
NAMES = ("y", "no_ppb", "T (°C)", "value, mean", 'the "y"', "2001 mean", "=1+1", "π", "a" * 300)


@dataclass(frozen=True)
class Dialect:
    """How numbers, times and lines are written."""

    sep: str
    decimal: str
    thousands: str
    places: int
    trimmed: bool
    date_form: str
    zone: str
    line_end: str
    encoding: str
    quote_all: bool
    absent: str


@dataclass(frozen=True)
class Truth:
    """What a table holds: its first time, hours since then, and the numbers beside them."""

    target: str
    start: datetime
    hours: np.ndarray
    x: np.ndarray
    y: np.ndarray


Cell = tuple[int, int]
"""Row below the header, which is row -1, and column."""


@dataclass(frozen=True)
class Damage:
    """What a refusal must say, if there must be one; if there is none, which cells may be read as something else."""

    says: str = ""
    cells: frozenset[Cell] = frozenset()
    whole: int | None = None
    """Rows that are there, where others may be missing."""


def run(count: int, seed: int) -> list[str]:
    """Failures among so many generated tables, in words."""
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(count):
            rng = np.random.default_rng([seed, i])
            failures += [f"table {i} of seed {seed}: {words}" for words in _one(rng, Path(folder) / "readings.csv")]
    return failures


def _one(rng: Rng, path: Path) -> list[str]:
    dialect = draw_dialect(rng)
    truth, rows = draw_rows(rng, dialect)
    kind = _pick(rng, list(DAMAGES)) if rng.random() < 0.4 else "none"
    written = [list(row) for row in rows]
    damage = DAMAGES[kind](rng, rows, dialect, path) if kind != "none" else _write(path, rows, dialect)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table, found = _read(rng, path, truth, dialect)
    except TableError as error:
        wrong = _trouble_in(str(error), damage.says)
    except Exception as error:  # whatever is not a refusal is what we look for
        wrong = [f"{type(error).__name__}: {error}"]
    else:
        wrong = _compare(Read(table, found, damage, dialect, written), truth)
    return [f"{words} ({kind}, {dialect})" for words in wrong]


def _read(rng: Rng, path: Path, truth: Truth, dialect: Dialect) -> tuple[Table, Readings]:
    options: dict[str, Any] = {"encoding": dialect.encoding if dialect.encoding == "cp1252" else None}
    if rng.random() < 0.2:
        options["decimal"] = dialect.decimal
    if rng.random() < 0.2 and re.match("%[dm]", dialect.date_form):
        options["day_first"] = dialect.date_form.startswith("%d")
    if rng.random() < 0.2:
        options["sep"] = dialect.sep
    named = rng.random() < 0.6
    features = ["time", "x"] if named else None
    table = Table.read(path, ReadOptions(**options))
    return table, read_readings(table, truth.target if named else None, features)


def _trouble_in(message: str, says: str) -> list[str]:
    """What is wrong with a refusal."""
    if "\n" in message or not HELPFUL.search(message):
        return [f"an unhelpful refusal: {message!r}"]
    return [f"a refusal that does not say {says!r}: {message!r}"] if says not in message else []


@dataclass(frozen=True)
class Read:
    """A table that was not refused, with all that is needed to judge it."""

    table: Table
    found: Readings
    damage: Damage
    dialect: Dialect
    written: list[list[str]]

    def said(self, column: int) -> str:
        """What was remarked on a column."""
        about = f"Column {self.table.columns[column]!r}"
        return " ".join(note for note in self.found.notes if about in note)

    def untouched(self, column: int, n: int) -> list[int]:
        """Rows of a column that must be read as they were written."""
        return [i for i in range(n) if (i, column) not in self.damage.cells]


def _compare(read: Read, truth: Truth) -> list[str]:
    """What is wrong with what was read."""
    if read.damage.says:
        return [f"read, though {read.damage.says!r} was expected"]
    n, whole = len(read.found.y), len(truth.y) if read.damage.whole is None else read.damage.whole
    if not whole <= n <= len(truth.y) or len(read.table.columns) != len(COLUMNS):
        return [f"{n} rows of {len(truth.y)}, {len(read.table.columns)} columns"]
    columns = {COLUMNS.index("y"): read.found.y}
    if read.found.target != read.table.columns[-1]:
        return [f"the target is {read.found.target!r}"]
    for feature, values in zip(read.found.features, read.found.X.T, strict=True):
        # A damaged cell may be the first time, and the others count from it.
        late = (datetime.fromisoformat(feature.origin) - truth.start) / timedelta(hours=1) if feature.is_time else 0.0
        columns[read.table.columns.index(feature.columns[0])] = values + late
    return _wrong_columns(read, truth, columns)


def _wrong_columns(read: Read, truth: Truth, columns: dict[int, np.ndarray]) -> list[str]:
    wrong = []
    for j, values in enumerate((truth.hours, truth.x, None, truth.y)):
        if values is None:
            continue
        if j not in columns:
            useless = j == 1 and np.ptp(values[: len(read.found.y)]) == 0.0
            wrong += [] if useless or "Not used" in read.said(j) else [f"column {j} is not used, without a word"]
            continue
        rows = read.untouched(j, len(read.found.y))
        bad = [i for i in rows if not _same(columns[j][i], values[i])]
        if bad and not _excused(read, truth, j, columns[j]):
            i = bad[0]
            cell = read.written[i + 1][j]
            wrong.append(
                f"{len(bad)} values of column {j} are not those that were written: {cell!r} is {columns[j][i]:.15g} "
                f"(damaged: {sorted(read.damage.cells)}, notes: {read.found.notes})"
            )
    return wrong


def _excused(read: Read, truth: Truth, column: int, values: np.ndarray) -> bool:
    """Whether it was said which of two readings was taken, and the other one fits every cell that is not damaged."""
    said = read.said(column)
    if column == 0 and "was taken to come first" not in said:
        return False
    if column and not _says_the_other(said, read.dialect):
        return False
    for i in read.untouched(column, len(values)):
        cell = read.written[i + 1][column]
        try:
            other = _other_hours(cell, read.dialect, truth) if column == 0 else _other_number(cell, read.dialect)
        except ValueError:
            return False
        if not _same(values[i], other):
            return False
    return True


def _says_the_other(said: str, dialect: Dialect) -> bool:
    """Whether a remark tells that thousands were read as decimals, or decimals as thousands."""
    note = re.search("(commas|points) were read as (decimal|thousands) marks", said)
    if note is None:
        return False
    meant = dialect.thousands if note[2] == "decimal" else dialect.decimal
    return meant == {"commas": ",", "points": "."}[note[1]]


def _other_hours(cell: str, dialect: Dialect, truth: Truth) -> float:
    """A time with day and month exchanged."""
    exchanged = dialect.date_form.translate(str.maketrans("dm", "md"))
    when, zone = datetime.strptime(cell.removesuffix(dialect.zone), exchanged), ZONES[dialect.zone]
    if isinstance(zone, int | float):
        when -= timedelta(hours=zone)
    elif zone is not None:
        when = when.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None)
    return (when - truth.start) / timedelta(hours=1)


def _other_number(cell: str, dialect: Dialect) -> float:
    """A number with points for commas and commas for points."""
    if cell == dialect.absent:
        return np.nan
    other = "," if dialect.decimal == "." else "."
    plain = cell.replace("−", "-").replace(dialect.decimal, "").replace(other, ".")
    return float(re.sub(r"[^0-9.-]", "", plain))


def _same(read: float, value: float) -> bool:
    return bool(np.isclose(read, value, rtol=1e-9, atol=1e-6, equal_nan=True))


def draw_dialect(rng: Rng) -> Dialect:
    """Any way of writing that is not ambiguous by itself."""
    decimal = _pick(rng, [".", ","])
    other = "," if decimal == "." else "."
    encoding = _pick(rng, ["utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"])
    spaces = [" ", "\u00a0", *(["\u202f"] if encoding != "cp1252" else [])]
    zone = _pick(rng, list(ZONES)) if rng.random() < 0.4 else ""
    forms = [form for form in DATE_FORMS if form != "%Y-%m-%d"] if zone else list(DATE_FORMS)
    forms = [form for form in forms if form != "%Y%m%dT%H%M%S" or zone in ("", "Z")]
    return Dialect(
        _pick(rng, [",", ";", "\t", "|"]),
        decimal,
        _pick(rng, ["", "", "", other, "'", "’", *spaces]),
        int(rng.integers(0, 5)),
        bool(rng.random() < 0.4),
        _pick(rng, forms),
        zone,
        _pick(rng, ["\n", "\r\n", "\r", "\r\r\n"]),
        encoding,
        bool(rng.random() < 0.3),
        _pick(rng, ["", "NA", "-", "NaN", " "]),
    )


def draw_rows(rng: Rng, dialect: Dialect) -> tuple[Truth, list[list[str]]]:
    """The truth, and header and rows of text before they are quoted."""
    n = int(rng.integers(8, 40))
    step = timedelta(days=1) if dialect.date_form == "%Y-%m-%d" else timedelta(minutes=int(rng.integers(1, 3000)))
    start = datetime(int(rng.integers(1971, 2060)), int(rng.integers(1, 13)), int(rng.integers(1, 29)))
    clock = [(start + i * step).replace(tzinfo=UTC) for i in range(n)]
    hours = np.arange(n) * step.total_seconds() / 3600.0
    scale = 10.0 ** rng.uniform(-1.0, 6.0)
    x = np.round(scale * rng.uniform(-0.2 if rng.random() < 0.5 else 0.1, 1.0, n), dialect.places)
    y = np.round(10.0 ** rng.uniform(0.0, 5.0) * rng.uniform(0.1, 1.0, n), dialect.places)
    y[rng.random(n) < 0.1] = np.nan
    encodable = [name for name in NAMES if dialect.encoding != "cp1252" or name != "π"]
    target = _pick(rng, encodable)
    rows = [["time", "x", "note", target]]
    for i in range(n):
        note = _pick(rng, ["", "ok", "a, b; c", 'said "no"', "two\nlines", "ça"])
        rows.append([_time(clock[i], dialect), _number(x[i], dialect), note, _number(y[i], dialect)])
    return Truth(target, start, hours, x, y), rows


def _time(when: datetime, dialect: Dialect) -> str:
    zone = ZONES[dialect.zone]
    if zone is None:
        return when.strftime(dialect.date_form)
    local = when + timedelta(hours=zone) if isinstance(zone, int | float) else when.astimezone(zone)
    return local.strftime(dialect.date_form) + dialect.zone


def _number(value: float, dialect: Dialect) -> str:
    if np.isnan(value):
        return dialect.absent
    text = f"{abs(value):,.{dialect.places}f}"
    if dialect.trimmed and "." in text:
        text = text.rstrip("0").rstrip(".")
    whole, _, part = text.partition(".")
    whole = whole.replace(",", dialect.thousands)
    minus = "−" if value < 0 and dialect.encoding != "cp1252" and dialect.trimmed else "-"
    return (minus if value < 0 else "") + whole + (dialect.decimal + part if part else "")


def _text(rows: list[list[str]], dialect: Dialect) -> tuple[str, list[Cell]]:
    """The text of a table, and whose each of its characters is; a separator is of the cell that it ends."""
    pieces, owners = [], []
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            if dialect.quote_all or any(mark in cell for mark in (dialect.sep, '"', "\n", "\r")):
                cell = '"' + cell.replace('"', '""') + '"'
            pieces.append(cell + (dialect.sep if j < len(row) - 1 else dialect.line_end))
            owners += [(i - 1, j)] * len(pieces[-1])
    return "".join(pieces), owners


def _write(path: Path, rows: list[list[str]], dialect: Dialect) -> Damage:
    path.write_bytes(_text(rows, dialect)[0].encode(dialect.encoding, errors="replace"))
    return Damage()


def _junk(rng: Rng, rows: list[list[str]], dialect: Dialect, path: Path) -> Damage:
    """A cell of the target that is no number."""
    i = int(rng.integers(1, len(rows)))
    rows[i][-1] = _pick(rng, [cell for cell in JUNK if dialect.encoding != "cp1252" or cell.isascii()])
    _write(path, rows, dialect)
    return Damage("Column")


def _open_quote(rng: Rng, rows: list[list[str]], dialect: Dialect, path: Path) -> Damage:
    text, owners = _text(rows, dialect)
    cell = int(rng.integers(len(rows) - 1)), int(rng.integers(len(rows[0])))
    at = owners.index(cell)
    path.write_bytes((text[:at] + '"' + text[at:]).encode(dialect.encoding, errors="replace"))
    return Damage(cells=frozenset({cell}))


def _lost_cell(rng: Rng, rows: list[list[str]], dialect: Dialect, path: Path) -> Damage:
    i = int(rng.integers(1, len(rows)))
    del rows[i][int(rng.integers(len(rows[i])))]
    _write(path, rows, dialect)
    return Damage("line ")


def _one_character(rng: Rng, rows: list[list[str]], dialect: Dialect, path: Path) -> Damage:
    text, owners = _text(rows, dialect)
    at = int(rng.integers(len(text)))
    new = _pick(rng, ["", "", *'0123456789.,;-+e "\n\r\t|%x\ufeff'])
    gone = int(rng.integers(0, 2))
    path.write_bytes((text[:at] + new + text[at + gone :]).encode(dialect.encoding, errors="replace"))
    return Damage(cells=frozenset(owners[at : at + 1 + gone]))


def _cut_short(rng: Rng, rows: list[list[str]], dialect: Dialect, path: Path) -> Damage:
    text, owners = _text(rows, dialect)
    data = text.encode(dialect.encoding, errors="replace")
    size = int(rng.integers(len(data)))
    path.write_bytes(data[:size])
    cell = _owners_of_bytes(text, owners, dialect)[size]
    return Damage(cells=frozenset({cell}), whole=max(cell[0], 0))


def _odd_bytes(rng: Rng, rows: list[list[str]], dialect: Dialect, path: Path) -> Damage:
    text, owners = _text(rows, dialect)
    data, whose = bytearray(text.encode(dialect.encoding, errors="replace")), _owners_of_bytes(text, owners, dialect)
    cells = set()
    for _ in range(int(rng.integers(1, 3))):
        at = int(rng.integers(len(data)))
        data.insert(at, int(rng.integers(256)))
        whose.insert(at, whose[at])
        cells.add(whose[at])
    path.write_bytes(bytes(data))
    return Damage(cells=frozenset(cells))


def _owners_of_bytes(text: str, owners: list[Cell], dialect: Dialect) -> list[Cell]:
    mark = len("".encode(dialect.encoding))
    sizes = [len(character.encode(dialect.encoding, errors="replace")) - mark for character in text]
    return [owners[0]] * mark + [cell for cell, size in zip(owners, sizes, strict=True) for _ in range(size)]


def _headless(rng: Rng, rows: list[list[str]], dialect: Dialect, path: Path) -> Damage:
    rows = [[row[0], row[1], row[3]] for row in rows[1:] if row[3].strip(" -NAa")]
    _write(path, rows, dialect)
    return Damage("--no-header" if len(rows) > 3 else "usable rows")


DAMAGES: dict[str, Callable[[Rng, list[list[str]], Dialect, Path], Damage]] = {
    "junk": _junk,
    "open quote": _open_quote,
    "lost cell": _lost_cell,
    "one character": _one_character,
    "cut short": _cut_short,
    "odd bytes": _odd_bytes,
    "headless": _headless,
}


def _pick(rng: Rng, choices: list[str]) -> str:
    return choices[int(rng.integers(len(choices)))]
