"""`biasgp predict`: a saved model at new rows."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biasgp.cli.console import refuse_empty, remark, say, working
from biasgp.cli.needs import Needs, needs_of
from biasgp.cli.options import (
    DayFirst,
    Decimal,
    Encoding,
    Force,
    Header,
    Na,
    Sep,
    Sheet,
    Skip,
    Source,
    Units,
    of_output,
)
from biasgp.messages import WrongUseError

if TYPE_CHECKING:
    from biasgp.data.columns import Readings
    from biasgp.data.table import Table
    from biasgp.persistence import SavedModel

EXAMPLE = """Example:  biasgp predict readings-no_ppb/model.skops new.csv --out predicted.csv

The table needs the features of the fit. Where it has the target too, each reading is judged."""


def predict(
    model: Annotated[Path, typer.Argument(help="A model.skops that `biasgp fit` wrote.", metavar="MODEL")],
    table: Source,
    out: Annotated[
        str | None, of_output(help="CSV file to write, - for standard output. Left out: TABLE-predicted.csv.")
    ] = None,
    force: Force = False,
    na: Na = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    day_first: DayFirst = None,
    header: Header = None,
    skip: Skip = None,
    units: Units = None,
    sheet: Sheet = None,
) -> None:
    """Predict new rows with a fitted model: mean, standard deviation and 95 % interval."""
    from biasgp.analysis.fitting import Selection
    from biasgp.cli.output import new_file
    from biasgp.persistence import read_model
    from biasgp.report.inert import inert

    refuse_empty(out=out, encoding=encoding)
    marks = tuple(na or ())
    selection = Selection(table, None, None, marks, None, sep, encoding, None, decimal, day_first, header)
    selection = replace(selection, skip=skip, units=units, sheet=sheet)
    with working("Reading"):
        saved = read_model(model)
        needs = needs_of(saved, model.name)
        # Where a table's own cells leave it open, it is read as that of the fit was.
        read = replace(selection.table(), usual=needs.formats)
        readings = _readings(read, needs)
    with working("Predicting"):
        frame = inert(_predicted(read, readings, saved))
    if out == "-":
        frame.to_csv(sys.stdout, index=False)
        return
    path = Path(out) if out else Path(f"{'stdin' if table == '-' else Path(table).stem}-predicted.csv")
    with new_file(path, force=force) as stage:
        frame.to_csv(stage, index=False)
    say(f"{int(readings.complete.sum()):,} of {len(read):,} rows predicted; they are in {path}")


def _readings(table: Table, needs: Needs) -> Readings:
    """The model's columns of a new table; rows with a missing input are kept, and not predicted."""
    import numpy as np

    from biasgp.data.columns import Readings, Sensors

    features, target = needs.features, needs.target
    X = np.column_stack([feature.values(table) for feature in features])
    y = table.column(target).numbers() if target in table.columns else np.full(len(table), np.nan)
    sensors = None
    if needs.together is not None:
        here = needs.together in table.columns
        sensors = Sensors.of(table, needs.together) if here else Sensors(needs.together, np.full(len(table), None))
        y = np.where(sensors.known, y, np.nan)  # without its sensor, a reading cannot be judged
        if not here:
            remark(f"There is no column {needs.together!r}: the truth is predicted, but no reading of a sensor.")
    readings = Readings(target, features, X, y, np.isfinite(y), (), None, (), sensors=sensors)
    used = [name for feature in features for name in feature.columns]
    notes = [table.column(name).note for name in [*used, target] if name in table.columns]
    remark(*filter(None, notes))
    low, high = needs.ranges.T
    outside = np.any((low > X) | (high < X), axis=1)
    if outside.any():
        remark(
            f"{int(outside.sum()):,} rows lie outside what the model was fitted to: their std says how far it reaches."
        )
    if not readings.complete.any():
        raise WrongUseError(f"{table.name} has no row with all of {', '.join(map(repr, readings.names))}.")
    return readings


def _predicted(table: Table, readings: Readings, saved: SavedModel) -> Any:
    import numpy as np

    from biasgp.analysis.judging import LEVELS, Judge

    judge = Judge(saved.estimator, readings)
    prediction, noisy = judge.prediction, np.full((2, len(table)), np.nan)
    ready = readings.complete if readings.sensors is None else readings.complete & readings.sensors.known
    if ready.any():
        noisy[:, ready] = judge.reading_quantiles(ready, LEVELS[::2]).T
    columns: dict[str, Any] = {
        "mean": prediction.mean,
        "std": prediction.std,
        "low_95": prediction.low,
        "high_95": prediction.high,
        "reading_low_95": noisy[0],
        "reading_high_95": noisy[1],
    }
    if np.isfinite(readings.y).any():
        columns |= judge.verdict().columns(readings.y)
    return table.with_columns(columns)
