"""A study's folder: study.json (what was asked for), results.csv (one row per task), curves.json (what figures draw).

tasks.jsonl, the runner's log, is the source of the last two while a study runs. A folder without it, as it is kept in a
repository, is complete all the same.
"""

from __future__ import annotations

import csv
import json
import math
import os
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from biasgp import __version__
from biasgp.runner import Outcome
from biasgp.study.scoring import SCORES

STUDY, RESULTS, CURVES, TASKS = "study.json", "results.csv", "curves.json", "tasks.jsonl"
SIMULATED_COLUMNS = (
    *("dataset", "kernel", "scenario", "q", "mu", "sigma", "replicate", "method"),
    *SCORES,
    *("status", "message"),
)
SENSOR_COLUMNS = (
    *("dataset", "kernel", "response", "share", "replicate", "method"),
    *SCORES,
    *("n_gross", "gross_found", "clean_flagged", "status", "message"),
)
COLUMNS = {"simulated": SIMULATED_COLUMNS, "sensor": SENSOR_COLUMNS}
TEXT = frozenset({"dataset", "kernel", "response", "method", "status", "message"})
INTEGERS = frozenset({"scenario", "replicate"})

_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")

Row = dict[str, Any]


class DamagedStudyError(ValueError):
    """A file of a study's folder is not what a study writes; the message names it."""


class ConfigurationError(ValueError):
    """A folder holds the results of another study; the message names the difference."""


@dataclass(frozen=True)
class Results:
    """What a study left behind."""

    folder: Path
    study: dict[str, Any]
    rows: list[Row]
    curves: dict[str, Any]

    @property
    def kind(self) -> str:
        """ "simulated" or "sensor"."""
        return str(self.study["kind"])

    def to_pandas(self) -> Any:
        """The rows as a data frame."""
        import pandas as pd  # type: ignore[import-untyped,unused-ignore]

        return pd.DataFrame(self.rows)


def load(folder: str | Path) -> Results:
    """A study's results from its folder alone."""
    folder = Path(folder)
    path = folder / STUDY
    if not path.exists():
        raise FileNotFoundError(f"{folder} has no {STUDY}: it is not the folder of a study.")
    if not (folder / RESULTS).exists():
        raise FileNotFoundError(f"{folder} has no {RESULTS} yet: run the study's command again to go on with it.")
    curves = folder / CURVES
    study = _read_study(path)
    rows = read_rows(folder / RESULTS)
    _refuse_foreign_rows(folder / RESULTS, rows, study["kind"])
    return Results(folder, study, rows, _read_json(curves) if curves.exists() else {})


def _read_json(path: Path) -> dict[str, Any]:
    """A file that holds a JSON object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedStudyError(f"{path} is damaged ({_one_line(error)}).") from None
    if not isinstance(found, dict):
        raise DamagedStudyError(f"{path} is damaged: it holds no JSON object.")
    return found


def _read_study(path: Path) -> dict[str, Any]:
    study = _read_json(path)
    parts = {"kind": str, "biasgp": str, "configuration": dict, "versions": dict, "machine": dict}
    wrong = [name for name, kind in parts.items() if not isinstance(study.get(name), kind)]
    if wrong or study["kind"] not in COLUMNS:
        raise DamagedStudyError(f"{path} is not that of a study: its {wrong[0] if wrong else 'kind'} is none.")
    methods = study["configuration"].get("methods")
    if not (
        isinstance(methods, list) and all(isinstance(name, str) for name in methods) and "cores" in study["machine"]
    ):
        raise DamagedStudyError(f"{path} is not that of a study: it names no methods, or no machine.")
    return study


def _refuse_foreign_rows(path: Path, rows: list[Row], kind: str) -> None:
    missing = [name for name in COLUMNS[kind] if rows and name not in rows[0]]
    if missing:
        raise DamagedStudyError(f"{path} is not that of a study: it has no column {missing[0]}.")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def claim(folder: Path, kind: str, configuration: Mapping[str, Any], extend: bool = False) -> None:
    """Make the folder this study's, or see that it is already; ConfigurationError if it is another's.

    With extend it may be a smaller study of the same kind: fewer replicates, or some of the data sets, methods ….
    """
    path = folder / STUDY
    here = json.loads(json.dumps({"kind": kind, "biasgp": __version__, **configuration}))
    if path.exists():
        study = _read_study(path)
        there = {"kind": study["kind"], "biasgp": study["biasgp"], **study["configuration"]}
        differences = [
            f"{name}: {_show(there.get(name))} there, {_show(here.get(name))} here"
            for name in dict.fromkeys([*there, *here])
            if there.get(name) != here.get(name) and not (extend and _grows(name, there.get(name), here.get(name)))
        ]
        if differences:
            advice = "Choose another folder" + ("." if extend else ", or add to this study with --extend.")
            raise ConfigurationError(f"{folder} holds another study: {'; '.join(differences)}. {advice}")
        if there == here:
            return
    write_atomically(path, json.dumps(_describe(kind, configuration), indent=1, ensure_ascii=False) + "\n")


def _grows(name: str, there: Any, here: Any) -> bool:
    if isinstance(there, list) and isinstance(here, list):
        return set(map(str, there)) <= set(map(str, here))
    return name == "replicates" and isinstance(there, int) and there <= here


def _show(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _describe(kind: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": kind,
        "biasgp": __version__,
        "configuration": dict(configuration),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES},
        "machine": {"cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"},
    }


_PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "distributed")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def write(folder: Path, columns: tuple[str, ...], rows: Iterable[Row], curves: Mapping[str, Any]) -> None:
    """results.csv and curves.json, each whole or not at all."""
    lines = [columns, *([_cell(row.get(name, math.nan)) for name in columns] for row in rows)]
    temporary = folder / f"{RESULTS}.part"
    with temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
        _sync(file.fileno(), file)
    temporary.replace(folder / RESULTS)
    if curves:
        write_atomically(folder / CURVES, json.dumps(curves, separators=(",", ":"), sort_keys=True) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """The whole new file, or the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        _sync(file.fileno(), file)
    temporary.replace(path)


def _sync(handle: int, file: Any) -> None:
    file.flush()
    os.fsync(handle)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    text = str(value)
    # A spreadsheet would run it; read_rows takes the apostrophe away again.
    return f"'{text}" if _FORMULA.match(text) else text


def read_rows(path: Path) -> list[Row]:
    """The rows of a results.csv: numbers as numbers, an empty number as nan."""
    rows: list[Row] = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows.extend({name: _value(name, text) for name, text in row.items()} for row in csv.DictReader(file))
    except (ValueError, csv.Error) as error:
        raise DamagedStudyError(f"{path} is damaged after row {len(rows)} ({_one_line(error)}).") from None
    return rows


def _value(name: str | None, text: str | None) -> Any:
    if name is None or text is None:
        raise ValueError("a row with more or fewer cells than the header")
    if name in TEXT:
        return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
    if text == "":
        return math.nan
    return int(text) if name in INTEGERS else float(text)


def row_of(identity: Row, outcome: Outcome) -> Row:
    """A task's row: what it was, its scores if it has any, and how it ended."""
    scores = part_of(outcome, "row") or {}
    message = outcome.message or scores.get("message", "")
    return {**scores, **identity, "status": outcome.status, "message": message}


def part_of(outcome: Outcome, name: str) -> dict[str, Any] | None:
    """The "row" or the "curve" of a task's value; None where the value is not as a study's task leaves it."""
    part = outcome.value.get(name) if isinstance(outcome.value, dict) else None
    return part if isinstance(part, dict) else None


def outcome_of(key: str, row: Row, curve: Any) -> Outcome:
    """Back from a row, so that a folder without the runner's log can be gone on with."""
    if row["status"] != "ok":
        return Outcome(key, row["status"], message=row["message"])
    kept = (*SCORES, "n_gross", "gross_found", "clean_flagged", "message")
    return Outcome(key, "ok", {"row": {name: row[name] for name in kept if name in row}, "curve": curve})
