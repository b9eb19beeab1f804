"""A fit of a project, in a process of its own: `python -m biasgp.app.worker`, started by `job.py`.

It reads one line of JSON on standard input, what to fit, and writes lines of JSON on standard output, how far it is. It
ends when its standard input does, so that none is left when the server is killed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biasgp import staging, watch
from biasgp.analysis.judging import Analysis, analyse
from biasgp.analysis.verdicts import KEPT, with_verdicts
from biasgp.analysis.view import FitView
from biasgp.app.forecast import Forecast, forecast
from biasgp.app.journal import Journal, Judgements
from biasgp.app.loaded import Loaded, Rows
from biasgp.app.options import EVENTS, Options, on_page
from biasgp.app.project import ABOUT, FITS, JOURNAL, Fit, fits_in
from biasgp.data.columns import Readings
from biasgp.data.table import Table
from biasgp.estimators.base import BaseGP
from biasgp.messages import FailedFitError, TableError, WrongUseError
from biasgp.persistence import ModelFileError, load_model
from biasgp.report.files import write_results
from biasgp.report.pages import plotly_script

BETWEEN_LINES = 0.2
"""Seconds between two reports of progress."""
GROUPS, PLOTLY_BESIDE = "groups", "../../plotly.min.js"
WHOLE = "."
"""Where the results are, in the folder of a fit: of each sensor, and of the only fit."""


@dataclass
class _Reporter:
    """Tells the server how far the fit is."""

    parts: int = 1
    finished: int = 0
    name: str = ""
    _last: float = 0.0
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def hear(self, ledger: watch.Ledger) -> None:
        """Called at each piece of work."""
        now = time.monotonic()
        if now - self._last < BETWEEN_LINES:
            return
        self._last = now
        self.say(ledger.stage, ledger.left if ledger.measured and ledger.left > 0.0 else None)

    def say(self, stage: str, left: float | None = None) -> None:
        """The stage, and the seconds left of this part of the work."""
        elapsed = time.monotonic() - self._began
        done = None
        if self.parts > 1:
            done = self.finished / self.parts
            # The rest will take as long as those before, on average.
            left = elapsed / self.finished * (self.parts - self.finished) if self.finished else None
            stage = f"{self.name} ({self.finished + 1} of {self.parts}): {stage}"
        elif left is not None:
            done = elapsed / (elapsed + left)
        self.send({"stage": stage or "fitting", "left": left, "done": done})

    def send(self, message: dict[str, Any]) -> None:
        with self._lock:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()


@dataclass(frozen=True)
class _Work:
    """What is fitted: a table as options say, with verdicts; and the fit before, if it is of the same table."""

    loaded: Loaded
    judgements: Judgements
    before: Fit | None
    stage: Path
    reporter: _Reporter

    def part(self, sensor: str) -> dict[str, Any]:
        """Fit one sensor, or the whole table, into its place; returns what is told of it."""
        place = f"{GROUPS}/{self.loaded.groups[sensor].slug}" if sensor else WHOLE
        folder = self.stage / place
        folder.mkdir(parents=True, exist_ok=True)
        table, readings, rows = self.loaded.part(sensor)
        digest = self.judgements.digest(rows)
        unchanged = self._unchanged(sensor, digest)
        if unchanged is not None and self.before is not None:
            shutil.copytree(self.before.folder / place, folder, dirs_exist_ok=True)
            return unchanged
        began = time.monotonic()
        readings = self._judged(table, readings, rows)
        known = self._known(sensor, self.loaded.settings.split(readings).fit)
        outcome = self._analysed(known, table, readings)
        self.reporter.say("writing")
        write_results(folder, table, outcome, PLOTLY_BESIDE if sensor else "")
        FitView.of(outcome, rows).save(folder)
        about = {"digest": digest, "seconds": time.monotonic() - began, "again": known is not None}
        return _told(sensor, place, outcome) | about

    def forecast(self, before: Iterable[Fit]) -> Forecast:
        """How long all parts together will take."""
        ahead = []
        for sensor in self.loaded.groups or [""]:
            rows = self.loaded.groups[sensor].rows if sensor else None
            if self._unchanged(sensor, self.judgements.digest(rows)) is None:
                n = int(self.loaded.inside(sensor or None).sum())
                ahead.append((n, self._can_begin_with_known))
        return forecast(ahead, [part for fit in before for part in fit.about["parts"]])

    @property
    def _can_begin_with_known(self) -> bool:
        return self.before is not None and self.before.about["options"] == self.loaded.options.plain()

    def _unchanged(self, sensor: str, digest: str) -> dict[str, Any] | None:
        """What the fit before said of a sensor, where all that it depends on is the same; never of a whole table."""
        if not sensor or self.before is None or self.before.about["options"] != self.loaded.options.plain():
            return None
        found = next((each for each in self.before.about["parts"] if each["name"] == sensor), None)
        return found if found is not None and found["status"] == "ok" and found["digest"] == digest else None

    def _judged(self, table: Table, readings: Readings, rows: Rows | None) -> Readings:
        """The readings with what was said of them."""
        said = verdict_frame(self.judgements, rows)
        if not len(said) or not self.loaded.settings.knows_verdicts:
            return readings
        return with_verdicts(readings, table, self.stage / "nothing", Table(KEPT, said.astype(str)))

    def _analysed(self, known: BaseGP | None, table: Table, readings: Readings) -> Analysis:
        settings, selection = self.loaded.settings, self.loaded.selection
        if readings.judged is not None:
            selection = replace(selection, verdicts=KEPT)
        events = EVENTS if self.loaded.options.events else None
        selection = replace(selection, source=self.loaded.path.name, events=events)
        split = settings.split(readings)
        with watch.Watch(ledger=watch.Ledger(self.reporter.hear)):
            self.reporter.say("fitting again, from what is known" if known else "fitting")
            return analyse(selection, settings, table.name, readings, split, known)

    def _known(self, sensor: str, fit_rows: Rows) -> BaseGP | None:
        """The model of the fit before, where a refit can begin with it: same table, options and rows."""
        if self.before is None or not self._can_begin_with_known:
            return None
        try:
            model: Any = load_model(self.before.place(sensor or None) / "model.skops")
        except (ModelFileError, OSError, LookupError):
            return None
        same = hasattr(model, "refit") and len(getattr(model, "verdict_", ())) == len(fit_rows)
        return model if same else None


def verdict_frame(judgements: Judgements, rows: Rows | None = None) -> pd.DataFrame:
    """The verdicts as `biasgp fit --verdicts` reads them; `rows` are those of a sensor, whose own count from 1 then."""
    own = judgements.rows if rows is None else np.flatnonzero(judgements.codes[rows] != 0)
    about = [judgements.about(int(row if rows is None else rows[row])) for row in own]
    return pd.DataFrame(
        {"row": own + 1, **{name: [each[name] for each in about] for name in about[0]}} if about else {}
    )


def _told(sensor: str, place: str, outcome: Analysis) -> dict[str, Any]:
    """What is said of one fit beside others."""
    return {
        "name": sensor,
        "place": place,
        "status": "ok",
        "message": " ".join(outcome.doubts),
        "readings": int(outcome.readings.kept.sum()),
        "flagged": int(outcome.flagged.sum()),
        "episodes": len(outcome.episode_records),
        "trustworthy": not outcome.doubts,
        "doubt": _doubt(outcome),
    }


def _doubt(outcome: Analysis) -> float:
    """Share of the readings whose label is open: the mean of 4 p (1 - p)."""
    probability = outcome.verdict.probability[outcome.readings.kept]
    known = probability[np.isfinite(probability)]
    return float(np.mean(4.0 * known * (1.0 - known))) if len(known) else 0.0


def fit_project(request: dict[str, Any], reporter: _Reporter) -> None:
    """Make one fit of a project, as a request says; it is there as a whole or not at all."""
    folder, name = Path(request["folder"]), request["fit"]
    began = time.monotonic()
    loaded = Loaded.of(folder / request["table"], Options().changed(request["options"]))
    if loaded.problem or loaded.table is None or loaded.readings is None:
        raise WrongUseError(loaded.problem)
    history = Journal(folder / JOURNAL, request["version"]).history(request["sha256"], loaded.readings.target)
    judgements = history.verdicts(len(loaded.table))
    before = None
    if request["before"]:
        path = folder / FITS / request["before"]
        before = Fit(path, json.loads((path / ABOUT).read_text(encoding="utf-8")))
    target = folder / FITS / name
    with staging.stage(target) as stage:
        work = _Work(loaded, judgements, before, stage, reporter)
        ahead = work.forecast(fits_in(folder / FITS))
        reporter.send({"typical": time.monotonic() - began + ahead.typical, "spread": ahead.spread})
        parts = _parts(work)
        about = {
            "id": name,
            "made": datetime.now().astimezone().isoformat(timespec="seconds"),
            "seconds": time.monotonic() - began,
            "table": request["sha256"],
            "target": loaded.readings.target,
            "options": loaded.options.plain(),
            "digest": judgements.digest(),
            "parts": parts,
        }
        (stage / ABOUT).write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")
        for path in stage.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
        stage.rename(target)


def _parts(work: _Work) -> list[dict[str, Any]]:
    """The fit of the table, or of each sensor; one that fails is told, and the others go on."""
    if not work.loaded.groups:
        return [work.part("")]
    found = []
    names = list(work.loaded.groups)
    work.reporter.parts = len(names)
    for name in names:
        work.reporter.name = name
        try:
            found.append(work.part(name))
        except (TableError, WrongUseError, FailedFitError) as error:
            failed = {
                "status": "failed",
                "message": on_page(str(error)),
                "readings": len(work.loaded.groups[name].rows),
            }
            nothing = {"flagged": 0, "episodes": 0, "trustworthy": False, "doubt": 0.0, "digest": "", "seconds": 0.0}
            found.append({"name": name, "place": "", **failed, **nothing})
        work.reporter.finished += 1
    (work.stage / Path(PLOTLY_BESIDE).name).write_text(plotly_script(), encoding="utf-8")
    if not any(each["status"] == "ok" for each in found):
        raise FailedFitError(f"No sensor could be fitted. The first: {found[0]['message']}")
    return found


def _end_with_server() -> None:
    """Standard input ends when the server does, however that ended."""
    while sys.stdin.read(1):
        pass
    os._exit(1)


def main() -> None:
    """Read what to fit, fit it, and say how it went."""
    line = sys.stdin.readline()
    if not line:  # the server has ended before there was anything to do
        return
    request = json.loads(line)
    threading.Thread(target=_end_with_server, daemon=True).start()
    reporter = _Reporter()
    reporter.say("reading")
    try:
        fit_project(request, reporter)
    except (TableError, WrongUseError, FailedFitError) as error:
        reporter.send({"error": on_page(str(error))})
    except MemoryError:
        reporter.send({"error": "Not enough memory. Use fewer rows: choose the rows to use."})
    except OSError as error:
        reporter.send({"error": f"The results could not be written: {error.strerror or error}."})
    except Exception as error:
        if os.environ.get("BIASGP_DEBUG"):
            raise
        detail = " ".join(str(error).split())
        reporter.send({"error": f"This should not have happened ({type(error).__name__}: {detail})."})
    else:
        reporter.send({"finished": True})
    sys.stdout.flush()
    os._exit(0)  # whatever threads wait


if __name__ == "__main__":
    main()
