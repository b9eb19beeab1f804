"""A study's folder: study.json (what was asked for), results.csv (a row a task), curves.json (what figures draw).

tasks.jsonl, the runner's log, is the source of the last two while a study runs. A folder without it, as it is kept in a
repository, is complete all the same.
"""

from __future__ import annotations

import csv
import json
import math
import os
import platform
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
TEXT = frozenset({"dataset", "kernel", "response", "method", "status", "message"})
INTEGERS = frozenset({"scenario", "replicate"})

Row = dict[str, Any]


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
    return Results(
        folder,
        json.loads(path.read_text(encoding="utf-8")),
        read_rows(folder / RESULTS),
        json.loads(curves.read_text(encoding="utf-8")) if curves.exists() else {},
    )


def claim(folder: Path, kind: str, configuration: Mapping[str, Any], extend: bool = False) -> None:
    """Make the folder this study's, or see that it is already; ConfigurationError if it is another's.

    With extend it may be a smaller study of the same kind: fewer replicates, or some of the data sets, methods ….
    """
    path = folder / STUDY
    here = json.loads(json.dumps({"kind": kind, "biasgp": __version__, **configuration}))
    if path.exists():
        study = json.loads(path.read_text(encoding="utf-8"))
        there = {"kind": study.get("kind"), "biasgp": study.get("biasgp"), **study.get("configuration", {})}
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
    return name == "replicates" and there is not None and here is not None and there <= here


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
    return str(value)


def read_rows(path: Path) -> list[Row]:
    """The rows of a results.csv: numbers as numbers, an empty number as nan."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _value(name, text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(name: str, text: str) -> Any:
    if name in TEXT:
        return text
    if text == "":
        return math.nan
    return int(text) if name in INTEGERS else float(text)


def row_of(identity: Row, outcome: Outcome) -> Row:
    """A task's row: what it was, its scores if it has any, and how it ended."""
    scores = (outcome.value or {}).get("row", {})
    message = outcome.message or scores.get("message", "")
    return {**identity, **scores, "status": outcome.status, "message": message}


def outcome_of(key: str, row: Row, curve: Any) -> Outcome:
    """Back from a row, so that a folder without the runner's log can be gone on with."""
    if row["status"] != "ok":
        return Outcome(key, row["status"], message=row["message"])
    kept = (*SCORES, "n_gross", "gross_found", "clean_flagged", "message")
    return Outcome(key, "ok", {"row": {name: row[name] for name in kept if name in row}, "curve": curve})
