"""A study's folder: study.json (what was asked for), results.csv (one row per task), curves.json (what figures draw).

tasks.jsonl, the runner's log, is the source of the last two while a study runs. A folder without it, as it is kept in a
repository, is complete all the same.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import platform
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from biasgp import __version__
from biasgp.study.scoring import SCORES

STUDY, RESULTS, CURVES, TASKS = "study.json", "results.csv", "curves.json", "tasks.jsonl"
COLUMNS = {
    "simulated": (
        *("dataset", "kernel", "scenario", "q", "mu", "sigma", "replicate", "method"),
        *SCORES,
        *("status", "message"),
    ),
    "sensor": (
        *("dataset", "kernel", "response", "share", "replicate", "method"),
        *SCORES,
        *("n_gross", "gross_found", "clean_flagged", "status", "message"),
    ),
    "tables": (
        *("dataset", "regime", "replicate", "method"),
        *(name for name in SCORES if name != "mse_f"),
        *("mae", "nlpd_dirty", "status", "message"),
    ),
}
"""Of results.csv, by the kind of study: those that identify a task end with its method."""
TEXT = frozenset({"dataset", "kernel", "regime", "response", "method", "status", "message"})
INTEGERS = frozenset({"scenario", "replicate"})
PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "distributed", "robustgp", "botorch", "gpboost")
"""Those whose versions are noted."""
MAX_DETAIL = 200
"""Characters of an error from elsewhere that are shown."""

_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")

Row = dict[str, Any]


class ConfigurationError(ValueError):
    """A folder holds the results of another study; the message names the difference.

    Examples
    --------
    >>> import tempfile
    >>> from dataclasses import replace
    >>> from biasgp.study import Execution, SimulatedDesign, simulated
    >>> small = SimulatedDesign(datasets=("friedman",), scenarios=(1,), replicates=1, methods=("gp",), n=30, n_test=20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = simulated(folder, small, Execution(progress=False))
    ...     simulated(folder, replace(small, n=40))
    Traceback (most recent call last):
    biasgp.study.results.ConfigurationError: ... holds another study: n: 30 there, 40 here. Choose another folder...
    """


@dataclass(frozen=True)
class Results:
    """The results of a study: one row per task, and the curves of its figures.

    Examples
    --------
    >>> from pathlib import Path
    >>> from biasgp.study import Results
    >>> Results(Path("roof"), {"kind": "sensor"}, [{"method": "gp", "mse": 0.5}], {}).to_pandas()["mse"].tolist()
    [0.5]
    """

    folder: Path
    study: dict[str, Any]
    rows: list[Row]
    curves: dict[str, Any]

    @property
    def kind(self) -> str:
        """ "simulated", "sensor" or "tables"."""
        return str(self.study["kind"])

    def to_pandas(self) -> Any:
        """The rows as a data frame."""
        import pandas as pd  # type: ignore[import-untyped,unused-ignore]

        return pd.DataFrame(self.rows)


def load(folder: str | Path) -> Results:
    """A study's results from its folder alone; ValueError for a file that is not what a study writes.

    Examples
    --------
    >>> import tempfile
    >>> from biasgp.study import Execution, SimulatedDesign, load, simulated
    >>> small = SimulatedDesign(datasets=("friedman",), scenarios=(1,), replicates=1, methods=("gp",), n=30, n_test=20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = simulated(folder, small, Execution(progress=False))
    ...     load(folder).rows == found.rows
    True
    """
    folder = Path(folder)
    if not (folder / STUDY).exists():
        raise FileNotFoundError(f"{folder} has no {STUDY}: it is not the folder of a study.")
    if not (folder / RESULTS).exists():
        raise FileNotFoundError(f"{folder} has no {RESULTS} yet: run the study's command again to go on with it.")
    study = _read_study(folder / STUDY)
    rows = _read_rows(folder / RESULTS, COLUMNS[study["kind"]])
    return Results(folder, study, rows, _read_json(folder / CURVES) if (folder / CURVES).exists() else {})


def _read_json(path: Path) -> dict[str, Any]:
    """A file that holds a JSON object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({_one_line(error)}).") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it holds no JSON object.")
    return found


def _read_study(path: Path) -> dict[str, Any]:
    study = _read_json(path)
    parts = {"kind": str, "biasgp": str, "configuration": dict, "versions": dict, "machine": dict}
    wrong = [name for name, kind in parts.items() if not isinstance(study.get(name), kind)]
    if wrong or study["kind"] not in COLUMNS:
        raise ValueError(f"{path} is not that of a study: its {wrong[0] if wrong else 'kind'} makes no sense.")
    methods = study["configuration"].get("methods")
    named = isinstance(methods, list) and all(isinstance(name, str) for name in methods)
    if not named or "cores" not in study["machine"]:
        raise ValueError(f"{path} is not that of a study: it names no methods, or no machine.")
    return study


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:MAX_DETAIL]


def claim(folder: Path, kind: str, configuration: Mapping[str, Any], extend: bool = False) -> None:
    """Make the folder this study's, or check that it is; ConfigurationError if it holds another study.

    With extend it may hold a smaller study of the same kind: fewer replicates, data sets, methods ….
    """
    path, earlier = folder / STUDY, []
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
        earlier = [*study.get("earlier", []), {"configuration": study["configuration"], "versions": study["versions"]}]
    versions: dict[str, str | None] = {"python": platform.python_version(), **dict.fromkeys(PACKAGES)}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    description = {
        "kind": kind,
        "biasgp": __version__,
        "configuration": dict(configuration),
        "versions": versions,
        "machine": {"cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"},
    }
    # What was run before a study was extended may have been run with other packages.
    if any(each["versions"] != versions for each in earlier):
        description["earlier"] = earlier
    write_atomically(path, json.dumps(description, indent=1, ensure_ascii=False) + "\n")


def _grows(name: str, there: Any, here: Any) -> bool:
    if isinstance(there, list) and isinstance(here, list):
        return set(map(str, there)) <= set(map(str, here))
    return name == "replicates" and isinstance(there, int) and there <= here


def _show(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def write(folder: Path, kind: str, rows: Iterable[Row], curves: Mapping[str, Any]) -> None:
    """results.csv and curves.json, each whole or not at all."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS[kind])
    lines.writerows([_cell(row.get(name, math.nan)) for name in COLUMNS[kind]] for row in rows)
    write_atomically(folder / RESULTS, text.getvalue())
    if curves:
        write_atomically(folder / CURVES, json.dumps(curves, separators=(",", ":"), sort_keys=True) + "\n")


def write_atomically(path: Path, content: str | bytes) -> None:
    """The whole new file, or the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    text = str(value)
    # A spreadsheet would run it; _value takes the apostrophe away again.
    return f"'{text}" if _FORMULA.match(text) else text


def _read_rows(path: Path, columns: tuple[str, ...]) -> list[Row]:
    """The rows of a results.csv: numbers as numbers, an empty number as nan."""
    rows: list[Row] = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows.extend({name: _value(name, text) for name, text in row.items()} for row in csv.DictReader(file))
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path} is damaged after row {len(rows)} ({_one_line(error)}).") from None
    missing = [name for name in columns if rows and name not in rows[0]]
    if missing:
        raise ValueError(f"{path} is not that of a study: it has no column {missing[0]}.")
    return rows


def _value(name: str | None, text: str | None) -> Any:
    if name is None or text is None:
        raise ValueError("a row with more or fewer cells than the header")
    if name in TEXT:
        return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
    if text == "":
        return math.nan
    return int(text) if name in INTEGERS else float(text)
