"""The files of a fit: the page, the table with what was found, the summary, the model and the verdicts."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from biasgp.analysis.fitting import Settings
from biasgp.analysis.judging import Analysis
from biasgp.analysis.record import FitRecord, cleaned, summary
from biasgp.analysis.verdicts import KEPT
from biasgp.data.columns import Readings
from biasgp.data.table import Table
from biasgp.persistence import save_model
from biasgp.report.fit_page import fit_page

FORMULA = re.compile(r"^[=+\-@\t\r\n＝＋－＠]")
NUMBER_LIKE = re.compile(r"^[+-]?[\d.,\s:eE%+-]*$")


def write_results(folder: Path, table: Table, outcome: Analysis, plotly: str = "") -> None:
    """Write what came of a fit into a folder; `plotly` as for `fit_page`."""
    save_model(folder / "model.skops", outcome.fitted.estimator, _about(table, outcome.readings, outcome.settings))
    (folder / "report.html").write_text(fit_page(FitRecord.of(outcome), plotly), encoding="utf-8")
    inert(cleaned(table, outcome)).to_csv(folder / "cleaned.csv", index=False)
    if outcome.readings.judged is not None:
        inert(outcome.readings.judged).to_csv(folder / KEPT, index=False)
    text = json.dumps(summary(outcome), indent=1, ensure_ascii=False, allow_nan=False)
    (folder / "summary.json").write_text(text, encoding="utf-8")


def _about(table: Table, readings: Readings, settings: Settings) -> dict[str, object]:
    """What `biasgp predict` needs to know beside the model."""
    X = readings.X[readings.kept]
    columns = [readings.target, *(name for feature in readings.features for name in feature.columns)]
    return {
        "target": readings.target,
        "features": [asdict(feature) for feature in readings.features],
        "ranges": [[float(low), float(high)] for low, high in zip(X.min(axis=0), X.max(axis=0), strict=True)],
        "method": settings.method,
        "together": None if readings.sensors is None else readings.sensors.column,
        "formats": {name: asdict(form) for name, form in table.formats(columns).items()},
    }


def inert(frame: pd.DataFrame) -> pd.DataFrame:
    """The same table, with an apostrophe before text that a spreadsheet would run as a formula; in the header too."""
    tamed = frame.copy(deep=False)
    for name, cells in frame.items():
        if pd.api.types.is_string_dtype(cells) or pd.api.types.is_object_dtype(cells):
            tamed[name] = cells.map(lambda cell: _inert(cell) if isinstance(cell, str) else cell)
    tamed.columns = [_inert(str(name)) for name in frame.columns]
    return tamed


def _inert(cell: str) -> str:
    # -3.2, +5 and 10-03-2004 are no formulas, and must stay numbers.
    risky = FORMULA.match(cell) and (cell[0] in "=@＝＋－＠\t\r\n" or not NUMBER_LIKE.match(cell))
    return f"'{cell}" if risky else cell
