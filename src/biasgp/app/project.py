"""A project: the folder that holds a table, what was said of it, and its fits. All of it survives a crash.

Each file is whole at any moment: written beside its place and moved there, or, the journal, only ever added to.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import struct
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import file_digest
from pathlib import Path
from typing import Any

from biasgp import staging
from biasgp.analysis.view import FitView
from biasgp.app.carrying import Carried, carried
from biasgp.app.explaining import Explainers
from biasgp.app.journal import MARK, REDO, UNDO, History, Journal, Judgements, ranges
from biasgp.app.loaded import Loaded, Rows
from biasgp.app.options import Options
from biasgp.messages import WrongUseError

FORMAT = 1
"""Of project.json; one that is newer is refused."""
SETTINGS, JOURNAL, TABLE, FITS, ABOUT = "project.json", "verdicts.jsonl", "table", "fits", "fit.json"
LOCK, PLACE = ".server.lock", ".server.json"
KEPT_VIEWS = 8
"""Views in memory: those of 100,000 readings have some 20 MB each."""
LONGEST_NAME = 100
"""Characters of a table's name."""
LONGEST_REASON = 500
MOST_EXPANDED = 1_000_000_000
"""Bytes of a workbook that is not compressed: a million rows have some hundred megabytes."""
PART = re.compile(r"\.|groups/[A-Za-z0-9_-]+|")
"""Where the results of a part are, in the folder of a fit."""
NUMBERS = ("readings", "flagged", "episodes", "trustworthy", "doubt", "seconds")
"""What is counted of each part."""
HEAD = 65_536
"""Bytes by which a file is told to be no text."""
RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")
"""Names that Windows keeps for devices."""
READ_BY = ("sep", "encoding", "na", "decimal", "day_first", "header")
"""Options that change how the file is cut into cells."""


class ConflictError(RuntimeError):
    """What was asked for cannot be done now."""


class MissingError(LookupError):
    """What was asked for is not there (yet)."""


@dataclass(frozen=True)
class Fit:
    """One fit of a project, or of each of its sensors."""

    folder: Path
    about: dict[str, Any]

    @property
    def id(self) -> str:
        return self.folder.name

    def part(self, sensor: str | None) -> dict[str, Any]:
        """What is told of the fit of a sensor; of the only one where there are none."""
        parts: list[dict[str, Any]] = self.about["parts"]
        if sensor is None:
            return next((each for each in parts if each["status"] == "ok"), parts[0])
        found = next((each for each in parts if each["name"] == sensor), None)
        if found is None:
            raise MissingError("There is no such sensor in this fit.")
        return found

    def place(self, sensor: str | None) -> Path:
        """The folder of the results of a sensor."""
        part = self.part(sensor)
        if part["status"] != "ok":
            raise MissingError(f"This sensor has no fit: {part['message']}")
        return self.folder / str(part["place"])


class Project:
    """The folder and what is in memory of it. `lock` is held by whoever reads or changes several things at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.RLock()
        (folder / FITS).mkdir(parents=True, exist_ok=True)
        said = _settings_in(folder / SETTINGS)
        self.options = Options().changed(said.get("options", {}))
        self.name: str | None = said.get("table")
        self.sha256: str = said.get("sha256", "")
        self.journal = Journal(folder / JOURNAL)
        self._loaded: Loaded | None = None
        self._fits: list[Fit] | None = None
        self._views: OrderedDict[tuple[str, str], FitView] = OrderedDict()
        self._judged: tuple[Any, Judgements] | None = None
        self.explainers = Explainers()
        self.carried = ""
        """What became of verdicts when the table came, in words."""
        self.understood: tuple[Loaded, dict[str, Any] | None] | None = None
        staging.sweep(folder / FITS)

    # The table and its options.

    @property
    def table_path(self) -> Path:
        if self.name is None:
            raise MissingError("There is no table yet. Drop a file on the page, or choose one.")
        return self.folder / TABLE / self.name

    def loaded(self) -> Loaded:
        """The table, read once; MissingError where there is none."""
        with self.lock:
            if self._loaded is None:
                self._loaded = Loaded.of(self.table_path, self.options)
            return self._loaded

    def readable(self) -> Loaded:
        """The same, where it can be read."""
        found = self.loaded()
        if found.problem:
            raise ConflictError(found.problem)
        return found

    def take_table(self, source: Path, name: str) -> None:
        """Copy a table into the project; it takes the place of the one before, whose fits and verdicts stay."""
        name = safe_name(name)
        _refuse_bomb(source, name)
        with source.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
        with self.lock:
            if digest == self.sha256 and self.name == name and self.table_path.exists():
                return
            target = self.folder / TABLE / name
            target.parent.mkdir(exist_ok=True)
            options, loaded = self.options, Loaded.of(source, self.options)
            if loaded.problem and digest != self.sha256:
                # What was said of another table is not true of this one.
                options, loaded = Options(), Loaded.of(source, Options())
            if loaded.table is None and _is_foreign(source):
                raise WrongUseError(loaded.problem.replace(source.name, name))
            going_over = self._carried(digest, loaded)
            with staging.stage(target) as stage:
                shutil.copyfile(source, stage / "table")
                _to_disk(stage / "table")
                (stage / "table").replace(target)
            for other in target.parent.iterdir():
                if other.is_file() and other.name != name:
                    other.unlink()
            self.name, self.sha256, self.options, self._loaded = name, digest, options, None
            self._fits = None
            self.carried = "" if going_over is None else going_over.told()
            for mark in [] if going_over is None else going_over.marks:
                self._append(MARK, mark)
            self._store()

    def _carried(self, digest: str, now: Loaded) -> Carried | None:
        """What becomes of the verdicts when another table comes; None where there are none, or it has its own."""
        if self.name is None or not self.table_path.exists() or now.problem or now.readings is None:
            return None
        before = self.loaded()
        if before.problem or not len(self.judgements().rows):
            return None
        same = before.readings is not None and before.readings.names == now.readings.names
        if not same or self.journal.history(digest, now.readings.target).marks or now.readings.target != self.target:
            return None
        return carried(before, self.judgements(), now)

    def change_options(self, given: dict[str, Any]) -> None:
        """Replace some options; WrongUseError, and nothing changed, where the table cannot be read so.

        Where it cannot be read as it is, a change that leads to another problem is kept: it may be half of the way.
        """
        with self.lock:
            options = self.options.changed(given)
            if self.name is not None:
                before = self.loaded()
                alike = all(getattr(options, name) == getattr(self.options, name) for name in READ_BY)
                after = Loaded.of(self.table_path, options, before.table if alike else None)
                if after.problem and (not before.problem or after.problem == before.problem):
                    raise WrongUseError(after.problem)
                self._loaded = after
            else:
                options.settings()
            self.options = options
            self._store()

    def _store(self) -> None:
        said = {"format": FORMAT, "table": self.name, "sha256": self.sha256, "options": self.options.plain()}
        path = self.folder / SETTINGS
        with staging.stage(path) as stage:
            (stage / "file").write_text(json.dumps(said, indent=1, ensure_ascii=False), encoding="utf-8")
            _to_disk(stage / "file")
            (stage / "file").replace(path)

    # Verdicts.

    @property
    def target(self) -> str:
        readings = self.loaded().readings
        return self.options.target or "" if readings is None else readings.target

    @property
    def history(self) -> History:
        """The verdicts on this table and target."""
        return self.journal.history(self.sha256, self.target)

    def judgements(self) -> Judgements:
        """What they come to."""
        with self.lock:
            table = self.loaded().table
            key = (self.sha256, self.target, self.journal.version)
            if self._judged is None or self._judged[0] != key:
                self._judged = key, self.history.verdicts(0 if table is None else len(table))
            return self._judged[1]

    def judge(self, rows: Rows, verdict: str, why: str) -> int:
        """Say of rows, the first of which is 0, what they are; returns how many were something else before."""
        with self.lock:
            before = self.judgements().codes
            if not len(rows):
                return 0
            who = _user()
            about = {"verdict": verdict, "why": why, "who": who, "rows": ranges(rows)}
            self._append(MARK, about)
            return int((before != self.judgements().codes).sum())

    def step(self, action: str) -> int:
        """Undo or redo; returns how many rows are something else now."""
        with self.lock:
            before, history = self.judgements().codes, self.history
            if not (history.can_undo if action == UNDO else history.can_redo):
                raise ConflictError(f"There is nothing to {'undo' if action == UNDO else REDO}.")
            self._append(action, {})
            return int((before != self.judgements().codes).sum())

    def _append(self, action: str, about: dict[str, Any]) -> None:
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        self.journal.append({"action": action, "table": self.sha256, "target": self.target, "when": now, **about})

    # Fits.

    def fits(self) -> list[Fit]:
        """Those of this table, the oldest first."""
        with self.lock:
            if self._fits is None:
                self._fits = sorted(fits_in(self.folder / FITS), key=lambda fit: fit.id)
            return [fit for fit in self._fits if fit.about["table"] == self.sha256]

    def forget_fits(self) -> None:
        """Look again which there are."""
        with self.lock:
            self._fits = None

    def comparable(self) -> list[Fit]:
        """Those of this target and of these sensors, the oldest first."""
        target, by = self.target, self.options.by
        return [fit for fit in self.fits() if fit.about["target"] == target and fit.about["options"]["by"] == by]

    def current(self) -> Fit | None:
        """The last of them."""
        found = self.comparable() if self.name is not None else []
        return found[-1] if found else None

    def next_id(self) -> str:
        """The name of a new fit: larger than all that there are."""
        taken = [int(path.name) for path in (self.folder / FITS).iterdir() if path.name.isdigit()]
        return f"{max(taken, default=0) + 1:04d}"

    def is_stale(self) -> bool:
        """Whether verdicts or options have changed since the current fit."""
        fit = self.current()
        if fit is None:
            return False
        now = (self.options.plain(), self.judgements().digest())
        return now != (fit.about["options"], fit.about["digest"])

    def view(self, fit: Fit, sensor: str | None) -> FitView:
        """What a fit says of a sensor."""
        place = fit.place(sensor)
        key = (fit.id, str(place))
        with self.lock:
            if key not in self._views:
                self._views[key] = FitView.load(place)
                while len(self._views) > KEPT_VIEWS:
                    self._views.popitem(last=False)
            self._views.move_to_end(key)
            return self._views[key]

    def model_file(self, sensor: str | None) -> Path | None:
        """The model of the current fit of a sensor, where there is one."""
        fit = self.current()
        return None if fit is None else fit.place(sensor) / "model.skops"


def default_folder(table: Path | None) -> Path:
    """Where the project of a table is if nobody says: beside it."""
    return Path("biasgp-project") if table is None else table.with_name(f"{table.stem}-biasgp")


def safe_name(name: str) -> str:
    """A file name from what somebody called a table: no folders, nothing hidden, nothing that a system keeps."""
    last = re.split(r"[/\\]", name)[-1]
    plain = re.sub(r"[^\w.() -]", "_", last, flags=re.UNICODE).strip(". ")
    stem, dot, end = plain.rpartition(".")
    short = f"{stem[: LONGEST_NAME - len(end) - 1]}{dot}{end}" if stem and len(end) < 10 else plain[:LONGEST_NAME]
    while len(short.encode()) > 200:  # file systems count bytes
        short = short[1:]
    return f"_{short}" if not short or RESERVED.match(short) else short


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a project folder for this process; WrongUseError says where the server is that has it."""
    try:
        with staging.lock(folder / LOCK, folder):
            yield
    except staging.InUseError as error:
        place = _settings_in(folder / PLACE).get("url")
        where = f" It is at {place}" if isinstance(place, str) else ""
        raise WrongUseError(f"Another biasgp app has {str(folder)!r} open ({error}).{where}") from error


@contextmanager
def announced(folder: Path, url: str) -> Iterator[None]:
    """Note where the server of a folder is, for this user alone: the address holds the token."""
    path = folder / PLACE
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump({"url": url}, file)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _settings_in(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(said, dict) or not isinstance(said.get("options", {}), dict):
            raise TypeError
        if not isinstance(said.get("table"), str | None) or not isinstance(said.get("sha256", ""), str):
            raise TypeError
    except (ValueError, TypeError, RecursionError):
        raise WrongUseError(f"{str(path)!r} is not what biasgp writes there. Choose another --project.") from None
    if said.get("format", FORMAT) != FORMAT:
        raise WrongUseError(
            f"{str(path)!r} was written by a later version of biasgp. Update, or choose another --project."
        )
    if said.get("table") is not None and said["table"] != safe_name(said["table"]):
        raise WrongUseError(f"{str(path)!r} names a table outside the project. Choose another --project.")
    return said


def fits_in(folder: Path) -> Iterator[Fit]:
    """All fits in a folder of them, of whatever table."""
    for path in folder.iterdir():
        if path.name.isdigit() and (path / ABOUT).is_file():
            try:
                yield Fit(path, _checked_fit(json.loads((path / ABOUT).read_text(encoding="utf-8"))))
            except (ValueError, TypeError, KeyError, RecursionError):
                continue  # not what we write: as if it were not there


def _checked_fit(about: Any) -> dict[str, Any]:
    """What is told of a fit, if all of it is there and no part lies elsewhere; an error of some kind otherwise."""
    texts = [about[name] for name in ("made", "table", "target", "digest")]
    parts = about["parts"]
    for part in parts:
        texts += [part[name] for name in ("name", "place", "status", "message", "digest")]
        if not PART.fullmatch(part["place"]):
            raise ValueError
        if not all(isinstance(part[name], int | float) for name in NUMBERS):
            raise TypeError
    if not all(isinstance(text, str) for text in texts) or not isinstance(about["seconds"], int | float) or not parts:
        raise TypeError
    # Options that there were not yet are as if they had not been given.
    return {**about, "options": Options().changed(about["options"]).plain()}


def _refuse_bomb(path: Path, name: str) -> None:
    """Refuse a file of files (a workbook is one) that would fill the memory: no more is ever read than it announces."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(each.file_size for each in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError, struct.error):
        raise WrongUseError(f"{name} is a damaged file. Save it again.") from None
    if size > MOST_EXPANDED:
        raise WrongUseError(f"{name} holds {size / 1e9:,.1f} GB, which is too much. Save it as CSV or Parquet.")


def _is_foreign(path: Path) -> bool:
    """Whether a file is blank or of some other kind than text: no option makes a table of it."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    return not head.strip() or head.startswith((b"PK\x03\x04", b"\x1f\x8b", b"%PDF", b"PAR1"))


def _to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user, in a container
        return ""
