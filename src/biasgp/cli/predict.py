"""`biasgp predict`: a saved model at new rows."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biasgp.cli.console import refuse_empty, remark, say, working
from biasgp.cli.needs import Needs, needs_of
from biasgp.cli.options import Force, Sheet, Source, of_output, reading
from biasgp.messages import WrongUseError

if TYPE_CHECKING:
    from biasgp.data.columns import Readings
    from biasgp.data.table import ReadOptions, Table
    from biasgp.persistence import SavedModel

EXAMPLE = """Example:  biasgp predict readings-no_ppb/model.skops new.csv --out predicted.csv

The table needs the features of the fit. Where it has the target too, each reading is judged. The result has all rows
and columns of the table and is of its form: Excel, Parquet, Feather or NetCDF where it is that, or CSV."""


@reading(sheet=Sheet)
def predict(
    model: Annotated[Path, typer.Argument(help="A model.skops that `biasgp fit` wrote.", metavar="MODEL")],
    table: Source,
    out: Annotated[
        str | None,
        of_output(
            help="File to write, of the table's form or .csv; - for CSV on standard output. Left out: TABLE-predicted, "
            "in the table's form."
        ),
    ] = None,
    force: Force = False,
    *,
    read: ReadOptions,
) -> None:
    """Predict new rows with a fitted model: mean, standard deviation and 95 % interval."""
    from biasgp.cli.output import new_file
    from biasgp.data.columns import unit_of
    from biasgp.data.table import Table
    from biasgp.persistence import read_model
    from biasgp.report.forms import ResultFiles, own_suffix
    from biasgp.report.inert import inert

    refuse_empty(out=out)
    with working("Reading"):
        saved = read_model(model)
        needs = needs_of(saved, model.name)
        # Where a table's own cells leave it open, it is read as that of the fit was.
        rows = replace(Table.read(table, read), usual=needs.formats)
        path = Path(out or f"{'stdin' if table == '-' else Path(table).stem}-predicted{own_suffix(rows)}")
        _refuse_form(path, rows)
        readings = _readings(rows, needs)
    with working("Predicting"):
        frame = _predicted(rows, readings, saved)
    if out == "-":
        inert(frame).to_csv(sys.stdout, index=False)
        return
    unit = rows.units.get(needs.target, "") or unit_of(needs.target)
    done = shlex.join(["biasgp", "predict", model.name, rows.name])
    results = ResultFiles(frame, tuple(frame.columns[len(rows.columns) :]), needs.target, unit, done)
    with new_file(path, force=force) as stage:
        results.write(stage, rows)
    say(f"{int(readings.complete.sum()):,} of {len(rows):,} rows predicted; they are in {path}")


def _refuse_form(path: Path, table: Table) -> None:
    """Refuse a name that ends in the form of another table."""
    from biasgp.report.forms import CSV, SUFFIXES, own_suffix

    own = own_suffix(table)
    if path.suffix in {*SUFFIXES.values()} - {own}:
        wanted = CSV if own == CSV else f"{own} or {CSV}"
        raise WrongUseError(
            f"--out {str(path)!r}: results come in the form of the table, {table.name}. Choose a name that ends in "
            f"{wanted}."
        )


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
    limits = table.column(target).censored if target in table.columns else None
    if limits is not None:
        count = int((limits != 0).sum())
        notes.append(f"Column {target!r}: {count:,} detection limits such as <0.5 are no readings, and not judged.")
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
