"""What the page is told: a project, its readings and its fits, as plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from biasgp._typing import Array
from biasgp.analysis.questions import Question
from biasgp.analysis.view import FitView, changes
from biasgp.app.journal import BAD, GOOD, OPEN, WORDS, ranges
from biasgp.app.loaded import Loaded, Rows
from biasgp.app.options import CHOICES, on_page
from biasgp.app.project import Fit, MissingError, Project
from biasgp.app.understanding import understood
from biasgp.estimators.explaining import NONE, ReadingExplanation
from biasgp.messages import WrongUseError, quantity

MAX_POINTS = 4000
"""Points that are drawn: more make a page slow and show no more."""
MAX_CHANGES = 500
"""Labels of a list of changes."""
SAID = {code: "" if word == "open" else word for word, code in WORDS.items()}
DIGITS, X_DIGITS = 6, 15


def project_view(project: Project, job: dict[str, Any] | None) -> dict[str, Any]:
    """All that the page needs to begin."""
    loaded = project.loaded() if project.name is not None else None
    table = None if loaded is None else loaded.table
    columns = [] if table is None else table.columns
    current = project.current()
    return {
        "table": None
        if loaded is None
        else {
            "name": project.name,
            "rows": 0 if table is None else len(table),
            "columns": columns,
            "sha256": project.sha256,
        },
        "understood": None if loaded is None else _understood(project, loaded),
        "problem": None if loaded is None else loaded.problem or None,
        "options": project.options.plain(),
        "choices": {**{name: list(values) for name, values in CHOICES.items()}, "columns": columns},
        "fits": [_fit_view(fit) for fit in project.fits()] if loaded is not None else [],
        "current": None if current is None else current.id,
        "stale": project.is_stale(),
        "job": job,
        "verdicts": verdicts_view(project),
        "carried": project.carried,
    }


def _understood(project: Project, loaded: Loaded) -> dict[str, Any] | None:
    """Found out once for each way in which the table is read."""
    if project.understood is None or project.understood[0] is not loaded:
        project.understood = loaded, understood(loaded)
    return project.understood[1]


def verdicts_view(project: Project) -> dict[str, Any]:
    """How many readings are judged, and what can be undone."""
    if project.name is None:
        return {"good": 0, "bad": 0, "can_undo": False, "can_redo": False, "version": project.journal.version}
    codes, history = project.judgements().codes, project.history
    return {
        "good": int((codes == GOOD).sum()),
        "bad": int((codes == BAD).sum()),
        "can_undo": history.can_undo,
        "can_redo": history.can_redo,
        "version": project.journal.version,
    }


def _fit_view(fit: Fit) -> dict[str, Any]:
    parts = [part for part in fit.about["parts"] if part["status"] == "ok"]
    return {
        "id": fit.id,
        "made": fit.about["made"],
        "seconds": fit.about["seconds"],
        "target": fit.about["target"],
        "flagged": sum(part["flagged"] for part in parts),
        "episodes": sum(part["episodes"] for part in parts),
        "trustworthy": all(part["trustworthy"] for part in parts),
        "doubts": [on_page(part["message"]) for part in parts if part["message"]],
        "sensors": len(fit.about["parts"]) if fit.about["options"]["by"] is not None else 0,
    }


def plot_view(project: Project, sensor: str | None, start: float, stop: float) -> dict[str, Any]:
    """Readings, truth and band over a range of the axis, thinned to what can be drawn."""
    loaded = project.readable()
    assert loaded.readings is not None
    sensor = _chosen(project, loaded, sensor)
    view, fitted = _view_of(project, loaded, sensor)
    path = project.model_file(sensor) if fitted and "witness" not in view.columns else None
    if path is not None:
        project.explainers.prepare(path)  # whoever sees the plot will ask why soon
    columns, codes = view.columns, project.judgements().codes[view.columns["row"]]
    x = columns["x"]
    inside = np.flatnonzero((x >= start) & (x <= stop))
    first = (codes != OPEN) | columns["flagged"] if fitted else codes != OPEN
    drawn = view.thinned(inside, first, MAX_POINTS)
    names = ("mean", "low", "high", "probability", "bias")
    curves = {name: _numbers(columns[name][drawn]) if fitted else None for name in names}
    unit = view.about["unit"]
    label = view.about["target"]
    return {
        "axis": {"kind": "time" if view.about["is_time"] else "number", "label": view.about["axis"]},
        "y_label": f"{label} ({unit})" if unit and f"({unit})" not in label and f"[{unit}]" not in label else label,
        "row": (columns["row"][drawn] + 1).tolist(),
        "x": _numbers(x[drawn], X_DIGITS),
        "y": _numbers(columns["y"][drawn]),
        **curves,
        "kind": [view.kind(i) for i in drawn.tolist()],
        "verdict": [SAID[code] for code in codes[drawn].tolist()],
        "flagged": columns["flagged"][drawn].tolist(),
        "episodes": [each for each in view.about["episodes"] if each["stop"] >= start and each["start"] <= stop],
        "doubts": [on_page(text) for text in view.about["doubts"]],
        "notes": [on_page(text) for text in view.about["notes"]],
        "total": len(inside),
        "drawn": len(drawn),
        "sensor": sensor,
    }


def _view_of(project: Project, loaded: Loaded, sensor: str | None) -> tuple[FitView, bool]:
    """What the current fit says of a sensor, and whether there is one; without, the readings alone."""
    sensor = _chosen(project, loaded, sensor)
    fit = project.current()
    if fit is not None:
        try:
            return project.view(fit, sensor), True
        except MissingError:
            if sensor is None:
                raise
    return _readings_view(loaded, sensor), False


def _chosen(project: Project, loaded: Loaded, sensor: str | None) -> str | None:
    """The sensor that is meant: the worst, where there are several and none is named."""
    if sensor is not None and sensor not in loaded.groups:
        raise MissingError("There is no such sensor in this table.")
    return _sensor_names(project, loaded)[0] if loaded.groups and sensor is None else sensor


def _sensor_names(project: Project, loaded: Loaded) -> list[str]:
    """Sensors, the worst of the current fit first."""
    fit = project.current()
    if fit is None:
        return list(loaded.groups)
    known = [part["name"] for part in sorted(fit.about["parts"], key=_badness)]
    return [*(name for name in known if name in loaded.groups), *(name for name in loaded.groups if name not in known)]


def _badness(part: dict[str, Any]) -> tuple[Any, ...]:
    """Those that have no fit first, then those not to be trusted, then by their doubts and flags."""
    share = part["flagged"] / max(part["readings"], 1)
    return part["status"] == "ok", part["trustworthy"], -(part["doubt"] + share), part["name"]


def _readings_view(loaded: Loaded, sensor: str | None) -> FitView:
    """The readings alone, before there is a fit."""
    readings, axis = loaded.readings, loaded.axis
    assert readings is not None
    rows = np.flatnonzero(loaded.inside(sensor))
    rows = rows[np.argsort(axis.values[rows], kind="stable")]
    nothing = np.full(len(rows), np.nan)
    columns = {
        "row": rows,
        "x": axis.values[rows],
        "y": readings.y[rows],
        "flagged": np.zeros(len(rows), dtype=bool),
        "probability": nothing,
        "index": np.full(len(rows), -1),
    }
    about = {"target": readings.target, "unit": "", "axis": axis.label, "is_time": axis.is_time, "kinds": [""]}
    return FitView(about | {"episodes": [], "doubts": [], "notes": [], "named": [], "sets": []}, columns)


def queue_view(project: Project, sensor: str | None, most: int) -> list[dict[str, Any]]:
    """What is worth asking somebody, the first first: about single readings, and about several as one."""
    view, fitted = _view_of(project, project.readable(), sensor)
    if not fitted:
        return []
    judgements = project.judgements()
    judged = judgements.codes[view.columns["row"]] != OPEN
    found = view.questions(judged, judgements.passed, most)
    ends = [view.when(np.array([each.rows[i] for each in found], dtype=np.intp)) for i in (0, -1)]
    return [_asked(view, each, *when) for each, when in zip(found, zip(*ends, strict=True), strict=True)]


def _asked(view: FitView, question: Question, when: str, until: str) -> dict[str, Any]:
    columns, places = view.columns, np.array(question.rows, dtype=np.intp)
    rows, of = columns["row"][places], question.of
    told: dict[str, Any] = {
        "row": int(rows[0]) + 1,
        "rows": ranges(rows),
        "count": len(rows),
        "when": when,
        "until": until,
        "x": _number(columns["x"][places[0]]),
        "probability": _number(columns["probability"][places[0]] if of is None else of.probability),
        "reason": view.reason(question),
        "worth": _number(question.worth),
    }
    if of is None:
        return told | {"words": _in_short(view, int(places[0]))}
    share = f"{len(rows):,} readings, {len(rows) / len(columns['row']):.0%} of all"
    flagged = int(columns["flagged"][places].sum())
    taken = "taken for good" if not flagged else "flagged" if flagged == len(rows) else f"{flagged:,} of them flagged"
    return told | {"words": f"{share}, {taken}", "if_bad": of.if_bad, "if_good": of.if_good}


def _in_short(view: FitView, place: int) -> str:
    unit, columns = view.about["unit"], view.columns
    read = quantity(float(columns["y"][place]), unit)
    expected = columns.get("expected", columns["mean"])[place]
    kind = view.kind(place) or "good"
    return f"{read} read, {quantity(float(expected), unit)} expected; taken for {kind}"


def explain_view(project: Project, row: int, *, with_neighbours: bool = True) -> dict[str, Any]:
    """Why a reading, the first of which is 0, was flagged or was not.

    Where its neighbours were not found out with the fit, the model is asked, which takes longer than all else; without
    them, they are pending.
    """
    loaded = project.readable()
    assert loaded.readings is not None
    if not 0 <= row < len(loaded.usable):
        raise MissingError(f"The table has no row {row + 1}.")
    if not loaded.usable[row]:
        raise MissingError(f"Row {row + 1} is not used: a value is missing, or the rows to use leave it out.")
    sensor = loaded.sensor_of[row] if loaded.groups else None
    if loaded.groups and sensor is None:
        raise MissingError(f"Row {row + 1} names no sensor.")
    view, fitted = _view_of(project, loaded, sensor)
    place = int(view.places(np.array([row]))[0])
    if not fitted or place < 0:
        raise MissingError("There is no fit that says anything of this reading. Fit first.")
    said = project.judgements().about(row)
    about = {"row": row + 1, "when": view.when(np.array([place]))[0], "sensor": sensor} | {
        name: said[name] for name in ("verdict", "why", "who")
    }
    why = view.explanation(place)
    if why is None:
        return about | _without_explanation(view, place)
    witnesses: Sequence[tuple[int, float]] | None = view.witnesses(place)
    if witnesses is None and with_neighbours:
        witnesses = _witnesses(project, sensor, view, place)
    words = why.told(f"row {row + 1}", view.about["unit"])
    needed = [sentence for sentence in _sentences(words) if sentence.startswith("For it to be good")]
    return about | {
        "reading": why.read,
        "expected": _number(why.expected),
        "std": _number(why.expected_std),
        "kind": "" if why.kind == NONE else why.kind,
        "probability": _number(why.probability),
        "log_odds": _number(why.log_odds),
        "prior": _number(why.prior),
        "evidence": _number(why.evidence),
        "words": [sentence for sentence in _sentences(words) if sentence not in needed],
        "neighbours": [_neighbour(view, why, *each) for each in witnesses or ()],
        "pending": witnesses is None,
        "needed": needed[0] if needed else _good_already(why, view.about["unit"]),
    }


def _good_already(why: ReadingExplanation, unit: str) -> str:
    return f"It is taken for good: the truth there would be {quantity(why.f_if_good, unit)}."


def _without_explanation(view: FitView, place: int) -> dict[str, Any]:
    """Of a reading that the fit did not hold, or of a method that does not say why."""
    columns = view.columns
    expected = float(columns.get("expected", columns["mean"])[place])
    log_odds = float(columns["log_odds"][place]) if "log_odds" in columns else math.nan
    std = (columns["high"][place] - columns["low"][place]) / (2.0 * 1.96)
    reason = "it was judged by the fit to other rows" if "log_odds" in columns else "this method does not say why"
    return {
        "reading": float(columns["y"][place]),
        "expected": _number(expected),
        "std": _number(std),
        "kind": view.kind(place),
        "probability": _number(columns["probability"][place]),
        "log_odds": _number(log_odds),
        "prior": None,
        "evidence": None,
        "words": [f"{_in_short(view, place)} ({reason})."],
        "neighbours": [],
        "pending": False,
        "needed": "",
    }


def _sentences(text: str) -> list[str]:
    """Sentences of an explanation: they end in a point and a space, before a capital letter."""
    parts, start = [], 0
    for i in range(len(text) - 2):
        if text[i : i + 2] == ". " and text[i + 2].isupper():
            parts.append(text[start : i + 1])
            start = i + 2
    return [*parts, text[start:]]


def _witnesses(project: Project, sensor: str | None, view: FitView, place: int) -> Sequence[tuple[int, float]]:
    """Readings that matter to the odds of another, by their places in the view, and the odds without each."""
    path = project.model_file(sensor)
    index = view.columns["index"]
    why = None if path is None else project.explainers.explain(path, int(index[place]))
    if why is None:
        return []
    by_index = np.full(int(index.max()) + 1, -1)
    fitted = np.flatnonzero(index >= 0)
    by_index[index[fitted]] = fitted
    return [(int(by_index[row]), without) for row, without in why.witnesses]


def _neighbour(view: FitView, why: ReadingExplanation, place: int, without: float) -> dict[str, Any]:
    effect = why.log_odds - without
    changes_it = (without > 0.0) != (why.log_odds > 0.0)
    words = (
        f"It speaks {'against' if effect > 0.0 else 'for'} the reading: without it the log odds would be {without:+.1f}"
    )
    if changes_it:
        words += f", and the reading taken for {'bad' if without > 0.0 else 'good'}"
    return {
        "row": int(view.columns["row"][place]) + 1,
        "when": view.when(np.array([place]))[0],
        "x": _number(view.columns["x"][place]),
        "effect": _number(effect),
        "decisive": changes_it,
        "words": f"{words}.",
    }


def changes_view(project: Project, sensor: str | None) -> dict[str, Any]:
    """What the current fit says differently from the one before."""
    loaded = project.readable()
    fits = project.comparable()
    if len(fits) < 2:
        raise MissingError("There is one fit or none. Fit again to see what changes.")
    sensor = _chosen(project, loaded, sensor)
    views = [project.view(fit, sensor) for fit in fits[-2:]]
    found, now = changes(*views), views[1]
    unit, labels = now.about["unit"], found["labels"]
    where = None if found["where"] is None else now.when(np.array([found["where"]]))[0]
    whens = now.when(np.array([each["place"] for each in labels[:MAX_CHANGES]], dtype=np.intp))
    words = [
        f"{len(labels):,} reading{'s have' if len(labels) > 1 else ' has'} another label."
        if labels
        else "No reading has another label.",
        f"The truth moved by at most {quantity(found['largest'], unit)}" + (f", at {where}." if where else "."),
    ]
    return {
        "before": fits[-2].id,
        "now": fits[-1].id,
        "labels": [
            {
                "row": int(now.columns["row"][each["place"]]) + 1,
                "when": when,
                "before": "good" if each["now"] == "bad" else "bad",
                "now": each["now"],
            }
            for each, when in zip(labels[:MAX_CHANGES], whens, strict=True)
        ],
        "truth_moved": {"largest": found["largest"], "where": where},
        "episodes": {name: [each["words"] for each in found[name]] for name in ("added", "gone")},
        "words": words,
    }


def sensors_view(project: Project) -> list[dict[str, Any]]:
    """The sensors of a fleet, the worst first; none without a column that names them."""
    loaded = project.readable()
    fit = project.current()
    known = {} if fit is None else {part["name"]: part for part in fit.about["parts"]}
    found = []
    for name in _sensor_names(project, loaded) if loaded.groups else []:
        part = known.get(name)
        readings = int(loaded.inside(name).sum()) if part is None else part["readings"]
        found.append(
            {
                "name": name,
                "readings": readings,
                "flagged_share": None if part is None else part["flagged"] / max(readings, 1),
                "episodes": None if part is None else part["episodes"],
                "trustworthy": None if part is None else part["trustworthy"],
                "doubt": None if part is None else part["doubt"],
                "fitted": part is not None and part["status"] == "ok",
                "words": "not fitted yet" if part is None else on_page(part["message"]),
            }
        )
    return found


def judged_rows(project: Project, body: dict[str, Any]) -> Rows:
    """The rows that a verdict is about: named one by one, or an interval of the axis."""
    loaded, sensor = project.readable(), body.get("sensor")
    if sensor is not None and sensor not in loaded.groups:
        raise MissingError("There is no such sensor in this table.")
    if "rows" in body:
        rows = np.array(body["rows"], dtype=np.intp) - 1
        n = len(loaded.usable)
        outside = rows[(rows < 0) | (rows >= n)]
        if len(outside):
            raise MissingError(f"The table has no row {int(outside[0]) + 1}.")
        unused = rows[~loaded.usable[rows]]
        if len(unused):
            raise MissingError(f"Row {int(unused[0]) + 1} is not used, so nothing can be said of it.")
        return rows
    if loaded.groups and sensor is None:
        raise WrongUseError("Name the sensor that the interval is of: others have readings at the same times.")
    values = loaded.axis.values
    return np.flatnonzero(loaded.inside(sensor) & (values >= body["from"]) & (values <= body["to"]))


def _numbers(values: Array, digits: int = DIGITS) -> list[float | None]:
    """For JSON: few digits, None for what is not a number."""
    form = f"%.{digits}g"
    return [float(form % value) if math.isfinite(value) else None for value in values.tolist()]


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
