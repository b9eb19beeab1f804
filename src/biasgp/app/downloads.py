"""What can be taken away: results of the current fit, the verdicts, and the command that does the same."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pandas as pd

from biasgp.analysis.verdicts import KEPT, with_verdicts
from biasgp.app.project import Fit, MissingError, Project
from biasgp.app.worker import PLOTLY_BESIDE, verdict_frame
from biasgp.data.table import Table
from biasgp.report.inert import inert
from biasgp.report.pages import standalone

RESULTS = ("cleaned.csv", "report.html", "model.skops", "summary.json")


def _current_fit(project: Project) -> Fit:
    """The current fit, or a word that there is none."""
    fit = project.current()
    if fit is None:
        raise MissingError("There is no fit yet. Fit first.")
    return fit


def result_file(project: Project, name: str, sensor: str | None) -> Path:
    """A file of the current fit, of a sensor where there are several."""
    if name not in RESULTS:
        raise MissingError("There is no such file.")
    path = _current_fit(project).place(sensor) / name
    if not path.is_file():
        raise MissingError(f"{name} is gone from this fit. Fit again.")
    return path


def report_html(project: Project, sensor: str | None) -> str:
    """The report in one file: those of sensors lie on disk without plotly, of which each would have a copy."""
    text = result_file(project, "report.html", sensor).read_text(encoding="utf-8")
    return standalone(text, PLOTLY_BESIDE) if _current_fit(project).part(sensor)["name"] else text


def verdicts_csv(project: Project) -> str:
    """All verdicts as they are now, for `biasgp fit --verdicts`; with the column that names the sensor, if any."""
    loaded, judgements = project.readable(), project.judgements()
    parts = []
    for sensor in loaded.groups or [""]:
        said = verdict_frame(judgements, loaded.groups[sensor].rows if sensor else None)
        if not len(said):
            continue
        table, readings, _ = loaded.part(sensor)
        found = with_verdicts(readings, table, project.folder / "nothing", Table(KEPT, said.astype(str))).judged
        assert found is not None
        if sensor:
            found.insert(0, str(loaded.options.by), sensor)
        parts.append(found)
    if not parts:
        return "row,verdict,who,when,why\n"
    return str(inert(pd.concat(parts, ignore_index=True)).to_csv(index=False))


def events_csv(project: Project) -> str:
    """The dates of service, for `biasgp fit --events`."""
    events = project.options.events_table()
    if events is None:
        raise MissingError("There are no dates of service.")
    return str(inert(events.cells).to_csv(index=False))


def command_text(project: Project) -> str:
    """The command line that makes the current fit again, with the files that it needs beside it."""
    fit = _current_fit(project)
    said = json.loads((fit.place(None) / "summary.json").read_text(encoding="utf-8"))["command"]
    if fit.about["options"]["by"] is not None:
        said += " " + shlex.join(["--by", fit.about["options"]["by"]])
        if len(project.judgements().rows) and "--verdicts" not in said:
            said += f" --verdicts {KEPT}"
    return f"{said}\n"
