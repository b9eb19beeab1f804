"""`biasgp predict`: a saved model at new rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biasgp.cli.console import WrongUseError, remark, say, working
from biasgp.cli.options import OUTPUT, Encoding, Force, Na, Sep, Source

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
        str | None,
        typer.Option(
            help="CSV file to write, - for standard output. Left out: TABLE-predicted.csv.", rich_help_panel=OUTPUT
        ),
    ] = None,
    force: Force = False,
    na: Na = None,
    sep: Sep = None,
    encoding: Encoding = None,
) -> None:
    """Predict new rows with a fitted model: mean, standard deviation and 95 % interval."""
    from biasgp.cli.output import inert, write_whole
    from biasgp.data.table import read_table
    from biasgp.persistence import read_model

    with working("Reading"):
        saved = read_model(model)
        if "features" not in saved.about:
            raise WrongUseError(f"{model.name} does not say which columns it needs: it was not made by `biasgp fit`.")
        read = read_table(table, sep=sep, encoding=encoding, na=tuple(na or ()))
        readings = _readings(read, saved.about)
    with working("Predicting"):
        frame = inert(_predicted(read, readings, saved))
    if out == "-":
        frame.to_csv(sys.stdout, index=False)
        return
    path = Path(out) if out else Path(f"{'stdin' if table == '-' else Path(table).stem}-predicted.csv")
    write_whole(path, lambda stage: frame.to_csv(stage, index=False), force=force)
    say(f"{int(readings.complete.sum()):,} of {len(read):,} rows predicted; they are in {path}")


def _readings(table: Table, about: dict[str, Any]) -> Readings:
    """The model's columns of a new table; rows with a missing input are kept, and not predicted."""
    import numpy as np

    from biasgp.data.columns import Feature, Readings

    features = tuple(Feature.from_dict(fields) for fields in about["features"])
    X = np.column_stack([feature.values(table) for feature in features])
    target = about["target"]
    y = table.numbers(target) if target in table.columns else np.full(len(table), np.nan)
    readings = Readings(target, features, X, y, np.isfinite(y), (), None, ())
    low, high = np.array(about["ranges"]).T
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

    from biasgp.cli import analysis
    from biasgp.cli.record import with_columns

    rows = np.arange(len(table))
    X = analysis.frame(readings, rows)
    prediction = analysis.predict(saved.estimator, X)
    noisy = np.full((2, len(X)), np.nan)
    ready = readings.complete
    noisy[:, ready] = saved.estimator.predict_quantiles(X[ready], analysis.LEVELS[::2], include_noise=True).T
    columns: dict[str, Any] = {
        "mean": prediction.mean,
        "std": prediction.std,
        "low_95": prediction.low,
        "high_95": prediction.high,
        "reading_low_95": noisy[0],
        "reading_high_95": noisy[1],
    }
    if np.isfinite(readings.y).any():
        verdict = analysis.judge_new(saved.estimator, readings, prediction)
        columns["bias"] = verdict.bias
        columns["outlier_probability"] = verdict.probability
        columns["flag"] = np.where(np.isfinite(readings.y), verdict.flagged.astype(int).astype(object), "")
    return with_columns(table.cells, columns)
