"""The files of a fit: the page, the table with what was found, the summary, the model and the verdicts."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from biasgp.analysis.filling import fill_step, filled
from biasgp.analysis.fitting import Settings
from biasgp.analysis.flags import FlagScheme, flags_of
from biasgp.analysis.judging import Analysis
from biasgp.analysis.record import FitRecord, summary
from biasgp.analysis.verdicts import KEPT
from biasgp.data.columns import Readings
from biasgp.data.table import Table
from biasgp.persistence import save_model
from biasgp.report.fit_page import fit_page
from biasgp.report.forms import CSV, ResultFiles, own_suffix
from biasgp.report.inert import inert

_OWN_FLAGS = FlagScheme()


def write_results(
    folder: Path, table: Table, outcome: Analysis, plotly: str = "", scheme: FlagScheme = _OWN_FLAGS
) -> None:
    """Write what came of a fit into a folder; `plotly` as for `fit_page`."""
    flags = flags_of(outcome, scheme)
    results = ResultFiles.of(table, outcome, flags)
    save_model(folder / "model.skops", outcome.fitted.estimator, _about(table, outcome.readings, outcome.settings))
    (folder / "report.html").write_text(fit_page(FitRecord.of(outcome), plotly), encoding="utf-8")
    for suffix in {CSV, own_suffix(table)}:
        results.write(folder / f"cleaned{suffix}", table)
    if outcome.settings.fill is not None:
        inert(filled(outcome, fill_step(outcome.settings.fill))).to_csv(folder / "filled.csv", index=False)
    if outcome.readings.judged is not None:
        inert(outcome.readings.judged).to_csv(folder / KEPT, index=False)
    text = json.dumps(summary(outcome, flags), indent=1, ensure_ascii=False, allow_nan=False)
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
        "formats": {name: form.noted() for name, form in table.formats(columns).items()},
    }
