"""`biasgp compare`: every method on the user's own data, by cross-validation with scores that outliers do not rule."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from biasgp.cli.console import refuse_empty, remark, say, working
from biasgp.cli.options import (
    MODEL,
    OUTPUT,
    DayFirst,
    Decimal,
    Encoding,
    Features,
    Force,
    Header,
    KernelName,
    KernelOption,
    MethodName,
    Na,
    Response,
    ResponseOption,
    Seed,
    Sep,
    Source,
    Target,
    Where,
)
from biasgp.messages import WrongUseError

if TYPE_CHECKING:
    from biasgp.analysis.scores import Row

EXAMPLE = """Example:  biasgp compare readings.csv --target no_ppb --features time,temperature_c

Scores are of readings held out in turn. Some of them may be outliers, so no score rests on squared errors."""


def compare(
    table: Source,
    target: Target = None,
    features: Features = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Short names with commas between. Left out: all but mcmc, which is slow.", rich_help_panel=MODEL
        ),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, max=20, help="Parts of the data.", rich_help_panel=MODEL)] = 5,
    max_rows: Annotated[int, typer.Option(min=20, help="Rows to use, evenly spread.", rich_help_panel=MODEL)] = 500,
    response: ResponseOption = Response.auto,
    kernel: KernelOption = KernelName.matern32,
    na: Na = None,
    where: Where = None,
    seed: Seed = 0,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    day_first: DayFirst = None,
    header: Header = None,
    out: Annotated[Path | None, typer.Option(help="CSV file for the table.", rich_help_panel=OUTPUT)] = None,
    force: Force = False,
) -> None:
    """Compare the methods on your own readings by cross-validation."""
    from biasgp.analysis.fitting import Settings
    from biasgp.analysis.scores import cross_validate
    from biasgp.analysis.selection import Selection
    from biasgp.cli.output import new_file
    from biasgp.estimators.methods import METHODS

    refuse_empty(target=target, features=features, where=where, encoding=encoding, methods=methods)
    given = [m.value for m in MethodName if m != "mcmc"] if methods is None else [m.strip() for m in methods.split(",")]
    chosen = list(dict.fromkeys(name for name in given if name))
    unknown = [name for name in chosen if name not in METHODS]
    if unknown:
        raise WrongUseError(f"There is no method {unknown[0]!r}; there is {', '.join(METHODS)}.")
    marks = tuple(na or ())
    selection = Selection(table, target, features, marks, where, sep, encoding, None, decimal, day_first, header)
    _, readings = selection.read()
    remark(*readings.notes)
    settings = [Settings(name, response.value, kernel.value, 0.0, seed, max_rows) for name in chosen]
    with nullcontext() if out is None else new_file(out, force=force) as stage:
        rows = cross_validate(readings, settings, folds, working)
        _show(rows, min(max_rows, int(readings.kept.sum())), folds)
        if stage is not None:
            import pandas as pd

            pd.DataFrame([row.flat() for row in rows]).to_csv(stage, index=False)


def _show(rows: list[Row], n: int, folds: int) -> None:
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
    failed = [row for row in rows if row.error]
    for row in failed:
        say(f"{row.method} failed: {row.error}", style="yellow")
