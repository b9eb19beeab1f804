"""`biasgp compare`: every method on the user's own data, by cross-validation with scores that outliers do not rule."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from biasgp.cli import options
from biasgp.cli.console import refuse_empty, remark, say, working
from biasgp.cli.options import of_model, of_output
from biasgp.messages import WrongUseError

if TYPE_CHECKING:
    from biasgp.analysis.scores import MethodScore

EXAMPLE = """Example:  biasgp compare readings.csv --target no_ppb --features time,temperature_c

Scores are of readings held out in turn. Some of them may be outliers, so no score rests on squared errors."""


def compare(
    table: options.Source,
    target: options.Target = None,
    features: options.Features = None,
    methods: Annotated[
        str | None, of_model(help="Short names with commas between. Left out: all but mcmc, which is slow.")
    ] = None,
    folds: Annotated[int, of_model(min=2, max=20, help="Parts of the data.")] = 5,
    max_rows: Annotated[int, of_model(min=20, help="Rows to use, evenly spread.")] = 500,
    response: options.Transform = options.Response.auto,
    kernel: options.Kernel = "matern32",
    na: options.Na = None,
    where: options.Where = None,
    seed: options.Seed = 0,
    sep: options.Sep = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = None,
    day_first: options.DayFirst = None,
    header: options.Header = None,
    out: Annotated[Path | None, of_output(help="CSV file for the table.")] = None,
    force: options.Force = False,
) -> None:
    """Compare the methods on your own readings by cross-validation."""
    from biasgp.analysis.fitting import Selection, Settings
    from biasgp.analysis.scores import cross_validate
    from biasgp.cli.output import new_file

    refuse_empty(target=target, features=features, where=where, encoding=encoding, methods=methods)
    given = [name.value for name in options.MethodName if name != "mcmc"] if methods is None else methods.split(",")
    chosen = dict.fromkeys(name.strip() for name in given)
    settings = [Settings(name, response.value, kernel, 0.0, seed, max_rows) for name in chosen if name]
    if kernel == "auto":
        raise WrongUseError("--kernel auto: a comparison needs one kernel for all folds. Name it, as matern32.")
    for each in settings:
        each.estimator()  # refuses what is no method before the table is read
    marks = tuple(na or ())
    selection = Selection(table, target, features, marks, where, sep, encoding, None, decimal, day_first, header)
    readings = selection.readings(selection.table())
    remark(*readings.notes)
    with nullcontext() if out is None else new_file(out, force=force) as stage:
        rows = cross_validate(readings, settings, folds, working)
        _show(rows, min(max_rows, int(readings.kept.sum())), folds)
        if stage is not None:
            import pandas as pd

            pd.DataFrame([row.flat() for row in rows]).to_csv(stage, index=False)


def _show(rows: list[MethodScore], n: int, folds: int) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    title = f"{n} readings, {folds} folds, best first"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("method", "median error", "trimmed NLPD", "log density", "95 % holds", "flagged", "s/fit"):
        table.add_column(heading, justify="left" if heading == "method" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row.cells(), style="bold" if row.as_good_as_best else "")
    Console(highlight=False).print(table)
    say(
        "Median error: of the held-out readings, in the target's unit. Trimmed NLPD: under the noise alone, without "
        "the tenth of the readings that all methods miss most; smaller is better. Log density: of all held-out "
        "readings, outliers admitted; larger is better, and the table's order. ± is one standard error over readings. "
        "Bold: not worse than the best by two standard errors of the difference."
    )
    say(*(f"{row.method} failed: {row.error}" for row in rows if row.error), style="yellow")
